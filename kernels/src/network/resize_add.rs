//! Bilinear resize with aligned corners, plus an addend; between equal sizes it is a sum.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Resizes every plane. A thread writes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ResizeAddArgs {
    /// `[planes, from_height, from_width, 8]`
    pub input: Global<f32>,
    /// `[planes, height, width, 8]`, or none
    pub addend: Global<f32>,
    /// `[planes, height, width, 8]`
    pub output: Global<f32>,
    /// Blocks of all images.
    pub planes: u32,
    /// Rows of the input.
    pub from_height: u32,
    /// Columns of the input.
    pub from_width: u32,
    /// Rows of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and six of four.
unsafe impl Arguments for ResizeAddArgs {
    fn kernel(&self) -> &'static str {
        "resize_add"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.planes * self.height * self.width * 2)
    }
}

/// The twin: one plane, sizes as (height, width).
pub fn resize_add(input: &[f32], from: (usize, usize), addend: Option<&[f32]>, to: (usize, usize), output: &mut [f32]) {
    assert_eq!(output.len(), to.0 * to.1 * BLOCK);
    for (at, output) in output.iter_mut().enumerate() {
        let (y, x, c) = (at / BLOCK / to.1, at / BLOCK % to.1, at % BLOCK);
        let (y0, y1, fy) = neighbours(y as u32, from.0 as u32, to.0 as u32);
        let (x0, x1, fx) = neighbours(x as u32, from.1 as u32, to.1 as u32);
        let pixel = |y: u32, x: u32| input[(y as usize * from.1 + x as usize) * BLOCK + c];
        let top = mix(pixel(y0, x0), pixel(y0, x1), fx);
        let bottom = mix(pixel(y1, x0), pixel(y1, x1), fx);
        *output = mix(top, bottom, fy) + addend.map_or(0.0, |a| a[at]);
    }
}

/// The two source positions around a target position, and the weight of the second.
#[inline(always)]
pub fn neighbours(at: u32, from: u32, to: u32) -> (u32, u32, f32) {
    let last = from - 1;
    if from == to || to == 1 {
        let at = if at < last { at } else { last };
        return (at, at, 0.0);
    }
    let position = at as f32 * (last as f32 / (to - 1) as f32);
    let first = if (position as u32) < last {
        position as u32
    } else {
        last
    };
    let second = if first < last { first + 1 } else { last };
    (first, second, position - first as f32)
}

/// a + f·(b − a)
#[inline(always)]
fn mix(a: f32, b: f32, f: f32) -> f32 {
    (b - a).fma(f, a)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn resize_add(args: ResizeAddArgs) {
        let index = global_thread();
        if index >= args.planes * args.height * args.width * 2 {
            return;
        }
        let (half, pixel) = (index % 2, index / 2);
        // SAFETY: a plane has rows and columns.
        let (x, y, plane) = unsafe {
            let (row, x) = divide(pixel, args.width);
            let (plane, y) = divide(row, args.height);
            (x, y, plane)
        };
        let (y0, y1, fy) = neighbours(y, args.from_height, args.height);
        let (x0, x1, fx) = neighbours(x, args.from_width, args.width);
        // SAFETY: the neighbours lie in the input, and each thread has its own half pixel.
        unsafe {
            let from = |y: u32, x: u32| {
                let pixel = ((plane * args.from_height + y) * args.from_width + x) as usize;
                args.input.read4(pixel * BLOCK + half as usize * 4)
            };
            let (a, b, c, d) = (from(y0, x0), from(y0, x1), from(y1, x0), from(y1, x1));
            let at = index as usize * 4;
            let addend = if args.addend.is_some() {
                args.addend.read4(at)
            } else {
                [0.0; 4]
            };
            let value = |i: usize| mix(mix(a[i], b[i], fx), mix(c[i], d[i], fx), fy) + addend[i];
            args.output.store4(at, [value(0), value(1), value(2), value(3)]);
        }
    }
}

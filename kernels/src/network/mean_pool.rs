//! 2×2 mean, stride 2, plus a residual.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Halves every plane. A thread writes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MeanPoolArgs {
    /// `[planes, 2·height, 2·width, 8]`
    pub input: Global<f32>,
    /// `[planes, height, width, 8]`, or none
    pub residual: Global<f32>,
    /// `[planes, height, width, 8]`
    pub output: Global<f32>,
    /// Blocks of all images.
    pub planes: u32,
    /// Rows of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for MeanPoolArgs {
    fn kernel(&self) -> &'static str {
        "mean_pool"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.planes * self.height * self.width * 2)
    }
}

/// The twin: one plane, `height` and `width` of the output.
pub fn mean_pool(input: &[f32], residual: Option<&[f32]>, height: usize, width: usize, output: &mut [f32]) {
    assert_eq!(output.len(), height * width * BLOCK);
    for (at, output) in output.iter_mut().enumerate() {
        let (y, x, c) = (at / BLOCK / width, at / BLOCK % width, at % BLOCK);
        let pixel = |dy: usize, dx: usize| input[((2 * y + dy) * 2 * width + 2 * x + dx) * BLOCK + c];
        let sum = mean(
            pixel(0, 0),
            pixel(0, 1),
            pixel(1, 0),
            pixel(1, 1),
            residual.map_or(0.0, |r| r[at]),
        );
        *output = sum;
    }
}

/// The mean of four values plus a fifth.
#[inline(always)]
fn mean(a: f32, b: f32, c: f32, d: f32, residual: f32) -> f32 {
    ((a + b) + (c + d)).fma(0.25, residual)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn mean_pool(args: MeanPoolArgs) {
        let index = global_thread();
        if index >= args.planes * args.height * args.width * 2 {
            return;
        }
        let (half, pixel) = (index % 2, index / 2);
        // The rows of all planes follow each other: row y of the output is the mean of rows 2y and 2y + 1.
        // SAFETY: a row has pixels.
        let (y, x) = unsafe { divide(pixel, args.width) };
        let pitch = 2 * args.width as usize * BLOCK;
        let corner = 2 * y as usize * pitch + 2 * x as usize * BLOCK + half as usize * 4;
        // SAFETY: the input has four pixels for each of the output, and each thread has its own half pixel.
        unsafe {
            let (a, b) = (args.input.read4(corner), args.input.read4(corner + BLOCK));
            let (c, d) = (
                args.input.read4(corner + pitch),
                args.input.read4(corner + pitch + BLOCK),
            );
            let at = index as usize * 4;
            let residual = if args.residual.is_some() {
                args.residual.read4(at)
            } else {
                [0.0; 4]
            };
            let mean = |i: usize| mean(a[i], b[i], c[i], d[i], residual[i]);
            args.output.store4(at, [mean(0), mean(1), mean(2), mean(3)]);
        }
    }
}

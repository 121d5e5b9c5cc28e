//! 5×5 maximum, stride 1, same size; pixels outside the map do not count.

use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Rows that a thread computes: the maxima of the four rows around them are the price of cutting a column.
const STRIP: u32 = 8;

/// Pools every plane. A thread walks down a strip of a column, half a block wide, and keeps the maxima of five rows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MaxPoolArgs {
    /// `[planes, height, width, 8]`
    pub input: Global<f32>,
    /// `[planes, height, width, 8]`, another array
    pub output: Global<f32>,
    /// Blocks of all images.
    pub planes: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Nothing.
    pub unused: u32,
}

impl MaxPoolArgs {
    fn strips(&self) -> u32 {
        self.height.div_ceil(STRIP)
    }
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for MaxPoolArgs {
    fn kernel(&self) -> &'static str {
        "max_pool"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.planes * self.strips() * self.width * 2)
    }
}

/// The twin: one plane.
pub fn max_pool(input: &[f32], height: usize, width: usize, output: &mut [f32]) {
    for (at, output) in output.iter_mut().enumerate() {
        let (y, x, c) = (at / BLOCK / width, at / BLOCK % width, at % BLOCK);
        let rows = y.saturating_sub(2)..(y + 3).min(height);
        let columns = x.saturating_sub(2)..(x + 3).min(width);
        let window = rows.flat_map(|y| columns.clone().map(move |x| input[(y * width + x) * BLOCK + c]));
        *output = window.fold(f32::NEG_INFINITY, f32::max);
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[inline(always)]
    fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2]), a[3].max(b[3])]
    }

    /// One column of one plane, half a block wide.
    struct Column {
        input: Global<f32>,
        x: i32,
        height: i32,
        width: i32,
    }

    impl Column {
        /// The maximum over five pixels of row `y`.
        #[inline(always)]
        unsafe fn row(&self, y: i32) -> [f32; 4] {
            let mut best = [f32::NEG_INFINITY; 4];
            if y < 0 || y >= self.height {
                return best;
            }
            macro_rules! pixels {
                ($($dx:literal)*) => { $(
                    let x = self.x + $dx;
                    if x >= 0 && x < self.width {
                        // SAFETY: the pixel is there.
                        best = max(best, unsafe { self.input.read4((y * self.width + x) as usize * BLOCK) });
                    }
                )* };
            }
            pixels!(-2 -1 0 1 2);
            best
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn max_pool(args: MaxPoolArgs) {
        let index = global_thread();
        if index >= args.planes * args.strips() * args.width * 2 {
            return;
        }
        let half = index % 2;
        // SAFETY: a plane has rows and columns.
        let (x, strip, plane) = unsafe {
            let (column, x) = divide(index / 2, args.width);
            let (plane, strip) = divide(column, args.strips());
            (x, strip, plane)
        };
        let offset = plane as usize * (args.height * args.width) as usize * BLOCK + half as usize * 4;
        let column = Column {
            input: args.input.from(offset),
            x: x as i32,
            height: args.height as i32,
            width: args.width as i32,
        };
        let output = args.output.from(offset);
        let first = (strip * STRIP) as i32;
        // SAFETY: rows and columns outside the map are not read, and each thread has its own strip.
        unsafe {
            let (mut a, mut b) = (column.row(first - 2), column.row(first - 1));
            let (mut c, mut d) = (column.row(first), column.row(first + 1));
            let mut y = first;
            while y < first + STRIP as i32 && y < column.height {
                let e = column.row(y + 2);
                let best = max(max(max(a, b), max(c, d)), e);
                output.store4((y * column.width + column.x) as usize * BLOCK, best);
                (a, b, c, d) = (b, c, d, e);
                y += 1;
            }
        }
    }
}

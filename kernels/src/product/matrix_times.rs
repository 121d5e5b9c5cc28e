//! y = A·x for every state of a batch: A·x itself, and U·d.
//!
//! A warp computes 4 rows for 8 states: each lane takes every 32nd column, and a butterfly joins the
//! lanes. An element of A is loaded once for eight states, one of x once for four rows.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Rows of a warp.
const ROWS: usize = 4;
/// States of a warp; ROWS · STATES is a warp's worth of results.
const STATES: usize = 8;
/// Warps of a block.
const WARPS: u32 = 4;

/// The product with a row-major matrix of `E` and vectors of `X`, summed in f64.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MatrixTimesArgs<E, X> {
    /// `[rows, columns]`
    pub matrix: Global<E>,
    /// `[states, columns]`
    pub x: Global<X>,
    /// `[states, rows]`
    pub y: Global<f64>,
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
    /// States of the batch.
    pub states: u32,
    /// Nothing.
    pub unused: u32,
}

macro_rules! variant {
    ($matrix:ty, $x:ty, $name:literal) => {
        // SAFETY: repr(C), words of eight bytes and four of four.
        unsafe impl Arguments for MatrixTimesArgs<$matrix, $x> {
            fn kernel(&self) -> &'static str {
                $name
            }
            fn launch(&self) -> Launch {
                Launch {
                    grid: [
                        self.rows.div_ceil(ROWS as u32 * WARPS),
                        self.states.div_ceil(STATES as u32),
                    ],
                    threads: 32 * WARPS,
                }
            }
        }
    };
}
variant!(f32, f32, "matrix_times_f32_f32");
variant!(f64, f32, "matrix_times_f64_f32");
variant!(f64, f64, "matrix_times_f64_f64");

/// The twin: one state.
pub fn matrix_times<E: Copy + Into<f64>, X: Copy + Into<f64>>(matrix: &[E], x: &[X], y: &mut [f64]) {
    for (row, y) in matrix.chunks_exact(x.len()).zip(y) {
        *y = row.iter().zip(x).map(|(&a, &x)| a.into() * x.into()).sum();
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{WARP, block, block_y, launch_bounds, shuffle_xor_f64, thread};
    use crate::float::Float;
    use crate::product::Element;

    #[inline(always)]
    unsafe fn matrix_times<E: Element, X: Element>(args: &MatrixTimesArgs<E, X>) {
        let (lane, warp) = (thread() % WARP, thread() / WARP);
        let first_row = (block() * WARPS + warp) * ROWS as u32;
        let first_state = block_y() * STATES as u32;
        // Past the end the last row and the last state are computed again, and not stored.
        let row = |r: usize| (first_row + r as u32).min(args.rows - 1) as usize;
        let state = |s: usize| (first_state + s as u32).min(args.states - 1) as usize;
        let matrix: [Global<E>; ROWS] = core::array::from_fn(|r| args.matrix.from(row(r) * args.columns as usize));
        let x: [Global<X>; STATES] = core::array::from_fn(|s| args.x.from(state(s) * args.columns as usize));
        let mut sums = [0.0; ROWS * STATES];
        let mut column = lane;
        while column < args.columns {
            // SAFETY: row, state and column are there.
            unsafe {
                let a: [f64; ROWS] = core::array::from_fn(|r| matrix[r].read(column as usize).wide());
                let x: [f64; STATES] = core::array::from_fn(|s| x[s].read(column as usize).wide());
                for r in 0..ROWS {
                    for s in 0..STATES {
                        sums[r * STATES + s] = a[r].fma(x[s], sums[r * STATES + s]);
                    }
                }
            }
            column += WARP;
        }
        // SAFETY: all lanes come here; each stores its own result.
        unsafe {
            let sum = sum_of_lane(sums, lane);
            let (row, state) = (first_row + lane / STATES as u32, first_state + lane % STATES as u32);
            if row < args.rows && state < args.states {
                args.y.store(state as usize * args.rows as usize + row as usize, sum);
            }
        }
    }

    /// The sum over the warp of value number `lane`.
    ///
    /// Each round halves what a lane is responsible for: it gives the other half to its partner. The tree of additions
    /// is that of a butterfly, for every one of the 32 values.
    #[inline(always)]
    unsafe fn sum_of_lane(mut values: [f64; 32], lane: u32) -> f64 {
        macro_rules! halve {
            ($($half:literal)*) => { $(
                let upper = lane & $half != 0;
                for i in 0..$half {
                    let (kept, given) =
                        if upper { (values[i + $half], values[i]) } else { (values[i], values[i + $half]) };
                    // SAFETY: all lanes come here.
                    values[i] = kept + unsafe { shuffle_xor_f64(given, $half) };
                }
            )* };
        }
        halve!(16 8 4 2 1);
        values[0]
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn matrix_times_f32_f32(args: MatrixTimesArgs<f32, f32>) {
        launch_bounds::<{ 32 * WARPS }, 4>();
        // SAFETY: the launch covers the rows and states.
        unsafe { matrix_times(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn matrix_times_f64_f32(args: MatrixTimesArgs<f64, f32>) {
        launch_bounds::<{ 32 * WARPS }, 4>();
        // SAFETY: the launch covers the rows and states.
        unsafe { matrix_times(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn matrix_times_f64_f64(args: MatrixTimesArgs<f64, f64>) {
        launch_bounds::<{ 32 * WARPS }, 4>();
        // SAFETY: the launch covers the rows and states.
        unsafe { matrix_times(&args) }
    }
}

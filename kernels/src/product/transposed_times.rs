//! y = Aᵀ·g for every state of a batch: the likelihood score Aᵀ·g itself, and Uᵀ·h.
//!
//! A block computes 32 columns for 8 states: a lane has a column, the warps share the rows, and their sums are
//! joined in order at the end. A piece of g lies in shared memory, where all lanes read the same word at a time.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// Columns of a block.
const COLUMNS: u32 = 32;
/// States of a block.
const STATES: u32 = 8;

/// The product with the transpose of a row-major matrix of `E`, summed in f64 and stored as `Y`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TransposedTimesArgs<E, Y> {
    /// `[rows, columns]`
    pub matrix: Global<E>,
    /// `[states, rows]`
    pub g: Global<f64>,
    /// `[states, columns]`
    pub y: Global<Y>,
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
    ($matrix:ty, $y:ty, $name:literal) => {
        // SAFETY: repr(C), words of eight bytes and four of four.
        unsafe impl Arguments for TransposedTimesArgs<$matrix, $y> {
            fn kernel(&self) -> &'static str {
                $name
            }
            fn launch(&self) -> Launch {
                Launch {
                    grid: [self.columns.div_ceil(COLUMNS), self.states.div_ceil(STATES)],
                    threads: THREADS,
                }
            }
        }
    };
}
variant!(f32, f32, "transposed_times_f32_f32");
variant!(f64, f32, "transposed_times_f64_f32");
variant!(f64, f64, "transposed_times_f64_f64");

/// The twin: one state.
pub fn transposed_times<E: Copy + Into<f64>>(matrix: &[E], g: &[f64], y: &mut [f64]) {
    let columns = y.len();
    for (column, y) in y.iter_mut().enumerate() {
        *y = g
            .iter()
            .enumerate()
            .map(|(row, g)| matrix[row * columns + column].into() * g)
            .sum();
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{Shared, WARP, barrier, block, block_y, shared_memory, thread};
    use crate::float::Float;
    use crate::product::Element;

    const WARPS: u32 = THREADS / WARP;
    /// Rows of g in shared memory at a time.
    const ROWS: u32 = THREADS / STATES;
    /// Rows of a warp in each piece of g.
    const ROWS_OF_WARP: usize = (ROWS / WARPS) as usize;

    // g as `[ROWS][STATES]`, and at the end the sums as `[WARPS][STATES][COLUMNS]`, in f64.
    shared_memory!(scratch, "QCS_TRANSPOSED_TIMES", 16384);

    #[inline(always)]
    unsafe fn transposed_times<E: Element, Y: Element>(args: &TransposedTimesArgs<E, Y>) {
        let (lane, warp) = (thread() % WARP, thread() / WARP);
        let first_state = block_y() * STATES;
        // Past the end the last column and the last state are computed again, and not stored.
        let column = (block() * COLUMNS + lane).min(args.columns - 1) as usize;
        let (place_row, place_state) = (thread() / STATES, thread() % STATES);
        let g = args
            .g
            .from((first_state + place_state).min(args.states - 1) as usize * args.rows as usize);
        let mut sums = [0.0; STATES as usize];
        let mut first = 0;
        while first < args.rows {
            // SAFETY: all threads come here; rows past the end count with g = 0.
            unsafe {
                let row = first + place_row;
                let value = if row < args.rows { g.read(row as usize) } else { 0.0 };
                scratch().at(thread() * 8).store_f64(value);
                barrier();
                let own = warp * ROWS_OF_WARP as u32;
                let a: [f64; ROWS_OF_WARP] = core::array::from_fn(|r| {
                    let row = (first + own + r as u32).min(args.rows - 1) as usize;
                    args.matrix.read(row * args.columns as usize + column).wide()
                });
                for r in 0..ROWS_OF_WARP {
                    let row = scratch().at((own + r as u32) * STATES * 8);
                    sums = add(a[r], row, sums);
                }
                barrier();
            }
            first += ROWS;
        }
        // SAFETY: all threads come here; each stores its own result.
        unsafe {
            for s in 0..STATES as usize {
                scratch()
                    .at(((warp * STATES + s as u32) * COLUMNS + lane) * 8)
                    .store_f64(sums[s]);
            }
            barrier();
            // A thread joins the warps for one column of one state: warp w takes state w.
            let (column, state) = (block() * COLUMNS + lane, first_state + warp);
            let mut sum = 0.0;
            let mut other = 0;
            while other < WARPS {
                sum += scratch().at(((other * STATES + warp) * COLUMNS + lane) * 8).load_f64();
                other += 1;
            }
            if column < args.columns && state < args.states {
                args.y
                    .store(state as usize * args.columns as usize + column as usize, Y::narrow(sum));
            }
        }
    }

    /// sums + a·g for the eight states of one row of g.
    #[inline(always)]
    unsafe fn add(a: f64, row: Shared, sums: [f64; STATES as usize]) -> [f64; STATES as usize] {
        // SAFETY: a row holds eight states.
        unsafe {
            let ([g0, g1], [g2, g3]) = (row.load2_f64(), row.at(16).load2_f64());
            let ([g4, g5], [g6, g7]) = (row.at(32).load2_f64(), row.at(48).load2_f64());
            [
                a.fma(g0, sums[0]),
                a.fma(g1, sums[1]),
                a.fma(g2, sums[2]),
                a.fma(g3, sums[3]),
                a.fma(g4, sums[4]),
                a.fma(g5, sums[5]),
                a.fma(g6, sums[6]),
                a.fma(g7, sums[7]),
            ]
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn transposed_times_f32_f32(args: TransposedTimesArgs<f32, f32>) {
        // SAFETY: the launch covers the columns and states.
        unsafe { transposed_times(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn transposed_times_f64_f32(args: TransposedTimesArgs<f64, f32>) {
        // SAFETY: the launch covers the columns and states.
        unsafe { transposed_times(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn transposed_times_f64_f64(args: TransposedTimesArgs<f64, f64>) {
        // SAFETY: the launch covers the columns and states.
        unsafe { transposed_times(&args) }
    }
}

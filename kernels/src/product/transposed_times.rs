//! y = Aᵀ·g for every state of a batch: the likelihood score Aᵀ·g itself, and Uᵀ·h.
//!
//! A block computes 8 columns for 8 states: eight lanes have a column each, 32 such *groups* share the rows, and their sums
//! are joined in order at the end. So few columns are two sectors of a row, and a matrix of 2000 columns gives 250 blocks:
//! with a quarter of them most multiprocessors of a V100 had one, and memory was at 421 of 900 GB/s in a simulator. A piece of g
//! lies in shared memory, where all lanes of a group read the same word at a time.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// Columns of a block.
const COLUMNS: u32 = 8;
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
    use crate::device::{Shared, barrier, block, block_y, shared_memory, thread};
    use crate::float::Float;
    use crate::product::Element;

    /// Threads that share the rows of a column.
    const GROUPS: u32 = THREADS / COLUMNS;
    /// Rows of a group in each piece of g.
    const ROWS_OF_GROUP: usize = 4;
    /// Rows of g in shared memory at a time.
    const ROWS: u32 = GROUPS * ROWS_OF_GROUP as u32;

    // g as `[ROWS][STATES]`, and at the end the sums as `[GROUPS][STATES][COLUMNS]`, in f64.
    shared_memory!(scratch, "QCS_TRANSPOSED_TIMES", 16384);

    #[inline(always)]
    unsafe fn transposed_times<E: Element, Y: Element>(args: &TransposedTimesArgs<E, Y>) {
        let (group, of_group) = (thread() / COLUMNS, thread() % COLUMNS);
        let first_state = block_y() * STATES;
        // Past the end the last column and the last state are computed again, and not stored.
        let column = (block() * COLUMNS + of_group).min(args.columns - 1) as usize;
        let (place_row, place_state) = (thread() / STATES, thread() % STATES);
        let g = args
            .g
            .from((first_state + place_state).min(args.states - 1) as usize * args.rows as usize);
        let mut sums = [0.0; STATES as usize];
        let mut first = 0;
        while first < args.rows {
            // SAFETY: all threads come here; rows past the end count with g = 0.
            unsafe {
                // All loads of a piece are on their way before the first is waited for.
                let a: [f64; ROWS_OF_GROUP] = core::array::from_fn(|r| {
                    let row = (first + r as u32 * GROUPS + group).min(args.rows - 1) as usize;
                    args.matrix.read(row * args.columns as usize + column).wide()
                });
                let values: [f64; ROWS_OF_GROUP] = core::array::from_fn(|r| {
                    let row = first + r as u32 * GROUPS + place_row;
                    if row < args.rows { g.read(row as usize) } else { 0.0 }
                });
                for r in 0..ROWS_OF_GROUP {
                    scratch().at((r as u32 * THREADS + thread()) * 8).store_f64(values[r]);
                }
                barrier();
                for r in 0..ROWS_OF_GROUP {
                    let row = scratch().at((r as u32 * GROUPS + group) * STATES * 8);
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
                    .at(((group * STATES + s as u32) * COLUMNS + of_group) * 8)
                    .store_f64(sums[s]);
            }
            barrier();
            // A thread joins the groups for one column of one state.
            let (column, state) = (block() * COLUMNS + of_group, first_state + group);
            if group < STATES && column < args.columns && state < args.states {
                let mut sum = 0.0;
                let mut other = 0;
                while other < GROUPS {
                    sum += scratch()
                        .at(((other * STATES + group) * COLUMNS + of_group) * 8)
                        .load_f64();
                    other += 1;
                }
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

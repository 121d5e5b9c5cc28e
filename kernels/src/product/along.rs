//! A small matrix along one axis of an array: what a separable operator is made of.
//!
//! The array is `[outer, columns, inner]`, the result `[outer, rows, inner]`. Where the axis is not the last, a slice
//! `[columns, inner]` is multiplied from the left; where it is, all of the array, `[outer, columns]`, is multiplied from the
//! right by the transposed matrix. Both are products of two row-major matrices, neighbouring threads have neighbouring
//! columns of the right one, and a thread sums four rows of the left one.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Rows of a thread.
const ROWS: u32 = 4;

/// The axis, and what the matrix makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Slices before the axis.
    pub outer: usize,
    /// Of the matrix, and the axis' length in the result.
    pub rows: usize,
    /// Of the matrix, and the axis' length in the array.
    pub columns: usize,
    /// Elements behind the axis.
    pub inner: usize,
}

/// `groups` products of row-major matrices, `left` `[rows, terms]` and `right` `[terms, width]`, one after the other in `output`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AlongArgs {
    /// The same for all groups
    pub left: Global<f64>,
    /// One for each group
    pub right: Global<f64>,
    /// `[groups, rows, width]`
    pub output: Global<f64>,
    /// How many products.
    pub groups: u32,
    /// Of the left matrix.
    pub rows: u32,
    /// Of each sum.
    pub terms: u32,
    /// Columns of a right matrix.
    pub width: u32,
}

impl AlongArgs {
    /// `matrix`, whose transpose lies at `transposed`, along an axis of all states' arrays.
    pub fn new(
        matrix: Global<f64>,
        transposed: Global<f64>,
        axis: Axis,
        states: u32,
        input: Global<f64>,
        output: Global<f64>,
    ) -> Self {
        let outer = states * axis.outer as u32;
        let (left, right, groups, rows, width) = if axis.inner > 1 {
            (matrix, input, outer, axis.rows as u32, axis.inner as u32)
        } else {
            (input, transposed, 1, outer, axis.rows as u32)
        };
        Self {
            left,
            right,
            output,
            groups,
            rows,
            terms: axis.columns as u32,
            width,
        }
    }

    const fn tiles(&self) -> u32 {
        self.rows.div_ceil(ROWS)
    }
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for AlongArgs {
    fn kernel(&self) -> &'static str {
        "along"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.groups * self.tiles() * self.width)
    }
}

/// The twin: one state.
pub fn along(matrix: &[f64], axis: Axis, input: &[f64], output: &mut [f64]) {
    let slices = input.chunks_exact(axis.columns * axis.inner);
    for (input, output) in slices.zip(output.chunks_exact_mut(axis.rows * axis.inner)) {
        let rows = matrix.chunks_exact(axis.columns);
        for (row, output) in rows.zip(output.chunks_exact_mut(axis.inner)) {
            output.fill(0.0);
            for (&factor, input) in row.iter().zip(input.chunks_exact(axis.inner)) {
                for (output, &input) in output.iter_mut().zip(input) {
                    *output += factor * input;
                }
            }
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::global_thread;
    use crate::float::Float;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn along(args: AlongArgs) {
        let thread = global_thread();
        let (column, tile) = (thread % args.width, thread / args.width);
        let (tile, group) = (tile % args.tiles(), tile / args.tiles());
        if group >= args.groups {
            return;
        }
        let (width, terms) = (args.width as usize, args.terms as usize);
        // Past the end the last row is summed again, and not stored.
        let row = |r: u32| (tile * ROWS + r).min(args.rows - 1) as usize;
        let left: [Global<f64>; ROWS as usize] = core::array::from_fn(|r| args.left.from(row(r as u32) * terms));
        let right = args.right.from(group as usize * terms * width + column as usize);
        let mut sums = [0.0; ROWS as usize];
        let mut term = 0;
        while term < terms {
            // SAFETY: rows, terms and the column are there.
            unsafe {
                let factor = right.read(term * width);
                for r in 0..ROWS as usize {
                    sums[r] = left[r].read(term).fma(factor, sums[r]);
                }
            }
            term += 1;
        }
        let output = args
            .output
            .from(group as usize * args.rows as usize * width + column as usize);
        for r in 0..ROWS {
            if tile * ROWS + r < args.rows {
                // SAFETY: the row is there, and this thread's alone.
                unsafe { output.store(row(r) * width, sums[r as usize]) }
            }
        }
    }
}

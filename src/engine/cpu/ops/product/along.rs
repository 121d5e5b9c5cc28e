//! A small matrix along one axis: products of two row-major matrices, a tile of four rows by eight columns in registers.
//!
//! Every sum runs over its terms in order, whatever else is computed with it.

use qcs_kernels::product::along::Axis;

use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;

/// Rows of a tile.
const ROWS: usize = 4;
/// Columns of a tile.
const COLUMNS: usize = 8;
/// Terms whose columns are copied side by side, so that a tile reads them one after the other: 16 KiB.
const TERMS: usize = 256;
/// Rows of one task.
const TASK: usize = 32;

/// `matrix` along an axis of every state; its transpose serves where the axis is the last.
pub fn along(
    threads: &mut Threads,
    isa: Isa,
    (matrix, transposed): (&[f64], &[f64]),
    axis: Axis,
    input: &[f64],
    output: &mut [f64],
) {
    let Axis {
        rows, columns, inner, ..
    } = axis;
    if inner == 1 {
        products(threads, isa, (input, columns), (transposed, rows), usize::MAX, output);
    } else {
        products(threads, isa, (matrix, columns), (input, inner), rows, output);
    }
}

/// output = left·right: `left` is `[rows, terms]` for every right matrix, `right` any number of `[terms, width]`.
fn products(
    threads: &mut Threads,
    isa: Isa,
    (left, terms): (&[f64], usize),
    (right, width): (&[f64], usize),
    rows: usize,
    output: &mut [f64],
) {
    let rows = rows.min(output.len() / width);
    threads.for_each(output, TASK * width, &|task, output| {
        let first = task * TASK;
        let last = first + output.len() / width;
        let mut row = first;
        while row < last {
            // Rows of one product.
            let (group, of_group) = (row / rows, row % rows);
            let count = (rows - of_group).min(last - row);
            let left = &left[of_group * terms..][..count * terms];
            let right = &right[group * terms * width..][..terms * width];
            let output = &mut output[(row - first) * width..][..count * width];
            dispatch!(isa, product(left: &[f64], right: &[f64], terms: usize, output: &mut [f64]));
            row += count;
        }
    });
}

#[inline(always)]
fn product<F: F32x8, D: F64x4>(left: &[f64], right: &[f64], terms: usize, output: &mut [f64]) {
    let width = right.len() / terms;
    let rows = output.len() / width;
    let mut panel = [0.0; TERMS * COLUMNS];
    for column in (0..width).step_by(COLUMNS) {
        let columns = (width - column).min(COLUMNS);
        for term in (0..terms).step_by(TERMS) {
            let count = (terms - term).min(TERMS);
            for (panel, right) in panel
                .chunks_exact_mut(COLUMNS)
                .zip(right[term * width..].chunks(width))
                .take(count)
            {
                panel[..columns].copy_from_slice(&right[column..column + columns]);
            }
            for row in (0..rows).step_by(ROWS) {
                let left = &left[row * terms + term..];
                let output = &mut output[row * width + column..];
                let shape = Tile {
                    terms,
                    count,
                    width,
                    columns,
                    first: term == 0,
                };
                match rows - row {
                    1 => tile::<D, 1>(left, &panel, output, shape),
                    2 => tile::<D, 2>(left, &panel, output, shape),
                    3 => tile::<D, 3>(left, &panel, output, shape),
                    _ => tile::<D, ROWS>(left, &panel, output, shape),
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Tile {
    /// From one row of the left matrix to the next
    terms: usize,
    /// Terms to add
    count: usize,
    /// From one row of the output to the next
    width: usize,
    /// Columns that are there
    columns: usize,
    /// Whether the sums begin here
    first: bool,
}

#[inline(always)]
fn tile<D: F64x4, const R: usize>(left: &[f64], panel: &[f64], output: &mut [f64], shape: Tile) {
    let Tile {
        terms,
        count,
        width,
        columns,
        first,
    } = shape;
    let rows: [&[f64]; R] = std::array::from_fn(|r| &left[r * terms..][..count]);
    let mut sums = [[D::splat(0.0); 2]; R];
    let mut edge = [0.0; COLUMNS];
    if !first {
        for (r, sums) in sums.iter_mut().enumerate() {
            edge[..columns].copy_from_slice(&output[r * width..][..columns]);
            *sums = [D::load(&edge), D::load(&edge[4..])];
        }
    }
    for (term, panel) in panel.chunks_exact(COLUMNS).take(count).enumerate() {
        let right = [D::load(panel), D::load(&panel[4..])];
        for (row, sums) in rows.iter().zip(&mut sums) {
            let factor = D::splat(row[term]);
            *sums = [right[0].mul_add(factor, sums[0]), right[1].mul_add(factor, sums[1])];
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        sums[0].store(&mut edge);
        sums[1].store(&mut edge[4..]);
        output[r * width..][..columns].copy_from_slice(&edge[..columns]);
    }
}

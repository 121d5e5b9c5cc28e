//! Products of a dense matrix with a batch of vectors.
//!
//! Each result is summed in an order that depends on the matrix only, so a state's numbers do not depend on the other
//! states of its batch. The matrix is streamed once per group of four states.

use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::problem::Array;

/// States that share one pass over the matrix.
const GROUP: usize = 4;
/// Rows of one task of [`matrix_times`].
const ROWS: usize = 16;
/// Columns of one task of [`transposed_times`].
const COLUMNS: usize = 256;

/// How a matrix element is widened to f64.
trait Element: Copy + Send + Sync {
    fn load<D: F64x4>(from: &[Self]) -> D
    where
        Self: Sized;
    fn widen(self) -> f64;
}

impl Element for f32 {
    #[inline(always)]
    fn load<D: F64x4>(from: &[f32]) -> D {
        D::load_f32(from)
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    #[inline(always)]
    fn load<D: F64x4>(from: &[f64]) -> D {
        D::load(from)
    }
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

/// y = A·x for each state: `x` is `[states, columns]`, `y` `[rows, states]`, A `[rows, columns]`.
///
/// The result comes transposed, so that a task writes one contiguous piece; see [`transpose`].
pub fn matrix_times(threads: &mut Threads, isa: Isa, a: Array<'_>, columns: usize, x: &[f64], y: &mut [f64]) {
    let states = x.len() / columns;
    threads.for_each(y, ROWS * states, &|task, y| {
        let first = task * ROWS;
        match a {
            Array::F32(a) => {
                let a = &a[first * columns..][..y.len() / states * columns];
                dispatch!(isa, rows_f32(a: &[f32], columns: usize, x: &[f64], y: &mut [f64]))
            }
            Array::F64(a) => {
                let a = &a[first * columns..][..y.len() / states * columns];
                dispatch!(isa, rows_f64(a: &[f64], columns: usize, x: &[f64], y: &mut [f64]))
            }
            Array::U32(_) => unreachable!("a matrix has entries"),
        }
    });
}

#[inline(always)]
fn rows_f32<F: F32x8, D: F64x4>(a: &[f32], columns: usize, x: &[f64], y: &mut [f64]) {
    rows::<f32, D>(a, columns, x, y);
}

#[inline(always)]
fn rows_f64<F: F32x8, D: F64x4>(a: &[f64], columns: usize, x: &[f64], y: &mut [f64]) {
    rows::<f64, D>(a, columns, x, y);
}

#[inline(always)]
fn rows<E: Element, D: F64x4>(a: &[E], columns: usize, x: &[f64], y: &mut [f64]) {
    let states = x.len() / columns;
    let pairs = a.chunks(2 * columns).zip(y.chunks_mut(2 * states));
    for (a, y) in pairs {
        for first in (0..states).step_by(GROUP) {
            let x = &x[first * columns..];
            let two = a.len() == 2 * columns;
            match (two, (states - first).min(GROUP)) {
                (true, 4) => dot::<E, D, 2, 4>(a, x, columns, states, &mut y[first..]),
                (true, 3) => dot::<E, D, 2, 3>(a, x, columns, states, &mut y[first..]),
                (true, 2) => dot::<E, D, 2, 2>(a, x, columns, states, &mut y[first..]),
                (true, _) => dot::<E, D, 2, 1>(a, x, columns, states, &mut y[first..]),
                (false, 4) => dot::<E, D, 1, 4>(a, x, columns, states, &mut y[first..]),
                (false, 3) => dot::<E, D, 1, 3>(a, x, columns, states, &mut y[first..]),
                (false, 2) => dot::<E, D, 1, 2>(a, x, columns, states, &mut y[first..]),
                (false, _) => dot::<E, D, 1, 1>(a, x, columns, states, &mut y[first..]),
            }
        }
    }
}

/// Inner products of R rows with S states: four running sums each, then the rest one by one. With two rows and four
/// states there are fewer loads than multiply-adds.
#[inline(always)]
fn dot<E: Element, D: F64x4, const R: usize, const S: usize>(
    a: &[E],
    x: &[f64],
    columns: usize,
    states: usize,
    y: &mut [f64],
) {
    let rows: [&[E]; R] = std::array::from_fn(|r| &a[r * columns..][..columns]);
    let vectors: [&[f64]; S] = std::array::from_fn(|s| &x[s * columns..][..columns]);
    let mut sums = [[D::splat(0.0); S]; R];
    let whole = columns / 4 * 4;
    for at in (0..whole).step_by(4) {
        let values: [D; S] = std::array::from_fn(|s| D::load(&vectors[s][at..at + 4]));
        for (row, sums) in rows.iter().zip(&mut sums) {
            let a: D = E::load(&row[at..at + 4]);
            for (sum, &value) in sums.iter_mut().zip(&values) {
                *sum = a.mul_add(value, *sum);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (s, sum) in sums.iter().enumerate() {
            let mut sum = sum.sum();
            for at in whole..columns {
                sum += rows[r][at].widen() * vectors[s][at];
            }
            y[r * states + s] = sum;
        }
    }
}

/// y = Aᵀ·g for each state: `g` is `[states, rows]`, `y` is `[column tiles][states][256]`, the last tile narrower.
///
/// The result comes in tiles, so that a task writes one contiguous piece; see [`untile`].
pub fn transposed_times(threads: &mut Threads, isa: Isa, a: Array<'_>, columns: usize, g: &[f64], y: &mut [f64]) {
    let states = y.len() / columns;
    threads.for_each(y, COLUMNS * states, &|task, y| {
        let first = task * COLUMNS;
        match a {
            Array::F32(a) => {
                dispatch!(isa, columns_f32(
                    a: &[f32], columns: usize, first: usize, g: &[f64], states: usize, y: &mut [f64]
                ))
            }
            Array::F64(a) => {
                dispatch!(isa, columns_f64(
                    a: &[f64], columns: usize, first: usize, g: &[f64], states: usize, y: &mut [f64]
                ))
            }
            Array::U32(_) => unreachable!("a matrix has entries"),
        }
    });
}

#[inline(always)]
fn columns_f32<F: F32x8, D: F64x4>(a: &[f32], columns: usize, first: usize, g: &[f64], states: usize, y: &mut [f64]) {
    column_tile::<f32, D>(a, columns, first, g, states, y);
}

#[inline(always)]
fn columns_f64<F: F32x8, D: F64x4>(a: &[f64], columns: usize, first: usize, g: &[f64], states: usize, y: &mut [f64]) {
    column_tile::<f64, D>(a, columns, first, g, states, y);
}

/// y[state][column] = Σ_m a[m][first + column]·g[state][m], summed in the order of m; four rows and two states a pass.
#[inline(always)]
fn column_tile<E: Element, D: F64x4>(a: &[E], columns: usize, first: usize, g: &[f64], states: usize, y: &mut [f64]) {
    let width = y.len() / states;
    let rows = a.len() / columns;
    y.fill(0.0);
    for m in (0..rows).step_by(4) {
        let row = |r: usize| &a[(m + r) * columns + first..][..width];
        for (pair, y) in y.chunks_mut(2 * width).enumerate() {
            let factor = |s: usize, r: usize| g[(2 * pair + s) * rows + m + r];
            let (y0, y1) = y.split_at_mut(width);
            if rows - m >= 4 {
                let rows = [row(0), row(1), row(2), row(3)];
                let factors = |s: usize| std::array::from_fn(|r| factor(s, r));
                if y1.is_empty() {
                    add_rows::<E, D, 4, 1>(rows, [factors(0)], [y0]);
                } else {
                    add_rows::<E, D, 4, 2>(rows, [factors(0), factors(1)], [y0, y1]);
                }
                continue;
            }
            for r in 0..rows - m {
                add_rows::<E, D, 1, 1>([row(r)], [[factor(0, r)]], [y0]);
                if !y1.is_empty() {
                    add_rows::<E, D, 1, 1>([row(r)], [[factor(1, r)]], [y1]);
                }
            }
        }
    }
}

/// Adds R rows, each times its factor, to the sums of S states.
#[inline(always)]
fn add_rows<E: Element, D: F64x4, const R: usize, const S: usize>(
    rows: [&[E]; R],
    g: [[f64; R]; S],
    mut y: [&mut [f64]; S],
) {
    let width = rows[0].len();
    let whole = width / 4 * 4;
    let factors = g.map(|g| g.map(D::splat));
    for at in (0..whole).step_by(4) {
        let mut sums: [D; S] = std::array::from_fn(|s| D::load(&y[s][at..at + 4]));
        for r in 0..R {
            let a = E::load::<D>(&rows[r][at..at + 4]);
            for s in 0..S {
                sums[s] = a.mul_add(factors[s][r], sums[s]);
            }
        }
        for (sum, y) in sums.into_iter().zip(&mut y) {
            sum.store(&mut y[at..at + 4]);
        }
    }
    for at in whole..width {
        for (y, g) in y.iter_mut().zip(&g) {
            for r in 0..R {
                y[at] += rows[r][at].widen() * g[r];
            }
        }
    }
}

/// From `[rows, states]` to `[states, rows]`.
pub fn transpose(threads: &mut Threads, y: &[f64], states: usize, output: &mut [f64]) {
    let rows = output.len() / states;
    threads.for_each(output, rows, &|state, output| {
        for (m, to) in output.iter_mut().enumerate() {
            *to = y[m * states + state];
        }
    });
}

/// From the tiles of [`transposed_times`] to `[states, columns]`.
pub fn untile<T: Send>(
    threads: &mut Threads,
    tiles: &[f64],
    states: usize,
    narrow: impl Fn(f64) -> T + Sync,
    output: &mut [T],
) {
    let columns = output.len() / states;
    threads.for_each(output, columns, &|state, output| {
        for (tile, to) in output.chunks_mut(COLUMNS).enumerate() {
            let from = &tiles[tile * COLUMNS * states + state * to.len()..][..to.len()];
            for (to, &from) in to.iter_mut().zip(from) {
                *to = narrow(from);
            }
        }
    });
}

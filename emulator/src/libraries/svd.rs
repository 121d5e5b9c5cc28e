//! The singular value decomposition: one-sided Jacobi, which turns columns until all are orthogonal. Why not faer: see the
//! parent module.

use super::eigen::rotate;
use super::gemm::dot;

/// Passes over all pairs before the iteration counts as stuck; ten are usual.
const MAX_SWEEPS: usize = 40;

/// Singular values, largest first, and the singular vectors in their order, one after the other.
#[derive(Debug)]
pub struct Decomposition {
    pub values: Vec<f64>,
    /// Each as long as a column
    pub left: Vec<f64>,
    /// Each as long as a row
    pub right: Vec<f64>,
}

/// Decomposes a matrix with `rows` ≥ `columns` given column by column.
///
/// # Errors
/// The number of columns that are not orthogonal to all others yet; all of them if an entry is not finite.
pub fn singular(mut matrix: Vec<f64>, rows: usize, columns: usize) -> Result<Decomposition, usize> {
    if !matrix.iter().all(|entry| entry.is_finite()) {
        return Err(columns);
    }
    let mut right = vec![0.0; columns * columns];
    (0..columns).for_each(|i| right[i * columns + i] = 1.0);
    let mut left_over = columns;
    for _ in 0..MAX_SWEEPS {
        left_over = sweep(&mut matrix, rows, &mut right, columns);
        if left_over == 0 {
            break;
        }
    }
    if left_over > 0 {
        return Err(left_over);
    }
    let norms: Vec<f64> = matrix.chunks(rows).map(|column| dot(column, column).sqrt()).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|i, j| norms[*j].total_cmp(&norms[*i]));
    let sorted = |vectors: &[f64], length: usize| -> Vec<f64> {
        let in_order = order.iter().flat_map(|i| &vectors[i * length..][..length]);
        in_order.copied().collect()
    };
    let values: Vec<f64> = order.iter().map(|i| norms[*i]).collect();
    let mut left = sorted(&matrix, rows);
    normalise(&mut left, rows, &values);
    let right = sorted(&right, columns);
    Ok(Decomposition { values, left, right })
}

/// A share of the largest column below which a column is the rounding error of others: its direction means nothing.
fn negligible(rows: usize) -> f64 {
    rows as f64 * f64::EPSILON
}

/// Makes vectors of these lengths, largest first, unit vectors; what is negligible is replaced by what completes a
/// basis.
fn normalise(vectors: &mut [f64], rows: usize, lengths: &[f64]) {
    let largest = lengths.first().copied().unwrap_or_default();
    for (n, length) in lengths.iter().enumerate() {
        let (before, from_here) = vectors.split_at_mut(n * rows);
        let vector = &mut from_here[..rows];
        if *length > largest * negligible(rows) {
            vector.iter_mut().for_each(|entry| *entry /= length);
            continue;
        }
        // Of all axes, one at least has this share (of its square) outside of the span so far.
        let share = 0.5 * (rows - n) as f64 / rows as f64;
        for axis in 0..rows {
            vector.fill(0.0);
            vector[axis] = 1.0;
            // Twice is enough, as rounding leaves something of the others the first time.
            for other in before.chunks(rows).chain(before.chunks(rows)) {
                let factor = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(v, o)| *v -= factor * o);
            }
            let square = dot(vector, vector);
            if square >= share {
                vector.iter_mut().for_each(|entry| *entry /= square.sqrt());
                break;
            }
        }
    }
}

/// Makes each pair of columns orthogonal once; returns how many columns had to be turned.
fn sweep(matrix: &mut [f64], rows: usize, right: &mut [f64], columns: usize) -> usize {
    let mut squares: Vec<f64> = matrix.chunks(rows).map(|column| dot(column, column)).collect();
    // The rounding of a dot product.
    let tolerance = f64::EPSILON * (rows as f64).sqrt();
    let largest = squares.iter().fold(0f64, |max, square| max.max(*square));
    let negligible = largest * negligible(rows).powi(2);
    let mut turned = 0;
    for p in 0..columns {
        let mut moved = false;
        for q in p + 1..columns {
            let (head, tail) = matrix.split_at_mut(q * rows);
            let (x, y) = (&mut head[p * rows..(p + 1) * rows], &mut tail[..rows]);
            if squares[p] <= negligible || squares[q] <= negligible {
                continue;
            }
            let product = dot(x, y);
            if product.abs() <= tolerance * (squares[p] * squares[q]).sqrt() {
                continue;
            }
            let zeta = (squares[q] - squares[p]) / (2.0 * product);
            let tangent = 1.0f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let sine = cosine * tangent;
            rotate(x, y, cosine, sine);
            (squares[p], squares[q]) = (dot(x, x), dot(y, y));
            let (head, tail) = right.split_at_mut(q * columns);
            rotate(
                &mut head[p * columns..(p + 1) * columns],
                &mut tail[..columns],
                cosine,
                sine,
            );
            moved = true;
        }
        turned += usize::from(moved);
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::super::eigen::symmetric_eigen;
    use super::super::eigen::tests::{distance_from_orthogonal, noise};
    use super::*;

    #[test]
    fn the_gram_matrix_has_the_squares_and_the_same_vectors() {
        for (rows, columns) in [(1, 1), (5, 3), (40, 40), (90, 31)] {
            let a = noise(rows * columns, 3);
            let Decomposition { values, right, .. } = singular(a.clone(), rows, columns).unwrap();
            assert!(values.is_sorted_by(|a, b| a >= b));
            assert!(distance_from_orthogonal(&right, columns) < 1e-13);
            let column = |i: usize| &a[i * rows..][..rows];
            let mut gram: Vec<f64> = (0..columns * columns)
                .map(|at| dot(column(at / columns), column(at % columns)))
                .collect();
            for (value, vector) in values.iter().zip(right.chunks(columns)) {
                for (row, entry) in gram.chunks(columns).zip(vector) {
                    assert!((dot(row, vector) - value * value * entry).abs() < 1e-12);
                }
            }
            let squares = symmetric_eigen(&mut gram, columns).unwrap();
            for (value, square) in values.iter().rev().zip(squares) {
                assert!((value * value - square).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn small_singular_values_keep_the_digits_that_squaring_would_lose() {
        // Orthogonal columns of known length, turned into one another: the values are the lengths.
        let (rows, columns) = (24, 6);
        let lengths = [1.0, 1e-2, 1e-4, 1e-6, 1e-9, 1e-11];
        let basis = singular(noise(rows * rows, 5), rows, rows).unwrap().right;
        let mixing = singular(noise(columns * columns, 6), columns, columns).unwrap().right;
        let mut a = vec![0.0; rows * columns];
        for (column, weights) in a.chunks_mut(rows).zip(mixing.chunks(columns)) {
            for ((length, weight), direction) in lengths.iter().zip(weights).zip(basis.chunks(rows)) {
                column
                    .iter_mut()
                    .zip(direction)
                    .for_each(|(a, d)| *a += length * weight * d);
            }
        }
        let values = singular(a, rows, columns).unwrap().values;
        for (value, length) in values.iter().zip(lengths) {
            // The entries of A are rounded to 1e-16 of the largest; squared, 1e-9 would have vanished.
            assert!((value - length).abs() < 1e-15, "{value:e} for {length:e}");
        }
    }

    #[test]
    fn dependent_and_zero_columns_give_zeros_and_whole_bases() {
        let (rows, columns) = (12, 9);
        let mut a = noise(rows * columns, 7);
        a.copy_within(0..rows, 3 * rows);
        a[5 * rows..6 * rows].fill(0.0);
        let Decomposition { values, left, right } = singular(a, rows, columns).unwrap();
        assert!(values[6] > 1e-2 && values[7] < 1e-14 && values[8] < 1e-14);
        assert!(distance_from_orthogonal(&right, columns) < 1e-13);
        assert!(distance_from_orthogonal(&left, rows) < 1e-13);
    }

    #[test]
    fn the_factors_multiply_to_the_matrix() {
        let (rows, columns) = (17, 11);
        let a = noise(rows * columns, 8);
        let Decomposition { values, left, right } = singular(a.clone(), rows, columns).unwrap();
        assert!(distance_from_orthogonal(&left, rows) < 1e-13);
        for (at, entry) in a.iter().enumerate() {
            let terms = (0..columns).map(|k| left[k * rows + at % rows] * values[k] * right[k * columns + at / rows]);
            assert!((terms.sum::<f64>() - entry).abs() < 1e-13);
        }
    }

    #[test]
    fn what_is_not_finite_is_reported_and_not_iterated_on() {
        let mut a = noise(12, 1);
        a[3] = f64::INFINITY;
        assert_eq!(singular(a, 4, 3).unwrap_err(), 3);
    }
}

//! Eigenvalues and eigenvectors of a symmetric matrix: Householder's reduction to a tridiagonal one, then implicit QL.
//! Why not faer: see the parent module.

use super::gemm::dot;

/// Rotations per eigenvalue before the iteration counts as stuck; two or three are usual.
const MAX_STEPS: usize = 50;

/// Replaces a symmetric n × n matrix, stored whole, by its eigenvectors, one after the other, and returns the
/// eigenvalues, smallest first. Both are accurate to a few units of the last place of the largest eigenvalue.
///
/// # Errors
/// The number of the eigenvalue that did not converge, from 1; 1 for a matrix that is not finite.
pub fn symmetric_eigen(matrix: &mut [f64], n: usize) -> Result<Vec<f64>, usize> {
    if !matrix.iter().all(|entry| entry.is_finite()) {
        return Err(1);
    }
    let (mut diagonal, mut off) = tridiagonal(matrix, n);
    ql(&mut diagonal, &mut off, matrix, n)?;

    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| diagonal[*i].total_cmp(&diagonal[*j]));
    let sorted: Vec<f64> = order.iter().flat_map(|i| &matrix[i * n..][..n]).copied().collect();
    matrix.copy_from_slice(&sorted);
    Ok(order.iter().map(|i| diagonal[*i]).collect())
}

/// I − scale·v·vᵀ, acting on the coordinates behind `column`.
struct Reflector {
    scale: f64,
    v: Vec<f64>,
}

impl Reflector {
    /// The reflection that leaves of `x` its first coordinate only, and that coordinate.
    fn annihilating(x: &[f64]) -> (Reflector, f64) {
        let norm = x.iter().fold(0f64, |norm, entry| norm.hypot(*entry));
        // The sign that does not cancel.
        let left = -norm.copysign(x[0]);
        let mut v = x.to_vec();
        v[0] -= left;
        let square = dot(&v, &v);
        let scale = if square > 0.0 { 2.0 / square } else { 0.0 };
        (Reflector { scale, v }, left)
    }

    fn reflect(&self, x: &mut [f64]) {
        let factor = self.scale * dot(&self.v, x);
        add_scaled(x, -factor, &self.v);
    }
}

/// Reduces A to T = Qᵀ·A·Q, returns T's diagonal and what stands beside it, and leaves Q's columns in place of A.
fn tridiagonal(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut diagonal, mut off) = (vec![0.0; n], vec![0.0; n]);
    let mut reflectors = Vec::new();
    for column in 0..n {
        diagonal[column] = a[column * n + column];
        if column + 2 >= n {
            // Nothing stands beyond the neighbour of the diagonal.
            if column + 1 < n {
                off[column] = a[column * n + column + 1];
            }
            continue;
        }
        let first = column + 1;
        let (reflector, left) = Reflector::annihilating(&a[column * n + first..(column + 1) * n]);
        off[column] = left;
        // The rest becomes H·A·H = A − v·wᵀ − w·vᵀ.
        let Reflector { scale, v } = &reflector;
        let mut w: Vec<f64> = (first..n)
            .map(|row| scale * dot(&a[row * n + first..(row + 1) * n], v))
            .collect();
        let half = -0.5 * scale * dot(v, &w);
        add_scaled(&mut w, half, v);
        for row in first..n {
            let target = &mut a[row * n + first..(row + 1) * n];
            add_scaled(target, -v[row - first], &w);
            add_scaled(target, -w[row - first], v);
        }
        reflectors.push(reflector);
    }

    a.fill(0.0);
    (0..n).for_each(|i| a[i * n + i] = 1.0);
    for (column, reflector) in reflectors.iter().enumerate().rev() {
        // Vectors up to `column` have no coordinates that this reflection acts on.
        for vector in column + 1..n {
            reflector.reflect(&mut a[vector * n + column + 1..(vector + 1) * n]);
        }
    }
    (diagonal, off)
}

/// Diagonalises the tridiagonal matrix and turns the vectors along. `off[i]` stands between i and i + 1.
fn ql(diagonal: &mut [f64], off: &mut [f64], vectors: &mut [f64], n: usize) -> Result<(), usize> {
    // Relative to the largest entries: no more is known of the small ones.
    let negligible = f64::EPSILON
        * diagonal
            .iter()
            .chain(&*off)
            .fold(0f64, |max, entry| max.max(entry.abs()));
    for wanted in 0..n {
        for step in 0.. {
            let Some(end) = (wanted..n).find(|i| i + 1 == n || off[*i].abs() <= negligible) else {
                unreachable!("the last row has no neighbour");
            };
            if end == wanted {
                break;
            }
            if step == MAX_STEPS {
                return Err(wanted + 1);
            }
            // Wilkinson's shift: the eigenvalue of the leading 2 × 2 block nearest to its corner.
            let half = (diagonal[wanted + 1] - diagonal[wanted]) / (2.0 * off[wanted]);
            let shifted = off[wanted] / (half + half.hypot(1.0).copysign(half));
            let mut g = diagonal[end] - diagonal[wanted] + shifted;
            let (mut sine, mut cosine, mut carried) = (1.0, 1.0, 0.0);
            let mut deflated = false;
            for i in (wanted..end).rev() {
                let (f, b) = (sine * off[i], cosine * off[i]);
                let r = f.hypot(g);
                off[i + 1] = r;
                if r == 0.0 {
                    diagonal[i + 1] -= carried;
                    off[end] = 0.0;
                    deflated = true;
                    break;
                }
                (sine, cosine) = (f / r, g / r);
                g = diagonal[i + 1] - carried;
                let turned = (diagonal[i] - g) * sine + 2.0 * cosine * b;
                carried = sine * turned;
                diagonal[i + 1] = g + carried;
                g = cosine * turned - b;
                let (lower, upper) = vectors[i * n..(i + 2) * n].split_at_mut(n);
                rotate(lower, upper, cosine, sine);
            }
            if !deflated {
                diagonal[wanted] -= carried;
                off[wanted] = g;
                off[end] = 0.0;
            }
        }
    }
    Ok(())
}

/// (x, y) ← (cosine·x − sine·y, sine·x + cosine·y).
pub fn rotate(x: &mut [f64], y: &mut [f64], cosine: f64, sine: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

fn add_scaled(x: &mut [f64], factor: f64, y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += factor * y);
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Numbers in (−1, 1) that look random.
    pub fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as i64 as f64 / 2f64.powi(63)
        };
        (0..count).map(|_| next()).collect()
    }

    /// Largest |entry| of V·Vᵀ − I for vectors of one length stored one after the other.
    pub fn distance_from_orthogonal(vectors: &[f64], length: usize) -> f64 {
        let rows: Vec<&[f64]> = vectors.chunks(length).collect();
        let pairs = (0..rows.len()).flat_map(|i| (0..=i).map(move |j| (i, j)));
        pairs
            .map(|(i, j)| (dot(rows[i], rows[j]) - f64::from(u8::from(i == j))).abs())
            .fold(0.0, f64::max)
    }

    fn symmetric(n: usize, seed: u64) -> Vec<f64> {
        let mut a = noise(n * n, seed);
        (0..n).for_each(|i| (0..i).for_each(|j| a[i * n + j] = a[j * n + i]));
        a
    }

    #[test]
    fn vectors_are_orthogonal_and_satisfy_their_equation() {
        for n in [1, 2, 3, 4, 7, 30, 133] {
            let a = symmetric(n, n as u64);
            let mut vectors = a.clone();
            let values = symmetric_eigen(&mut vectors, n).unwrap();
            assert!(values.is_sorted());
            assert!(distance_from_orthogonal(&vectors, n) < 1e-13 * n as f64);
            for (value, vector) in values.iter().zip(vectors.chunks(n)) {
                for (row, entry) in a.chunks(n).zip(vector) {
                    assert!((dot(row, vector) - value * entry).abs() < 1e-14 * n as f64, "n = {n}");
                }
            }
        }
    }

    #[test]
    fn known_spectra_come_out() {
        // The path graph's Laplacian: 2 − 2·cos(k·π/n).
        let n = 60;
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            a[i * n + i] = if i == 0 || i == n - 1 { 1.0 } else { 2.0 };
            if i + 1 < n {
                a[i * n + i + 1] = -1.0;
                a[(i + 1) * n + i] = -1.0;
            }
        }
        let values = symmetric_eigen(&mut a, n).unwrap();
        for (k, value) in values.iter().enumerate() {
            let exact = 2.0 - 2.0 * (k as f64 * std::f64::consts::PI / n as f64).cos();
            assert!((value - exact).abs() < 1e-14 * n as f64);
        }
    }

    #[test]
    fn equal_and_zero_eigenvalues_are_no_obstacle() {
        let n = 20;
        let mut zero = vec![0.0; n * n];
        assert_eq!(symmetric_eigen(&mut zero, n).unwrap(), vec![0.0; n]);
        assert_eq!(distance_from_orthogonal(&zero, n), 0.0);

        // All ones: rank one, eigenvalue n once and 0 otherwise.
        let mut ones = vec![1.0; n * n];
        let values = symmetric_eigen(&mut ones, n).unwrap();
        assert!((values[n - 1] - n as f64).abs() < 1e-13);
        assert!(values[..n - 1].iter().all(|value| value.abs() < 1e-13));
        assert!(distance_from_orthogonal(&ones, n) < 1e-13);
    }

    #[test]
    fn what_is_not_finite_is_reported_and_not_iterated_on() {
        let mut a = symmetric(5, 1);
        a[7] = f64::NAN;
        assert_eq!(symmetric_eigen(&mut a, 5), Err(1));
    }
}

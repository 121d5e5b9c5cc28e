//! A of y = Q(Ax + n): M×N, row-major, in the precision it came in.

use std::borrow::Cow;

use rayon::prelude::*;

use super::Values;
use crate::error::{Error, Result};
use crate::pool;

/// The sensing matrix: M rows (measurements), N columns (pixels, flattened C, H, W), row-major;
/// every entry is finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    values: Values,
}

impl Matrix {
    /// Takes `values`, `[rows, cols]` row-major.
    ///
    /// # Errors
    /// [`Error::Usage`] if a dimension is 0 or the length is not rows·cols, or, naming its place,
    /// if an entry is NaN or infinite.
    pub fn new(rows: usize, cols: usize, values: Values) -> Result<Self> {
        let len = match &values {
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
        };
        if rows == 0 || cols == 0 || rows.checked_mul(cols) != Some(len) {
            return Err(Error::usage(format!(
                "A has {rows} rows, {cols} columns and {len} values: it must be M×N with M·N values and neither 0"
            )));
        }
        let bad = match &values {
            Values::F32(v) => v.iter().position(|a| !a.is_finite()),
            Values::F64(v) => v.iter().position(|a| !a.is_finite()),
        };
        if let Some(i) = bad {
            return Err(Error::usage(format!(
                "A holds NaN or infinity in row {}, column {}: every entry must be finite",
                i / cols,
                i % cols
            )));
        }
        Ok(Self { rows, cols, values })
    }

    /// [`Matrix::new`] from single precision.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub fn from_f32(rows: usize, cols: usize, values: Vec<f32>) -> Result<Self> {
        Self::new(rows, cols, Values::F32(values))
    }

    /// [`Matrix::new`] from double precision.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub fn from_f64(rows: usize, cols: usize, values: Vec<f64>) -> Result<Self> {
        Self::new(rows, cols, Values::F64(values))
    }

    /// M.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// N.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The values, `[M, N]` row-major, in their own precision.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The values in single precision, rounded if they are f64.
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        match &self.values {
            Values::F32(v) => Cow::Borrowed(v),
            Values::F64(v) => Cow::Owned(pool::install(|| v.par_iter().map(|&a| a as f32).collect())),
        }
    }

    /// The values in double precision.
    pub fn to_f64(&self) -> Cow<'_, [f64]> {
        match &self.values {
            Values::F32(v) => Cow::Owned(pool::install(|| v.par_iter().map(|&a| f64::from(a)).collect())),
            Values::F64(v) => Cow::Borrowed(v),
        }
    }

    /// A·x in f64, length M; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `x` has not N entries.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.cols, "x must have N entries");
        match &self.values {
            Values::F32(v) => times(v, self.cols, x),
            Values::F64(v) => times(v, self.cols, x),
        }
    }

    /// Aᵀ·z in f64, length N; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `z` has not M entries.
    pub fn transpose_times(&self, z: &[f64]) -> Vec<f64> {
        assert_eq!(z.len(), self.rows, "z must have M entries");
        match &self.values {
            Values::F32(v) => transpose_times(v, self.cols, z),
            Values::F64(v) => transpose_times(v, self.cols, z),
        }
    }

    /// Some of the rows, each times a factor, in the precision of this matrix.
    ///
    /// # Errors
    /// As [`Matrix::new`].
    pub(super) fn rows_times(&self, rows: &[usize], factors: &[f64]) -> Result<Self> {
        let row = |index: usize| index * self.cols..(index + 1) * self.cols;
        let chosen = || rows.iter().zip(factors);
        let values = match &self.values {
            Values::F32(v) => {
                let scaled = |(&index, &factor): (&usize, &f64)| {
                    v[row(index)].iter().map(move |&a| (f64::from(a) * factor) as f32)
                };
                Values::F32(chosen().flat_map(scaled).collect())
            }
            Values::F64(v) => {
                let scaled = |(&index, &factor): (&usize, &f64)| v[row(index)].iter().map(move |&a| a * factor);
                Values::F64(chosen().flat_map(scaled).collect())
            }
        };
        Self::new(rows.len(), self.cols, values)
    }

    /// diag(A·Aᵀ), the squared norm of each row, length M.
    pub fn diag(&self) -> Vec<f64> {
        match &self.values {
            Values::F32(v) => pool::install(|| v.par_chunks(self.cols).map(|row| dot(row, row)).collect()),
            Values::F64(v) => pool::install(|| v.par_chunks(self.cols).map(|row| dot(row, row)).collect()),
        }
    }
}

/// Eight running sums: enough for the compiler to vectorise, and always the same order of
/// additions.
fn dot<T: Copy + Into<f64>, S: Copy + Into<f64>>(a: &[T], b: &[S]) -> f64 {
    let mut sums = [0.0f64; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8
        .remainder()
        .iter()
        .zip(b8.remainder())
        .map(|(&a, &b)| a.into() * b.into())
        .sum();
    for (a, b) in a8.zip(b8) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a.into() * b.into();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// values·x for row-major values.
pub(super) fn times<T: Copy + Into<f64> + Sync>(values: &[T], cols: usize, x: &[f64]) -> Vec<f64> {
    pool::install(|| values.par_chunks(cols).map(|row| dot(row, x)).collect())
}

/// valuesᵀ·z for row-major values; threads share out the columns, so each sum runs over the rows in
/// order.
pub(super) fn transpose_times<T: Copy + Into<f64> + Sync>(values: &[T], cols: usize, z: &[f64]) -> Vec<f64> {
    const COLUMNS: usize = 512;
    let mut out = vec![0.0; cols];
    let sum = |(chunk, out): (usize, &mut [f64])| {
        for (row, &z) in values.chunks_exact(cols).zip(z) {
            for (out, &a) in out.iter_mut().zip(&row[chunk * COLUMNS..]) {
                *out += a.into() * z;
            }
        }
    };
    pool::install(|| out.par_chunks_mut(COLUMNS).enumerate().for_each(sum));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_row_norms_are_those_of_the_definition() {
        let (m, n) = (3, 21);
        let a: Vec<f64> = (0..m * n).map(|i| f64::from(i as u8) - 30.0).collect();
        let x: Vec<f64> = (0..n).map(|i| f64::from(i as u8) - 7.0).collect();
        let z = [2.0, -3.0, 5.0];
        // Small integers: every sum is exact in any order.
        let ax: Vec<f64> = (0..m).map(|i| (0..n).map(|j| a[i * n + j] * x[j]).sum()).collect();
        let az: Vec<f64> = (0..n).map(|j| (0..m).map(|i| a[i * n + j] * z[i]).sum()).collect();
        let diag: Vec<f64> = (0..m).map(|i| (0..n).map(|j| a[i * n + j].powi(2)).sum()).collect();
        let single = Matrix::from_f32(m, n, a.iter().map(|&a| a as f32).collect()).unwrap();
        let double = Matrix::from_f64(m, n, a.clone()).unwrap();
        for matrix in [&single, &double] {
            assert_eq!(matrix.times(&x), ax);
            assert_eq!(matrix.transpose_times(&z), az);
            assert_eq!(matrix.diag(), diag);
            assert_eq!(matrix.to_f64(), a);
            assert_eq!(matrix.to_f32(), single.to_f32());
        }
    }

    #[test]
    fn a_matrix_with_nan_or_infinity_is_refused_by_place() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut values = vec![1.0; 6];
            values[5] = bad;
            let message = Matrix::from_f64(2, 3, values.clone()).unwrap_err().to_string();
            assert!(message.contains("row 1, column 2"), "{message}");
            assert!(Matrix::from_f32(2, 3, values.iter().map(|&v| v as f32).collect()).is_err());
        }
    }

    #[test]
    fn a_matrix_of_the_wrong_size_is_refused() {
        assert!(Matrix::from_f64(2, 3, vec![1.0; 5]).is_err());
        assert!(Matrix::from_f64(0, 3, vec![]).is_err());
        assert!(Matrix::from_f32(3, 0, vec![]).is_err());
        assert!(
            Matrix::from_f32(usize::MAX, 2, vec![1.0; 2]).is_err(),
            "the product overflows"
        );
    }
}

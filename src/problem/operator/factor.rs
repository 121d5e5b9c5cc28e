//! The factors of a structured operator: small matrices, one along each axis.

use std::f64::consts::PI;

use crate::error::{Error, Result};
use crate::problem::{Matrix, Spectrum};

/// What acts along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// The axis stays as it is.
    Identity(usize),
    /// The orthonormal Walsh–Hadamard transform in Sylvester's order; the length is a power of two. Never formed: butterflies
    /// do it.
    Hadamard(usize),
    /// The orthonormal cosine transform (DCT-II).
    Dct(usize),
    /// The orthonormal Hartley transform, cos + sin: what the Fourier transform of a real signal spans.
    Hartley(usize),
    /// Any other.
    Matrix(Matrix),
}

impl Factor {
    /// The orthonormal cosine transform, or, along an axis of one, nothing.
    pub fn dct(length: usize) -> Self {
        if length == 1 {
            Self::Identity(1)
        } else {
            Self::Dct(length)
        }
    }

    /// A blur: a Gaussian of this standard deviation in pixels, cut off at three of them; at the edges the image goes on
    /// as its mirror image, so that every row has the sum 1.
    pub fn blur(length: usize, radius: f64) -> Result<Self> {
        let reach = (3.0 * radius).ceil() as i64;
        let kernel: Vec<f64> = (-reach..=reach)
            .map(|at| (-0.5 * (at as f64 / radius).powi(2)).exp())
            .collect();
        let sum: f64 = kernel.iter().sum();
        let mut values = vec![0.0; length * length];
        for row in 0..length {
            for (at, weight) in (-reach..=reach).zip(&kernel) {
                values[row * length + mirrored(row as i64 + at, length)] += weight / sum;
            }
        }
        Ok(Self::Matrix(Matrix::from_f64(length, length, values)?))
    }

    /// Means of `k` neighbours.
    ///
    /// # Errors
    /// [`Error::Usage`] if `k` does not divide the length.
    pub fn mean(length: usize, k: usize) -> Result<Self> {
        if k == 0 || !length.is_multiple_of(k) {
            return Err(Error::usage(format!(
                "an axis of {length} pixels cannot be shrunk by {k}: the one must divide the other"
            )));
        }
        let rows = length / k;
        let mut values = vec![0.0; rows * length];
        for row in 0..rows {
            values[row * length + row * k..][..k].fill(1.0 / k as f64);
        }
        Ok(Self::Matrix(Matrix::from_f64(rows, length, values)?))
    }

    /// The axis' length in the image.
    pub fn cols(&self) -> usize {
        match self {
            &Self::Identity(n) | &Self::Hadamard(n) | &Self::Dct(n) | &Self::Hartley(n) => n,
            Self::Matrix(matrix) => matrix.cols(),
        }
    }

    /// The axis' length in the measurements.
    pub fn rows(&self) -> usize {
        match self {
            Self::Matrix(matrix) => matrix.rows(),
            _ => self.cols(),
        }
    }

    /// Its name in a problem file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Identity(_) => "identity",
            Self::Hadamard(_) => "hadamard",
            Self::Dct(_) => "dct",
            Self::Hartley(_) => "hartley",
            Self::Matrix(_) => "matrix",
        }
    }

    /// The entries, `[rows, cols]`, where the axis is multiplied by them.
    pub fn entries(&self) -> Option<Vec<f64>> {
        match self {
            Self::Identity(_) | Self::Hadamard(_) => None,
            &Self::Dct(n) => Some(entries(n, |k, i| {
                let scale = if k == 0 { 1.0 } else { 2.0 };
                (scale / n as f64).sqrt() * (PI * (k * (2 * i + 1)) as f64 / (2 * n) as f64).cos()
            })),
            &Self::Hartley(n) => Some(entries(n, |k, i| {
                // The angle's multiples of a whole turn are left out before they cost digits.
                let angle = 2.0 * PI * (k * i % n) as f64 / n as f64;
                (angle.cos() + angle.sin()) / (n as f64).sqrt()
            })),
            Self::Matrix(matrix) => Some(matrix.to_f64().into_owned()),
        }
    }

    /// Squared norms of the rows.
    pub fn diag(&self) -> Vec<f64> {
        match self {
            Self::Matrix(matrix) => matrix.diag(),
            _ => vec![1.0; self.rows()],
        }
    }

    /// The eigendecomposition of F·Fᵀ; no U where all eigenvalues are the same.
    ///
    /// # Errors
    /// As [`Spectrum::of`].
    pub fn spectrum(&self) -> Result<Spectrum> {
        let Self::Matrix(matrix) = self else {
            return Ok(Spectrum {
                u: None,
                eigenvalues: vec![1.0; self.rows()],
            });
        };
        let spectrum = Spectrum::of(matrix)?;
        let mean = spectrum.eigenvalues.iter().sum::<f64>() / matrix.rows() as f64;
        // A sum of n products errs by n units in the last place.
        let flat = |eigenvalue: &f64| (eigenvalue - mean).abs() <= 4.0 * f64::EPSILON * matrix.cols() as f64 * mean;
        if spectrum.eigenvalues.iter().all(flat) {
            return Ok(Spectrum {
                u: None,
                eigenvalues: vec![mean; matrix.rows()],
            });
        }
        Ok(spectrum)
    }
}

/// The pixel that stands at a place before the first or behind the last one.
fn mirrored(at: i64, length: usize) -> usize {
    let length = length as i64;
    let at = at.rem_euclid(2 * length);
    at.min(2 * length - 1 - at) as usize
}

fn entries(n: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..n * n).map(|at| entry(at / n, at % n)).collect()
}

/// The transpose of a row-major matrix.
pub fn transposed(values: &[f64], cols: usize) -> Vec<f64> {
    let rows = values.len() / cols;
    (0..values.len())
        .map(|at| values[at % rows * cols + at / rows])
        .collect()
}

//! The laws of random sensing matrices, as the paper defines them.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::haar::{gaussian, haar_times, scaled_identity};
use super::{Matrix, Spectrum};
use crate::error::{Error, Result};

/// A law of M×N matrices. In all of them E[tr(A·Aᵀ)] = N.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ensemble", rename_all = "kebab-case")]
pub enum Ensemble {
    /// Independent N(0, 1/M).
    Gaussian,
    /// sqrt(N/M) times M orthonormal Haar rows: A·Aᵀ = N/M·I.
    RowOrthogonal,
    /// U·diag(lambda)·Vᵀ with Haar U and V, lambda_i/lambda_(i+1) = kappa^(1/M) and tr(A·Aᵀ) = N;
    /// kappa ≥ 1.
    IllConditioned { kappa: f64 },
    /// R_L^(1/2)·H·R_R^(1/2)/sqrt(M) with Gaussian H and correlations R_ij = rho^|i−j|; 0 ≤ rho <
    /// 1.
    Correlated { rho: f64 },
}

/// The numbers of the factors drawn for one matrix: each has its own stream.
const MAIN: u32 = 0;
const LEFT: u32 = 1;

impl Ensemble {
    /// Draws the M×N matrix of `seed` in f64, with the spectrum of A·Aᵀ where the construction
    /// knows it. The same bits for any number of threads.
    ///
    /// # Errors
    /// [`Error::Usage`] if M or N is 0, M > N where orthonormal rows are needed, kappa < 1, rho
    /// outside [0, 1), or either not finite.
    pub fn build(&self, m: usize, n: usize, seed: u64) -> Result<(Matrix, Option<Spectrum>)> {
        self.validate(m, n)?;
        let (values, spectrum) = match *self {
            Self::Gaussian => (
                scaled(gaussian(m, n, seed, MAIN), 1.0 / (m as f64).sqrt()),
                None,
            ),
            Self::RowOrthogonal => {
                let scale = (n as f64 / m as f64).sqrt();
                let values = haar_times(n, m, &scaled_identity(m, scale), seed, MAIN);
                (
                    values,
                    Some(Spectrum {
                        u: None,
                        eigenvalues: vec![n as f64 / m as f64; m],
                    }),
                )
            }
            Self::IllConditioned { kappa } => {
                let (values, spectrum) = ill_conditioned(m, n, kappa, seed);
                (values, Some(spectrum))
            }
            Self::Correlated { rho } => {
                let mut h = scaled(gaussian(m, n, seed, MAIN), 1.0 / (m as f64).sqrt());
                correlate(&mut h, n, rho);
                (h, None)
            }
        };
        Ok((Matrix::from_f64(m, n, values)?, spectrum))
    }

    fn validate(&self, m: usize, n: usize) -> Result<()> {
        if m == 0 || n == 0 {
            return Err(Error::usage(format!(
                "a matrix of {m} by {n}: M and N must be at least 1"
            )));
        }
        match *self {
            Self::RowOrthogonal | Self::IllConditioned { .. } if m > n => {
                Err(Error::usage(format!(
                    "a {self} matrix needs M ≤ N, here M = {m} and N = {n}: take fewer measurements or a gaussian matrix"
                )))
            }
            Self::IllConditioned { kappa } if !(kappa.is_finite() && kappa >= 1.0) => {
                Err(Error::usage(format!(
                    "kappa is {kappa}: a condition number is at least 1 and finite"
                )))
            }
            Self::Correlated { rho } if !(0.0..1.0).contains(&rho) => Err(Error::usage(format!(
                "rho is {rho}: it must be at least 0 and below 1"
            ))),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Ensemble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gaussian => write!(f, "gaussian"),
            Self::RowOrthogonal => write!(f, "row-orthogonal"),
            Self::IllConditioned { kappa } => write!(f, "ill-conditioned (kappa = {kappa})"),
            Self::Correlated { rho } => write!(f, "correlated (rho = {rho})"),
        }
    }
}

fn scaled(mut values: Vec<f64>, factor: f64) -> Vec<f64> {
    values.par_iter_mut().for_each(|value| *value *= factor);
    values
}

/// A = U·diag(lambda)·Vᵀ and its spectrum, lambda² with U.
fn ill_conditioned(m: usize, n: usize, kappa: f64, seed: u64) -> (Vec<f64>, Spectrum) {
    let mut lambda: Vec<f64> = (0..m).map(|i| kappa.powf(-(i as f64) / m as f64)).collect();
    let norm = (n as f64 / lambda.iter().map(|l| l * l).sum::<f64>()).sqrt();
    lambda.iter_mut().for_each(|l| *l *= norm);

    // A column-major Haar matrix read row-major is its transpose, which is Haar as well: this is U,
    // row-major.
    let u = haar_times(m, m, &scaled_identity(m, 1.0), seed, LEFT);
    // diag(lambda)·Uᵀ, column-major; then Aᵀ = V·diag(lambda)·Uᵀ, column-major, is A row-major.
    let mut scaled_rows = u.clone();
    for column in scaled_rows.chunks_exact_mut(m) {
        column
            .iter_mut()
            .zip(&lambda)
            .for_each(|(entry, l)| *entry *= l);
    }
    let values = haar_times(n, m, &scaled_rows, seed, MAIN);
    let eigenvalues = lambda.iter().map(|l| l * l).collect();
    (
        values,
        Spectrum {
            u: Some(u),
            eigenvalues,
        },
    )
}

/// h ← B_L·h·B_Rᵀ where B is the Cholesky factor of R_ij = rho^|i−j|. As h is Gaussian, any square
/// root of R gives the law that the paper's symmetric root gives, and this one is the AR(1)
/// recursion b_i = rho·b_(i−1) + sqrt(1 − rho²)·h_i.
fn correlate(h: &mut [f64], cols: usize, rho: f64) {
    let fresh = ((1.0 - rho) * (1.0 + rho)).sqrt();
    h.par_chunks_mut(cols).for_each(|row| {
        for j in 1..row.len() {
            row[j] = rho * row[j - 1] + fresh * row[j];
        }
    });
    for i in 1..h.len() / cols {
        let (above, row) = h[(i - 1) * cols..(i + 1) * cols].split_at_mut(cols);
        for (entry, above) in row.iter_mut().zip(above) {
            *entry = rho * *above + fresh * *entry;
        }
    }
}

//! A·Aᵀ = U·diag(eigenvalues)·Uᵀ: what EP needs of A besides A, once per problem.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatRef};
use rayon::prelude::*;

use super::haar::parallelism;
use super::matrix::{times, transpose_times};
use super::{Matrix, Operator};
use crate::error::{Error, Result, room_for};

/// The eigendecomposition of A·Aᵀ.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Eigenvectors as columns, `[M, M]` row-major; `None` is the identity.
    pub u: Option<Vec<f64>>,
    /// Eigenvalues of A·Aᵀ (lambda, the paper's Σ²: squared singular values of A), M of them, ≥ 0,
    /// largest first when computed here.
    pub eigenvalues: Vec<f64>,
}

impl Spectrum {
    /// Factorises A·Aᵀ in f64; the same bits for any number of threads. Rounding can turn a zero
    /// eigenvalue negative: it is set to 0.
    ///
    /// # Errors
    /// [`Error::Failed`] if the iteration does not converge, which finite input of sane scale does
    /// not do.
    pub fn of(a: &Matrix) -> Result<Self> {
        crate::pool::install(|| Self::factorise(a))
    }

    fn factorise(a: &Matrix) -> Result<Self> {
        let (m, n) = (a.rows(), a.cols());
        let par = parallelism();
        let scratch = self_adjoint_evd_scratch::<f64>(m, ComputeEigenvectors::Yes, par, Default::default());
        // A·Aᵀ, its vectors, U, and A in double precision.
        let numbers = 3 * (m as u128).pow(2) + m as u128 * n as u128;
        room_for(
            8 * numbers + scratch.unaligned_bytes_required() as u128,
            "the factorisation of A",
        )?;
        let mut gram = Mat::<f64>::zeros(m, m);
        let values = a.to_f64();
        let rows = MatRef::from_row_major_slice(&values, m, n);
        triangular::matmul(
            gram.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            rows,
            BlockStructure::Rectangular,
            rows.transpose(),
            BlockStructure::Rectangular,
            1.0,
            par,
        );
        drop(values);

        let mut s = Diag::<f64>::zeros(m);
        let mut vectors = Mat::<f64>::zeros(m, m);
        self_adjoint_evd(
            gram.as_ref(),
            s.as_mut(),
            Some(vectors.as_mut()),
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Default::default(),
        )
        .map_err(|e| Error::Failed(format!("the eigendecomposition of A·Aᵀ failed ({e:?}): rescale A")))?;

        // faer's order is ascending.
        let eigenvalues = s.column_vector().iter().rev().map(|&value| value.max(0.0)).collect();
        let mut u = vec![0.0; m * m];
        u.par_chunks_mut(m).enumerate().for_each(|(i, row)| {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry = vectors[(i, m - 1 - j)];
            }
        });
        Ok(Self {
            u: Some(u),
            eigenvalues,
        })
    }

    /// Whether this is the spectrum of `a`, probed with one vector v: U·Uᵀ·v = v and U·diag·Uᵀ·v =
    /// A·Aᵀ·v. It reads A twice and U three times, where a factorisation would take M³.
    ///
    /// # Errors
    /// [`Error::Usage`] if a length is wrong, a value is not finite, an eigenvalue is negative, or
    /// a probe fails.
    pub fn check(&self, a: &Operator) -> Result<()> {
        let m = a.rows();
        if self.eigenvalues.len() != m || self.u.as_ref().is_some_and(|u| Some(u.len()) != m.checked_mul(m)) {
            return Err(Error::usage(format!("eigenvalues must have M = {m} entries and U M·M")));
        }
        if !self.eigenvalues.iter().all(|&value| value.is_finite() && value >= 0.0) {
            return Err(Error::usage("eigenvalues must be finite and not negative"));
        }
        if self
            .u
            .as_ref()
            .is_some_and(|u| !u.iter().all(|entry| entry.is_finite()))
        {
            return Err(Error::usage("U holds NaN or infinity"));
        }
        let v: Vec<f64> = (0..m as u64).map(probe).collect();
        let rotated = self.u.as_ref().map_or_else(|| v.clone(), |u| transpose_times(u, m, &v));
        let back = |w: Vec<f64>| self.u.as_ref().map_or_else(|| w.clone(), |u| times(u, m, &w));
        let weighted = rotated.iter().zip(&self.eigenvalues).map(|(r, e)| r * e).collect();
        if !near(&back(rotated), &v) {
            return Err(Error::usage("U is not orthogonal in double precision"));
        }
        if !near(&back(weighted), &a.times(&a.transpose_times(&v))) {
            return Err(Error::usage(
                "U and eigenvalues are not those of A·Aᵀ in double precision",
            ));
        }
        Ok(())
    }
}

/// ±1 by a bit of a multiplicative hash: no eigenvector of interest is orthogonal to this.
fn probe(i: u64) -> f64 {
    let hash = (i + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9);
    if hash >> 63 == 0 { 1.0 } else { -1.0 }
}

/// ‖a − b‖ ≤ 1e-9·‖b‖. Sums of 1e4 f64 terms err by 1e-12 at most; factors rounded to f32 (6e-8)
/// must not pass, as EP would lose its accuracy with them.
fn near(a: &[f64], b: &[f64]) -> bool {
    let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    distance.sqrt() <= 1e-9 * norm.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Ensemble;

    fn gaussian(m: usize, n: usize) -> Matrix {
        Ensemble::Gaussian.build(m, n, 2).unwrap().0
    }

    #[test]
    fn the_computed_spectrum_reconstructs_the_gram_matrix() {
        let (m, n) = (60, 100);
        let a = gaussian(m, n);
        let Spectrum { u, eigenvalues } = Spectrum::of(&a).unwrap();
        let u = u.unwrap();
        let values = a.to_f64();
        assert!(eigenvalues.windows(2).all(|pair| pair[0] >= pair[1]), "largest first");
        for i in 0..m {
            for j in 0..m {
                let pairs = || u[i * m..(i + 1) * m].iter().zip(&u[j * m..(j + 1) * m]);
                let dot: f64 = pairs().map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
                let entry: f64 = pairs().zip(&eigenvalues).map(|((a, b), e)| a * b * e).sum();
                let rows = values[i * n..(i + 1) * n].iter().zip(&values[j * n..(j + 1) * n]);
                let gram: f64 = rows.map(|(a, b)| a * b).sum();
                assert!((entry - gram).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn dependent_rows_give_eigenvalues_of_zero_and_never_below() {
        let a = gaussian(30, 12);
        let spectrum = Spectrum::of(&a).unwrap();
        spectrum.check(&a.into()).unwrap();
        assert!(spectrum.eigenvalues.iter().all(|&value| value >= 0.0));
        assert!(spectrum.eigenvalues[11] > 1e-3 && spectrum.eigenvalues[12] < 1e-13);
    }

    #[test]
    fn a_single_precision_matrix_is_factorised_in_double() {
        let a = gaussian(20, 33);
        let a = Matrix::from_f32(20, 33, a.to_f32().into_owned()).unwrap();
        Spectrum::of(&a).unwrap().check(&a.into()).unwrap();
    }

    #[test]
    fn a_matrix_of_one_row_has_its_squared_norm() {
        let a = Matrix::from_f64(1, 2, vec![3.0, 4.0]).unwrap();
        let spectrum = Spectrum::of(&a).unwrap();
        assert!((spectrum.eigenvalues[0] - 25.0).abs() < 1e-13);
        assert_eq!(spectrum.u.unwrap()[0].abs(), 1.0);
    }

    #[test]
    fn a_spectrum_of_something_else_is_refused() {
        let a = gaussian(9, 14);
        let good = Spectrum::of(&a).unwrap();
        let a = Operator::from(a);
        good.check(&a).unwrap();
        let refusal = |change: &dyn Fn(&mut Vec<f64>, &mut Vec<f64>)| {
            let Spectrum { u, mut eigenvalues } = good.clone();
            let mut u = u.unwrap();
            change(&mut u, &mut eigenvalues);
            let changed = Spectrum {
                u: Some(u),
                eigenvalues,
            };
            changed.check(&a).unwrap_err().to_string()
        };
        assert!(refusal(&|u, _| u[40] += 1e-6).contains("orthogonal"));
        assert!(refusal(&|u, _| u.iter_mut().for_each(|u| *u = f64::from(*u as f32))).contains("orthogonal"));
        assert!(refusal(&|u, _| u[3] = f64::NAN).contains("NaN"));
        assert!(refusal(&|u, _| u[3] = 1e300).contains("orthogonal"));
        assert!(refusal(&|u, _| u.truncate(80)).contains("M·M"));
        assert!(refusal(&|_, e| e.swap(0, 8)).contains("not those of A"));
        assert!(refusal(&|_, e| e[0] *= 1.0 + 1e-6).contains("not those of A"));
        assert!(refusal(&|_, e| e[8] = -1e-9).contains("negative"));
        assert!(refusal(&|_, e| e[8] = f64::INFINITY).contains("finite"));
        assert!(refusal(&|_, e| e.truncate(8)).contains("M = 9"));
        let identity = Spectrum { u: None, ..good };
        assert!(identity.check(&a).unwrap_err().to_string().contains("not those of A"));
        assert!(good_for_another_matrix_is_refused(&identity));
    }

    fn good_for_another_matrix_is_refused(spectrum: &Spectrum) -> bool {
        spectrum.check(&gaussian(10, 14).into()).is_err()
    }
}

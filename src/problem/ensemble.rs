//! The laws of random sensing matrices, as the paper defines them.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::haar::{gaussian, haar_times, scaled_identity};
use super::{Matrix, Spectrum};
use crate::error::{Error, Result, room_for};

/// A law of M×N matrices. In all of them E[tr(A·Aᵀ)] = N.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ensemble", rename_all = "kebab-case")]
pub enum Ensemble {
    /// Independent N(0, 1/M).
    Gaussian,
    /// sqrt(N/M) times M orthonormal Haar rows: A·Aᵀ = N/M·I.
    RowOrthogonal,
    /// U·diag(s)·Vᵀ with Haar U and V, s_i/s_(i+1) = kappa^(1/M) and tr(A·Aᵀ) = N;
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
        // Where columns are made orthogonal, a second matrix of its size is made on the way.
        let matrices = match self {
            Self::Gaussian | Self::Correlated { .. } => 1,
            Self::RowOrthogonal | Self::IllConditioned { .. } => 3,
        };
        room_for(8 * matrices * m as u128 * n as u128, "a matrix of this size")?;
        crate::pool::install(|| self.draw(m, n, seed))
    }

    fn draw(&self, m: usize, n: usize, seed: u64) -> Result<(Matrix, Option<Spectrum>)> {
        let (values, spectrum) = match *self {
            Self::Gaussian => (scaled(gaussian(m, n, seed, MAIN), 1.0 / (m as f64).sqrt()), None),
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
            Self::RowOrthogonal | Self::IllConditioned { .. } if m > n => Err(Error::usage(format!(
                "a {self} matrix needs M ≤ N, here M = {m} and N = {n}: take fewer measurements or a gaussian matrix"
            ))),
            Self::IllConditioned { kappa } if !(kappa.is_finite() && kappa >= 1.0) => Err(Error::usage(format!(
                "kappa is {kappa}: a condition number is at least 1 and finite"
            ))),
            Self::Correlated { rho } if !(0.0..1.0).contains(&rho) => {
                Err(Error::usage(format!("rho is {rho}: it must be at least 0 and below 1")))
            }
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

/// A = U·diag(s)·Vᵀ with singular values s, and its spectrum, s² with U.
fn ill_conditioned(m: usize, n: usize, kappa: f64, seed: u64) -> (Vec<f64>, Spectrum) {
    let mut singular: Vec<f64> = (0..m).map(|i| kappa.powf(-(i as f64) / m as f64)).collect();
    let norm = (n as f64 / singular.iter().map(|l| l * l).sum::<f64>()).sqrt();
    singular.iter_mut().for_each(|l| *l *= norm);

    // A column-major Haar matrix read row-major is its transpose, which is Haar as well: this is U,
    // row-major.
    let u = haar_times(m, m, &scaled_identity(m, 1.0), seed, LEFT);
    // diag(s)·Uᵀ, column-major; then Aᵀ = V·diag(s)·Uᵀ, column-major, is A row-major.
    let mut scaled_rows = u.clone();
    for column in scaled_rows.chunks_exact_mut(m) {
        column.iter_mut().zip(&singular).for_each(|(entry, l)| *entry *= l);
    }
    let values = haar_times(n, m, &scaled_rows, seed, MAIN);
    let eigenvalues = singular.iter().map(|l| l * l).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::matrix::times;

    const ALL: [Ensemble; 4] = [
        Ensemble::Gaussian,
        Ensemble::RowOrthogonal,
        Ensemble::IllConditioned { kappa: 1000.0 },
        Ensemble::Correlated { rho: 0.7 },
    ];

    /// A·Aᵀ, `[M, M]`.
    fn gram(a: &Matrix) -> Vec<f64> {
        let values = a.to_f64();
        values
            .chunks_exact(a.cols())
            .flat_map(|row| times(&values, a.cols(), row))
            .collect()
    }

    #[test]
    fn gaussian_entries_have_mean_0_and_variance_1_over_m() {
        let (m, n) = (200, 300);
        let (a, spectrum) = Ensemble::Gaussian.build(m, n, 7).unwrap();
        assert!(spectrum.is_none());
        let count = (m * n) as f64;
        let moment = |p: i32| {
            let unit = |a: &f64| (a * (m as f64).sqrt()).powi(p);
            a.to_f64().iter().map(unit).sum::<f64>() / count
        };
        // Four standard errors; the variances of x, x² and x⁴ are 1, 2 and 96.
        for (p, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)] {
            let error = (moment(p) - mean) / f64::sqrt(variance / count);
            assert!(error.abs() < 4.0, "moment {p} is {error} standard errors off");
        }
    }

    #[test]
    fn row_orthogonal_rows_are_orthogonal_with_squared_norm_n_over_m() {
        let (m, n) = (30, 70);
        let (a, spectrum) = Ensemble::RowOrthogonal.build(m, n, 1).unwrap();
        let gain = n as f64 / m as f64;
        for (i, entry) in gram(&a).into_iter().enumerate() {
            let expected = if i % (m + 1) == 0 { gain } else { 0.0 };
            assert!((entry - expected).abs() < 1e-13, "entry {i}: {entry}");
        }
        let spectrum = spectrum.expect("the construction knows it");
        assert_eq!((spectrum.u, spectrum.eigenvalues), (None, vec![gain; m]));
    }

    #[test]
    fn ill_conditioned_singular_values_fall_by_kappa_to_the_1_over_m() {
        for (m, n, kappa) in [(40, 90, 1000.0), (25, 25, 10.0), (12, 30, 1.0), (1, 5, 50.0)] {
            let (a, _) = Ensemble::IllConditioned { kappa }.build(m, n, 3).unwrap();
            // Computed from A alone; the smallest eigenvalue is known to 1e-16·kappa².
            let eigenvalues = Spectrum::of(&a).unwrap().eigenvalues;
            let ratio = kappa.powf(1.0 / m as f64);
            for pair in eigenvalues.windows(2) {
                assert!(((pair[0] / pair[1]).sqrt() / ratio - 1.0).abs() < 1e-9);
            }
            let condition = (eigenvalues[0] / eigenvalues[m - 1]).sqrt();
            let expected = kappa.powf((m - 1) as f64 / m as f64);
            assert!((condition / expected - 1.0).abs() < 1e-9, "{condition}");
            let trace = a.diag().iter().sum::<f64>() / n as f64;
            assert!((trace - 1.0).abs() < 1e-13, "tr(A·Aᵀ) = {trace}·N");
        }
    }

    #[test]
    fn the_known_spectrum_is_an_eigendecomposition_with_orthonormal_u() {
        let (m, n) = (40, 90);
        let (a, spectrum) = ALL[2].build(m, n, 5).unwrap();
        let Spectrum { u, eigenvalues } = spectrum.expect("the construction knows it");
        let u = u.expect("U is not the identity");
        let gram = gram(&a);
        for i in 0..m {
            for j in 0..m {
                let (row_i, row_j) = (&u[i * m..(i + 1) * m], &u[j * m..(j + 1) * m]);
                let pairs = || row_i.iter().zip(row_j);
                let dot: f64 = pairs().map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
                let entry: f64 = pairs().zip(&eigenvalues).map(|((a, b), e)| a * b * e).sum();
                assert!((gram[i * m + j] - entry).abs() < 1e-12 * eigenvalues[0]);
            }
        }
    }

    #[test]
    fn with_kappa_1_a_square_matrix_is_haar_so_u_and_v_are_independent() {
        let draws = 3000;
        let traces: Vec<f64> = (0..draws)
            .map(|seed| {
                let (a, _) = Ensemble::IllConditioned { kappa: 1.0 }.build(4, 4, seed).unwrap();
                a.to_f64().iter().step_by(5).sum()
            })
            .collect();
        let mean = traces.iter().sum::<f64>() / draws as f64;
        let square = traces.iter().map(|t| t * t).sum::<f64>() / draws as f64;
        assert!(mean.abs() < 4.0 / (draws as f64).sqrt(), "mean trace {mean}");
        assert!((square - 1.0).abs() < 4.0 * (2.0 / draws as f64).sqrt(), "{square}");
    }

    #[test]
    fn correlated_entries_have_the_kronecker_covariance() {
        let (m, n, rho, draws) = (3usize, 4usize, 0.6f64, 20_000);
        let mut sums = vec![0.0; (m * n).pow(2)];
        for seed in 0..draws {
            let (a, _) = Ensemble::Correlated { rho }.build(m, n, seed).unwrap();
            let a = a.to_f64();
            for (sum, k) in sums.iter_mut().zip(0..) {
                *sum += a[k / (m * n)] * a[k % (m * n)];
            }
        }
        let distance = |i: usize, j: usize| i.abs_diff(j) as i32;
        for (k, sum) in sums.into_iter().enumerate() {
            let (p, q) = (k / (m * n), k % (m * n));
            let lag = distance(p / n, q / n) + distance(p % n, q % n);
            let correlation = rho.powi(lag);
            // var(xy) = (1 + correlation²)/M²; five standard errors for 144 entries.
            let error = (1.0 + correlation * correlation).sqrt() / (m as f64 * f64::sqrt(draws as f64));
            let found = sum / draws as f64;
            assert!(
                (found - correlation / m as f64).abs() < 5.0 * error,
                "entries {p} and {q}: {found}"
            );
        }
    }

    #[test]
    fn without_correlation_a_correlated_matrix_is_the_gaussian_one() {
        let (a, _) = Ensemble::Correlated { rho: 0.0 }.build(20, 30, 9).unwrap();
        let (b, _) = Ensemble::Gaussian.build(20, 30, 9).unwrap();
        assert_eq!(a, b);
    }

    #[test]
    fn a_seed_gives_the_same_bits_with_any_number_of_threads() {
        let build = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                ALL.map(|ensemble| {
                    let (a, spectrum) = ensemble.build(310, 433, 11).unwrap();
                    let computed = Spectrum::of(&a).unwrap();
                    (a, spectrum, computed)
                })
            })
        };
        let one = build(1);
        for threads in [2, 3, 9] {
            // Not assert_eq: a failure would print a million numbers.
            assert!(build(threads) == one, "{threads} threads");
        }
    }

    #[test]
    fn seeds_give_different_matrices() {
        for ensemble in ALL {
            assert_ne!(ensemble.build(3, 5, 1).unwrap().0, ensemble.build(3, 5, 2).unwrap().0);
        }
    }

    #[test]
    fn parameters_out_of_range_are_usage_errors() {
        let refused = |e: Ensemble, m, n| matches!(e.build(m, n, 0), Err(Error::Usage(_)));
        for kappa in [0.99, 0.0, -5.0, f64::NAN, f64::INFINITY] {
            assert!(refused(Ensemble::IllConditioned { kappa }, 2, 4), "kappa {kappa}");
        }
        for rho in [1.0, -0.1, 2.0, f64::NAN] {
            assert!(refused(Ensemble::Correlated { rho }, 2, 4), "rho {rho}");
        }
        for ensemble in ALL {
            assert!(refused(ensemble, 0, 4) && refused(ensemble, 4, 0));
        }
        assert!(
            refused(ALL[1], 5, 4) && refused(ALL[2], 5, 4),
            "M > N has no orthonormal rows"
        );
        assert!(ALL[0].build(5, 4, 0).is_ok() && ALL[3].build(5, 4, 0).is_ok());
    }
}

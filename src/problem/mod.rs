//! The inverse problem y = Q(Ax + n): the operator A, the cells that hold Ax + n, and the noise
//! level.
//!
//! - [`Operator`] is A, a [`Matrix`] the plainest kind, [`Ensemble`] the laws that one can be drawn
//!   from, [`Spectrum`] the eigendecomposition of A·Aᵀ;
//! - [`Quantiser`] is Q, [`Cells`] are the measurements;
//! - [`Problem`] holds them together, [`Problem::simulate`] makes one from images,
//!   [`Problem::read`] and [`Problem::write`] keep it in a safetensors file.

mod balance;
mod cells;
mod ensemble;
mod file;
mod haar;
mod matrix;
mod matrix_file;
mod operator;
mod quantiser;
mod simulate;
mod spectrum;

use std::sync::OnceLock;

pub use cells::Cells;
pub use ensemble::Ensemble;
pub use matrix::Matrix;
pub use operator::{Array, Factor, Measurements, Operator, Parts, Structure};
pub use quantiser::Quantiser;
pub use simulate::{Sensing, Simulation};
pub use spectrum::Spectrum;

pub use crate::files::safetensors::Values;

use crate::error::{Error, Result};
use crate::files::on_one_line;
use crate::images::{ImageShape, Images};

/// The least noise, as a share of the root mean square norm of A's rows, that the likelihood counts
/// with.
const NOISE_FLOOR: f64 = 1e-6;

/// The root mean square norm of A's rows must lie within a factor of this from 1: squares of
/// anything then stay in the range of f64, and A itself in that of f32.
const ROW_NORM_RANGE: f64 = 1e12;

/// y = Q(Ax + n) for B images that share A, Q and the noise level.
#[derive(Clone, Debug)]
pub struct Problem {
    a: Operator,
    cells: Cells,
    sigma: f64,
    /// Of each measurement, where they differ; `sigma` is their root mean square then
    sigmas: Option<Vec<f64>>,
    shape: Option<ImageShape>,
    quantiser: Option<Quantiser>,
    truth: Option<Images>,
    /// Of each image, what its file is called
    names: Option<Vec<String>>,
    origin: Option<Origin>,
    diag: Vec<f64>,
    rotates: bool,
    spectrum: OnceLock<Spectrum>,
}

/// How a simulated problem came about, for the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Origin {
    /// The law A was drawn from; `None` for a user's own matrix.
    pub ensemble: Option<Ensemble>,
    /// The seed of A and of the noise.
    pub seed: u64,
}

impl Problem {
    /// The problem of operator `a`, `cells` of B images, and noise of standard deviation `sigma`.
    ///
    /// M > N is allowed: A·Aᵀ then has zero eigenvalues, which the floor of
    /// [`Problem::sigma2_floored`] carries.
    ///
    /// # Errors
    /// [`Error::Usage`] if the cells have not M measurements per image, if `sigma` is negative or
    /// not finite (0 is legal), or if A is zero or so badly scaled that squares leave the range of
    /// f64.
    pub fn new(a: impl Into<Operator>, cells: Cells, sigma: f64) -> Result<Self> {
        let a = a.into();
        if cells.m() != a.rows() {
            return Err(Error::usage(format!(
                "there are {} measurements per image, but A has {} rows: both are M",
                cells.m(),
                a.rows()
            )));
        }
        check_sigma(sigma)?;
        let diag = a.diag();
        check_scale(&diag)?;
        let (rotates, spectrum) = match a.eigenvalues() {
            None => (true, OnceLock::new()),
            Some(eigenvalues) => {
                let eigenvalues = eigenvalues.to_vec();
                (a.rotates(), OnceLock::from(Spectrum { u: None, eigenvalues }))
            }
        };
        Ok(Self {
            a,
            cells,
            sigma,
            sigmas: None,
            shape: None,
            quantiser: None,
            truth: None,
            names: None,
            origin: None,
            diag,
            rotates,
            spectrum,
        })
    }

    /// Gives every measurement a noise level of its own; methods take such a problem [balanced](Problem::balanced).
    ///
    /// # Errors
    /// [`Error::Usage`] if there are not M of them, or one is negative or not finite.
    pub fn with_sigmas(mut self, sigmas: Vec<f64>) -> Result<Self> {
        if sigmas.len() != self.a.rows() {
            return Err(Error::usage(format!(
                "there are {} sigmas for {} measurements: a tensor `sigma` is [M]",
                sigmas.len(),
                self.a.rows()
            )));
        }
        sigmas.iter().try_for_each(|&sigma| check_sigma(sigma))?;
        let squares: Vec<f64> = sigmas.iter().map(|sigma| sigma * sigma).collect();
        self.sigma = mean(&squares).sqrt();
        self.sigmas = Some(sigmas);
        Ok(self)
    }

    /// Records the images' shape.
    ///
    /// # Errors
    /// [`Error::Usage`] if C·H·W is not N, or if another shape is known already.
    pub fn with_shape(mut self, shape: ImageShape) -> Result<Self> {
        let pixels = shape
            .channels
            .checked_mul(shape.height)
            .and_then(|s| s.checked_mul(shape.width));
        if pixels != Some(self.a.cols()) {
            return Err(Error::usage(format!(
                "images of shape {shape} do not fit A with N = {} columns: C·H·W must be N",
                self.a.cols()
            )));
        }
        if self.shape.is_some_and(|known| known != shape) {
            return Err(Error::usage(format!(
                "shape {shape} contradicts the shape of the truth"
            )));
        }
        self.shape = Some(shape);
        Ok(self)
    }

    /// Records the images that were measured, and their shape.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are not B of them, their shape does not fit, or a pixel is not
    /// finite or lies outside of 0 to 1.
    pub fn with_truth(self, truth: Images) -> Result<Self> {
        if truth.count() != self.cells.count() {
            return Err(Error::usage(format!(
                "there are {} true images but measurements of {}",
                truth.count(),
                self.cells.count()
            )));
        }
        check_pixels(&truth)?;
        let mut problem = self.with_shape(truth.shape)?;
        problem.truth = Some(truth);
        Ok(problem)
    }

    /// Records what each image is called: the name of its file.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are not B of them.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self> {
        if names.len() != self.cells.count() {
            return Err(Error::usage(format!(
                "there are {} names for {} images",
                names.len(),
                self.cells.count()
            )));
        }
        // They may be a stranger's, and will stand in tables.
        self.names = Some(names.iter().map(|name| on_one_line(name)).collect());
        Ok(self)
    }

    /// Records the quantiser that made the cells.
    pub fn with_quantiser(mut self, quantiser: Quantiser) -> Self {
        self.quantiser = Some(quantiser);
        self
    }

    /// Records how the problem came about.
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Takes the spectrum of A·Aᵀ from whoever knows it, so that it need not be computed.
    ///
    /// # Errors
    /// As [`Spectrum::check`].
    pub fn with_spectrum(self, spectrum: Spectrum) -> Result<Self> {
        if self.a.matrix().is_none() {
            return Err(Error::usage("an operator without a matrix has a spectrum of its own"));
        }
        spectrum.check(&self.a)?;
        Ok(self.knowing(spectrum))
    }

    /// The same, knowing a spectrum that is A's by construction.
    fn knowing(mut self, spectrum: Spectrum) -> Self {
        self.rotates = spectrum.u.is_some();
        self.spectrum = OnceLock::from(spectrum);
        self
    }

    /// A, M×N.
    pub fn a(&self) -> &Operator {
        &self.a
    }

    /// The measurements, `[B, M]`.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The noise's standard deviation, where measurements differ in it the root mean square; 0 is a noise-free problem.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The noise's standard deviation by measurement, where they differ in it.
    pub fn sigmas(&self) -> Option<&[f64]> {
        self.sigmas.as_deref()
    }

    /// The images' shape, if known.
    pub fn shape(&self) -> Option<ImageShape> {
        self.shape
    }

    /// The quantiser, if the cells came from one and it was recorded.
    pub fn quantiser(&self) -> Option<Quantiser> {
        self.quantiser
    }

    /// The images that were measured, if simulated.
    pub fn truth(&self) -> Option<&Images> {
        self.truth.as_ref()
    }

    /// What each image is called, where it came from a file of its own.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// How the problem came about, if simulated.
    pub fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// A and, if it is known by now, its spectrum.
    pub fn into_operator(self) -> (Operator, Option<Spectrum>) {
        (self.a, self.spectrum.into_inner())
    }

    /// diag(A·Aᵀ), length M.
    pub fn diag(&self) -> &[f64] {
        &self.diag
    }

    /// The mean of diag(A·Aᵀ), and of the eigenvalues.
    pub fn mean_diag(&self) -> f64 {
        mean(&self.diag)
    }

    /// sigma², but at least (1e-6)² times the mean eigenvalue of A·Aᵀ: what the likelihood counts
    /// with, so that a noise-free problem is stable.
    ///
    /// EP works with D_i = 1/(sigma² + beta²·lambda_i). lambda_i may be 0 (dependent rows, M > N),
    /// as may a row of A in the diagonal score: without a floor D is infinite at sigma = 0. D enters
    /// as D/(tau + D) and 1/(tau + D), which are exact to rounding for any finite D, so the floor can
    /// be small: with kappa = 1000 the smallest beta²·lambda at the last level (beta = 0.01), 1e-10
    /// of the largest lambda, is at least 100 times the floor. It should not be smaller: at
    /// beta = 100 the eigenvalues' own rounding, 1e-16 of the largest, counts as 1e-12 of it, and
    /// below that rounding would decide D.
    pub fn sigma2_floored(&self) -> f64 {
        (self.sigma * self.sigma).max(NOISE_FLOOR * NOISE_FLOOR * self.mean_diag())
    }

    /// The spectrum of A·Aᵀ: known from the construction or the file, else computed at the first
    /// call.
    ///
    /// # Errors
    /// As [`Spectrum::of`].
    pub fn spectrum(&self) -> Result<&Spectrum> {
        if let Some(spectrum) = self.spectrum.get() {
            return Ok(spectrum);
        }
        let spectrum = Spectrum::of(self.factorisable())?;
        Ok(self.spectrum.get_or_init(|| spectrum))
    }

    /// The same by other means than [`Spectrum::of`], unless it is known already.
    ///
    /// # Errors
    /// As `compute`, and if what it gives is not the spectrum of A or has no U.
    pub fn spectrum_by(&self, compute: impl FnOnce(&Matrix) -> Result<Spectrum>) -> Result<&Spectrum> {
        if let Some(spectrum) = self.spectrum.get() {
            return Ok(spectrum);
        }
        let spectrum = compute(self.factorisable())?;
        spectrum.check(&self.a)?;
        if spectrum.u.is_none() {
            // Plans may have been made since, with rotations.
            return Err(Error::usage("U is missing"));
        }
        Ok(self.spectrum.get_or_init(|| spectrum))
    }

    /// The matrix whose spectrum is still to be computed.
    fn factorisable(&self) -> &Matrix {
        self.a
            .matrix()
            .expect("an operator without a matrix knows its spectrum")
    }

    /// Whether U is more than the identity, which a plan must know. It is settled when the problem is made: what is computed
    /// later always has a U.
    pub fn rotates(&self) -> bool {
        self.rotates
    }

    /// U·diag(f(λ))·Uᵀ·v in f64, with λ the eigenvalues of A·Aᵀ.
    ///
    /// # Errors
    /// As [`Problem::spectrum`].
    pub fn filtered(&self, v: &[f64], f: impl Fn(f64) -> f64) -> Result<Vec<f64>> {
        let spectrum = self.spectrum()?;
        let m = self.a.rows();
        let weigh = |mut turned: Vec<f64>| {
            let weights = spectrum.eigenvalues.iter().map(|&lambda| f(lambda));
            turned.iter_mut().zip(weights).for_each(|(v, weight)| *v *= weight);
            turned
        };
        Ok(match &spectrum.u {
            Some(u) => matrix::times(u, m, &weigh(matrix::transpose_times(u, m, v))),
            None if self.rotates => self.a.rotated_back(&weigh(self.a.rotated(v))),
            None => weigh(v.to_vec()),
        })
    }

    /// The spectrum if it is known already.
    pub fn known_spectrum(&self) -> Option<&Spectrum> {
        self.spectrum.get()
    }
}

fn check_sigma(sigma: f64) -> Result<()> {
    if sigma >= 0.0 && (sigma * sigma).is_finite() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "sigma is {sigma}: the noise's standard deviation must be 0 or more and finite"
    )))
}

fn check_scale(diag: &[f64]) -> Result<()> {
    let row_norm = mean(diag).sqrt();
    if (1.0 / ROW_NORM_RANGE..=ROW_NORM_RANGE).contains(&row_norm) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the rows of A have a root mean square norm of {row_norm:e}: scale A, sigma and the cells to bring it near 1"
    )))
}

fn check_pixels(images: &Images) -> Result<()> {
    match images.data.iter().position(|pixel| !pixel.is_finite()) {
        None => Ok(()),
        Some(i) => Err(Error::usage(format!(
            "image {} holds NaN or infinity",
            i / images.shape.len()
        ))),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One image, two measurements, three pixels.
    fn problem(a: &[f64], sigma: f64) -> Result<Problem> {
        let cells = Cells::new(2, vec![0.0, f64::NEG_INFINITY], vec![f64::INFINITY, 0.0])?;
        Problem::new(Matrix::from_f64(2, 3, a.to_vec())?, cells, sigma)
    }

    const A: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 3.0, 0.0];

    #[test]
    fn noise_below_the_floor_counts_as_the_floor() {
        // The mean eigenvalue of A·Aᵀ is (1 + 9)/2.
        assert_eq!(problem(&A, 0.0).unwrap().sigma2_floored(), 1e-6 * 1e-6 * 5.0);
        assert_eq!(problem(&A, 0.5).unwrap().sigma2_floored(), 0.25);
        assert_eq!(
            problem(&A, 0.0).unwrap().sigma(),
            0.0,
            "the problem itself stays noise-free"
        );
    }

    #[test]
    fn the_floor_keeps_d_finite_where_rows_are_dependent() {
        let problem = problem(&[1.0, 2.0, 0.0, 1.0, 2.0, 0.0], 0.0).unwrap();
        let smallest = problem.spectrum().unwrap().eigenvalues[1];
        for beta in [0.001f64, 0.01, 1.0, 100.0] {
            let d = 1.0 / (problem.sigma2_floored() + beta * beta * smallest);
            assert!(d.is_finite() && d <= 1e12 / 5.0 * (1.0 + 1e-12));
        }
    }

    #[test]
    fn negative_or_non_finite_noise_is_refused() {
        for sigma in [-1e-9, f64::NAN, f64::INFINITY, 1e200] {
            let message = problem(&A, sigma).unwrap_err().to_string();
            assert!(message.contains("sigma"), "{message}");
        }
    }

    #[test]
    fn a_matrix_of_zeros_or_of_absurd_scale_is_refused() {
        for scale in [0.0, 1e-200, 1e-13, 1e13, 1e200] {
            let message = problem(&A.map(|a| a * scale), 0.1).unwrap_err().to_string();
            assert!(message.contains("scale A"), "{message}");
        }
        assert!(problem(&A.map(|a| a * 1e-9), 0.1).is_ok());
    }

    #[test]
    fn measurements_and_rows_must_agree() {
        let cells = Cells::new(3, vec![0.0; 3], vec![1.0; 3]).unwrap();
        let a = Matrix::from_f64(2, 3, A.to_vec()).unwrap();
        let message = Problem::new(a, cells, 0.1).unwrap_err().to_string();
        assert!(message.contains('3') && message.contains("2 rows"), "{message}");
    }

    #[test]
    fn more_measurements_than_pixels_are_allowed() {
        let cells = Cells::new(3, vec![0.0; 3], vec![1.0; 3]).unwrap();
        let a = Matrix::from_f64(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let problem = Problem::new(a, cells, 0.0).unwrap();
        assert!(problem.spectrum().unwrap().eigenvalues[2] < 1e-13);
    }

    #[test]
    fn shapes_and_truth_must_fit() {
        let good = || problem(&A, 0.1).unwrap();
        assert_eq!(
            good().with_shape(ImageShape::new(3, 1, 1)).unwrap().shape(),
            Some(ImageShape::new(3, 1, 1))
        );
        assert!(good().with_shape(ImageShape::new(1, 2, 2)).is_err());
        assert!(
            good().with_shape(ImageShape::new(usize::MAX, 2, 2)).is_err(),
            "the product overflows"
        );
        let truth = |count: usize, value| Images::new(ImageShape::new(1, 1, 3), vec![value; 3 * count]);
        assert_eq!(
            good().with_truth(truth(1, 0.5)).unwrap().shape(),
            Some(ImageShape::new(1, 1, 3))
        );
        assert!(
            good().with_truth(truth(2, 0.5)).is_err(),
            "two images, measurements of one"
        );
        assert!(good().with_truth(truth(1, f32::NAN)).is_err());
        let contradiction = good()
            .with_truth(truth(1, 0.5))
            .unwrap()
            .with_shape(ImageShape::new(3, 1, 1));
        assert!(contradiction.is_err());
    }

    #[test]
    fn a_known_spectrum_is_not_computed_again() {
        let known = Spectrum {
            u: None,
            eigenvalues: vec![1.0, 9.0],
        };
        let problem = problem(&A, 0.1).unwrap();
        assert!(problem.known_spectrum().is_none());
        let problem = problem.with_spectrum(known.clone()).unwrap();
        assert_eq!(problem.spectrum().unwrap(), &known);
        assert_eq!(problem.known_spectrum(), Some(&known));
    }
}

//! The problem as the methods count with it: in units of its own, without rows that say nothing, its rows of one gain.
//!
//! What A, the cells and sigma are measured in must not change an image, but the likelihood has numbers that are absolute
//! (EP's first message, the floor of its precisions). And EP gives all measurements one precision: rows that say nothing, or
//! are many times stronger than the others, falsify it for all.

use super::{Cells, Factor, Matrix, NOISE_FLOOR, Operator, Parts, Problem, Spectrum, mean};
use crate::error::{Error, Result};

/// Rows are brought to one gain if the strongest exceeds the median by more than this. Below it nothing is gained: with gains
/// from 0.5 to 2 turbo's PSNR moves by 0.07 dB.
const STRONG: f64 = 4.0;

/// What strong rows are brought to, in units of the median.
const MOST_GAIN: f64 = 2.0;

/// A cell is coarse from this width on, in units of the row's norm: a third of what A·x spreads over.
const COARSE: f64 = 0.1;

/// A row so many times stronger than the median is scaled down in any case.
const SWALLOWING: f64 = 1e3;

/// Row norms that differ by more than this are worth a word.
const UNEQUAL: f64 = 10.0;

impl Problem {
    /// The same posterior in a form that the methods take best, and what there is to tell of the change. A problem as
    /// [`Problem::simulate`] draws it comes back bit for bit.
    ///
    /// - Rows of zeros, and rows whose measurement is lost in every image, are left out.
    /// - Rows with a sigma of their own are divided by it.
    /// - Rows much stronger than the median row are divided, with their cells, by a power of two that brings them near twice its
    ///   norm, if their cells are coarse. Their noise then counts as more than it is, which is never overconfident. With gains
    ///   from 0.1 to 10 turbo makes 25.0 dB of single bits instead of 23.9, and with a gain of 30 in every tenth row 26.2 instead
    ///   of 21.0; of three bits it makes 29.6 and 29.0 instead of 29.6 and 21.2. Fine cells stay: what they say is Gaussian, and
    ///   EP is right about it (49.5 dB, scaled down 48.9), unless a row is so strong that the others are lost in its rounding.
    ///   Weak rows stay too: making them stronger would count their noise as less than it is.
    /// - A, cells and sigma are multiplied by a power of two, so that tr(A·Aᵀ)/N lies between 1/2 and 2, where that of every
    ///   [`Ensemble`](super::Ensemble) lies. This is exact: an image does not depend on the units.
    /// - Cells narrower than the least noise that the likelihood counts with are widened to it.
    ///
    /// Of an operator without a matrix the rows stay as they are, and so do the units of one that has none: a transform alone, or a
    /// choice of pixels. Where a factor is a matrix, that is what the power of two goes into.
    ///
    /// # Errors
    /// As [`Matrix::new`] and [`Cells::new`], and if such an operator comes with a sigma for each measurement.
    pub fn balanced(self) -> Result<(Self, Vec<String>)> {
        let Some(matrix) = self.a.matrix() else {
            if self.sigmas.is_some() {
                return Err(Error::usage(
                    "a sigma for each measurement needs A as a matrix: give an operator one sigma for all",
                ));
            }
            return Ok((self.in_units_of_its_own()?.with_wide_cells()?, Vec::new()));
        };
        let plan = Balance::of(&self);
        let notes = plan.notes(&self);
        if plan.is_identity() && self.sigmas.is_none() {
            return Ok((self.with_wide_cells()?, notes));
        }
        let (a, cells) = (plan.matrix(matrix)?, plan.cells(&self.cells)?);
        let spectrum = plan.spectrum(&self);
        let diag = a.diag();
        let balanced = Self {
            a: a.into(),
            // Orthogonal rows whose norms differ now have an eigenbasis.
            rotates: spectrum.as_ref().is_none_or(|spectrum| spectrum.u.is_some()),
            cells,
            diag,
            sigma: plan.sigma,
            sigmas: None,
            // It is no longer the A that was drawn.
            origin: None,
            spectrum: spectrum.map_or_else(Default::default, Into::into),
            ..self
        };
        Ok((balanced.with_wide_cells()?, notes))
    }

    /// Whether [`Problem::balanced`] changes nothing.
    pub fn is_balanced(&self) -> bool {
        let least = self.least_width();
        let mut bounds = self.cells.lower().iter().zip(self.cells.upper());
        let rows_stay = || match self.a.matrix() {
            Some(_) => Balance::of(self).is_identity(),
            None => self.unit() == 1.0 || self.a.parts().and_then(first_matrix).is_none(),
        };
        self.sigmas.is_none() && rows_stay() && bounds.all(|(lower, upper)| upper - lower >= least)
    }

    /// What brings tr(A·Aᵀ)/N near 1.
    fn unit(&self) -> f64 {
        power_of_two((self.a.cols() as f64 / self.diag.iter().sum::<f64>()).sqrt())
    }

    /// The same with an operator of another unit, where one of its factors can take it.
    fn in_units_of_its_own(self) -> Result<Self> {
        let unit = self.unit();
        let place = self.a.parts().and_then(|parts| Some((parts, first_matrix(parts)?)));
        let Some((parts, (at, matrix))) = place.filter(|_| unit != 1.0) else {
            return Ok(self);
        };
        let rows: Vec<usize> = (0..matrix.rows()).collect();
        let scaled = matrix.rows_times(&rows, &vec![unit; matrix.rows()])?;
        let mut parts = parts.clone();
        parts.factors[at] = Factor::Matrix(scaled);
        let times = |bounds: &[f64]| bounds.iter().map(|bound| bound * unit).collect();
        let cells = Cells::new(self.cells.m(), times(self.cells.lower()), times(self.cells.upper()))?;
        let scaled = Self::new(Operator::structured(parts)?, cells, self.sigma * unit)?;
        Ok(Self {
            shape: self.shape,
            quantiser: self.quantiser,
            truth: self.truth,
            names: self.names,
            ..scaled
        })
    }

    fn least_width(&self) -> f64 {
        NOISE_FLOOR * self.mean_diag().sqrt()
    }

    /// Cells of some width: in narrower ones EP's messages are differences of numbers that agree in all their digits.
    fn with_wide_cells(mut self) -> Result<Self> {
        let least = self.least_width();
        let bounds = || self.cells.lower().iter().zip(self.cells.upper());
        if bounds().all(|(lower, upper)| upper - lower >= least) {
            return Ok(self);
        }
        let widened = bounds().map(|(&lower, &upper)| match upper - lower >= least {
            true => (lower, upper),
            false => {
                let centre = lower + 0.5 * (upper - lower);
                (centre - 0.5 * least, centre + 0.5 * least)
            }
        });
        let (lower, upper) = widened.unzip();
        self.cells = Cells::new(self.cells.m(), lower, upper)?;
        Ok(self)
    }
}

/// The first factor that is a matrix, and which one it is.
fn first_matrix(parts: &Parts) -> Option<(usize, &Matrix)> {
    parts.factors.iter().enumerate().find_map(|(at, factor)| match factor {
        Factor::Matrix(matrix) => Some((at, matrix)),
        _ => None,
    })
}

/// Which rows are kept, what each is multiplied by, and the noise that all of them then have.
struct Balance {
    rows: Vec<usize>,
    factors: Vec<f64>,
    sigma: f64,
    /// Rows of the problem
    all: usize,
    /// The largest norm of a kept row over the least
    spread: f64,
}

impl Balance {
    fn of(problem: &Problem) -> Self {
        let all = problem.a.rows();
        let says_nothing = |row: &usize| problem.diag[*row] == 0.0 || problem.cells.is_lost(*row);
        let (mut rows, silent): (Vec<usize>, Vec<usize>) = (0..all).partition(|row| !says_nothing(row));
        if rows.is_empty() {
            // Nothing was measured, and nothing is a legal problem.
            rows = silent;
        }
        let norms: Vec<f64> = rows.iter().map(|&row| problem.diag[row].sqrt()).collect();
        let (mut factors, mut sigma) = match &problem.sigmas {
            Some(sigmas) => whitening(&norms, rows.iter().map(|&row| sigmas[row]).collect()),
            None => (vec![1.0; rows.len()], problem.sigma),
        };
        let gains: Vec<f64> = norms.iter().zip(&factors).map(|(norm, factor)| norm * factor).collect();
        let (typical, largest) = (median(&gains), gains.iter().copied().fold(0.0, f64::max));
        if typical > 0.0 && largest > STRONG * typical {
            let most = MOST_GAIN * typical;
            for (index, factor) in factors.iter_mut().enumerate().filter(|(index, _)| gains[*index] > most) {
                let coarse = || problem.cells.is_coarse(rows[index], COARSE * norms[index]);
                if gains[index] > SWALLOWING * typical || coarse() {
                    *factor *= power_of_two(most / gains[index]);
                }
            }
        }
        let squares = norms.iter().zip(&factors).map(|(norm, factor)| (norm * factor).powi(2));
        let unit = power_of_two((problem.a.cols() as f64 / squares.sum::<f64>()).sqrt());
        factors.iter_mut().for_each(|factor| *factor *= unit);
        sigma *= unit;
        let least = norms.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            spread: norms.iter().copied().fold(0.0, f64::max) / least,
            rows,
            factors,
            sigma,
            all,
        }
    }

    fn is_identity(&self) -> bool {
        self.rows.len() == self.all && self.factors.iter().all(|&factor| factor == 1.0)
    }

    fn notes(&self, problem: &Problem) -> Vec<String> {
        let mut notes = Vec::new();
        if self.rows.len() < self.all {
            notes.push(format!(
                "{} of {} measurements say nothing, their rows of A are zero or they are lost in every image: they are left out",
                self.all - self.rows.len(),
                self.all
            ));
        }
        if self.spread > UNEQUAL {
            let remedy = match problem.sigmas {
                Some(_) => "",
                None => ". If the noise differs too, give `sigma` as a tensor [M]",
            };
            notes.push(format!(
                "the norms of A's rows differ by a factor of {:.3e}: the strong ones are scaled down{remedy}",
                self.spread
            ));
        }
        notes
    }

    fn matrix(&self, a: &Matrix) -> Result<Matrix> {
        a.rows_times(&self.rows, &self.factors)
    }

    fn cells(&self, cells: &Cells) -> Result<Cells> {
        let of_image = |bounds: &[f64]| -> Vec<f64> {
            let scaled = |(&row, factor): (&usize, &f64)| bounds[row] * factor;
            self.rows.iter().zip(&self.factors).map(scaled).collect()
        };
        let of_images = |bounds: &[f64]| bounds.chunks_exact(cells.m()).flat_map(of_image).collect();
        Cells::new(self.rows.len(), of_images(cells.lower()), of_images(cells.upper()))
    }

    /// The spectrum of the new matrix, where one factor for all rows makes it known from that of the old one.
    fn spectrum(&self, problem: &Problem) -> Option<Spectrum> {
        let factor = self.factors[0];
        let one = self.rows.len() == self.all && self.factors.iter().all(|other| *other == factor);
        let Spectrum { u, eigenvalues } = problem.known_spectrum().filter(|_| one)?;
        Some(Spectrum {
            u: u.clone(),
            eigenvalues: eigenvalues.iter().map(|value| value * factor * factor).collect(),
        })
    }
}

/// Factors that give all rows the noise of the middle one, and that noise. A row without noise is given the least that the
/// likelihood counts with.
fn whitening(norms: &[f64], mut sigmas: Vec<f64>) -> (Vec<f64>, f64) {
    let squares: Vec<f64> = norms.iter().map(|norm| norm * norm).collect();
    let least = NOISE_FLOOR * mean(&squares).sqrt();
    if sigmas.iter().all(|&sigma| sigma <= least) {
        return (vec![1.0; norms.len()], 0.0);
    }
    sigmas.iter_mut().for_each(|sigma| *sigma = sigma.max(least));
    let typical = median(&sigmas);
    (sigmas.iter().map(|sigma| typical / sigma).collect(), typical)
}

/// The middle one, of an even number the larger.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The power of two nearest to a positive number: multiplying by it rounds nothing.
fn power_of_two(value: f64) -> f64 {
    if value.is_normal() && value > 0.0 {
        value.log2().round().exp2()
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Ensemble, Sensing, Simulation};
    use crate::{ImageShape, Images};

    const INF: f64 = f64::INFINITY;

    fn simulated(ensemble: Ensemble, bits: u8) -> Problem {
        let pixels = (0..2 * 48).map(|i| (i * 37 % 101) as f32 / 100.0).collect();
        let settings = Simulation {
            bits,
            step: None,
            sigma: 0.05,
            mean_square: 0.3,
            seed: 3,
            ..Default::default()
        };
        let images = Images::new(ImageShape::new(1, 6, 8), pixels);
        Problem::simulate(images, Sensing::Drawn { ensemble, m: 24 }, &settings).unwrap()
    }

    /// The same problem with each row, its cells and, where given, its own noise times a factor.
    fn times(problem: &Problem, factors: &[f64]) -> Problem {
        let rows: Vec<usize> = (0..problem.a.rows()).collect();
        let a = problem.a.matrix().unwrap().rows_times(&rows, factors).unwrap();
        let scaled = |bounds: &[f64]| {
            let factors = factors.iter().cycle();
            bounds
                .iter()
                .zip(factors)
                .map(|(bound, factor)| bound * factor)
                .collect()
        };
        let cells = Cells::new(a.rows(), scaled(problem.cells.lower()), scaled(problem.cells.upper())).unwrap();
        Problem::new(a, cells, problem.sigma * factors[0]).unwrap()
    }

    fn balanced(problem: Problem) -> Problem {
        problem.balanced().unwrap().0
    }

    fn assert_same(one: &Problem, other: &Problem) {
        assert_eq!(one.a, other.a);
        assert_eq!(one.cells, other.cells);
        assert_eq!(one.sigma, other.sigma);
    }

    #[test]
    fn a_problem_as_it_is_drawn_stays_bit_for_bit() {
        for ensemble in [
            Ensemble::Gaussian,
            Ensemble::RowOrthogonal,
            Ensemble::IllConditioned { kappa: 1000.0 },
            Ensemble::Correlated { rho: 0.5 },
        ] {
            let problem = simulated(ensemble, 3);
            let (same, notes) = problem.clone().balanced().unwrap();
            assert_same(&same, &problem);
            assert_eq!(same.origin, problem.origin);
            assert_eq!(same.known_spectrum(), problem.known_spectrum());
            assert!(notes.is_empty(), "{notes:?}");
        }
    }

    #[test]
    fn units_make_no_difference() {
        let problem = simulated(Ensemble::IllConditioned { kappa: 10.0 }, 3);
        for exponent in [-30, -3, 1, 30] {
            let unit = 2f64.powi(exponent);
            assert_same(&balanced(times(&problem, &[unit; 24])), &problem);
            let spectrum = problem.known_spectrum().unwrap().clone();
            let scaled = times(&problem, &[unit; 24]).with_spectrum(Spectrum {
                eigenvalues: spectrum.eigenvalues.iter().map(|e| e * unit * unit).collect(),
                ..spectrum.clone()
            });
            assert_eq!(balanced(scaled.unwrap()).known_spectrum(), Some(&spectrum));
        }
        for unit in [1e-9, 1e9] {
            let trace = |problem: &Problem| problem.diag.iter().sum::<f64>() / problem.a.cols() as f64;
            assert!((0.5..2.0).contains(&trace(&balanced(times(&problem, &[unit; 24])))));
        }
    }

    #[test]
    fn units_make_no_difference_to_an_operator_without_a_matrix() {
        let of = |unit: f64| {
            let signs = (0..64).map(|i| if i % 3 == 0 { -1.0 } else { 1.0 }).collect();
            let parts = Parts {
                label: "hadamard".to_owned(),
                factors: vec![
                    Factor::Matrix(Matrix::from_f64(1, 1, vec![unit]).unwrap()),
                    Factor::Hadamard(8),
                    Factor::Hadamard(8),
                ],
                signs: Some(signs),
                order: None,
                rows: Some((0..48).collect()),
            };
            let lower = (0..48).map(|i| unit * f64::from(i) / 48.0).collect();
            let upper = (0..48).map(|i| unit * (f64::from(i) + 9.0) / 48.0).collect();
            let cells = Cells::new(48, lower, upper).unwrap();
            Problem::new(Operator::structured(parts).unwrap(), cells, 0.05 * unit).unwrap()
        };
        assert!(of(1.0).is_balanced());
        for exponent in [-30, -1, 3, 30] {
            let odd = of(2f64.powi(exponent));
            assert!(!odd.is_balanced());
            let even = balanced(odd);
            assert_same(&even, &of(1.0));
            assert_eq!(even.known_spectrum(), of(1.0).known_spectrum());
            assert_eq!(even.diag, of(1.0).diag);
        }
        for unit in [1e-9, 1e9] {
            assert!((0.5..2.0).contains(&(balanced(of(unit)).diag.iter().sum::<f64>() / 64.0)));
        }
    }

    #[test]
    fn a_problem_whose_spectrum_is_no_longer_known_rotates() {
        let problem = simulated(Ensemble::RowOrthogonal, 1);
        assert!(!problem.rotates());
        let sigmas = (1..=24).map(|row| 0.01 * f64::from(row)).collect();
        let even = balanced(problem.with_sigmas(sigmas).unwrap());
        assert!(even.rotates() && even.spectrum().unwrap().u.is_some());
    }

    #[test]
    fn rows_that_say_nothing_are_left_out() {
        let problem = simulated(Ensemble::Gaussian, 1);
        let mut factors = [1.0; 24];
        (factors[5], factors[6]) = (0.0, 1.0);
        let mut lost = times(&problem, &[1.0; 24]);
        let a = problem
            .a
            .matrix()
            .unwrap()
            .rows_times(&(0..24).collect::<Vec<_>>(), &factors)
            .unwrap();
        let (mut lower, mut upper) = (lost.cells.lower().to_vec(), lost.cells.upper().to_vec());
        for image in 0..2 {
            (lower[24 * image + 6], upper[24 * image + 6]) = (-INF, INF);
        }
        // Lost in one image only, it speaks of the other.
        (lower[7], upper[7]) = (-INF, INF);
        lost = Problem::new(a, Cells::new(24, lower, upper).unwrap(), 0.05).unwrap();
        let (left, notes) = lost.clone().balanced().unwrap();
        let rows: Vec<usize> = (0..24).filter(|row| ![5, 6].contains(row)).collect();
        let expected = problem.a.matrix().unwrap().rows_times(&rows, &[1.0; 22]).unwrap();
        assert_eq!(left.a, expected.into());
        assert_eq!(left.cells.image(1).0[5..], lost.cells.image(1).0[7..]);
        assert!(notes[0].contains("2 of 24 measurements say nothing"), "{notes:?}");
    }

    #[test]
    fn strong_rows_with_coarse_cells_are_brought_near_the_others_and_fine_ones_stay() {
        let mut factors = [1.0; 24];
        factors[4] = 64.0;
        let coarse = times(&simulated(Ensemble::Gaussian, 1), &factors);
        let (even, notes) = coarse.balanced().unwrap();
        let typical = median(&even.diag);
        assert!(even.diag[4] < 16.0 * typical, "{} of {typical}", even.diag[4]);
        assert!(notes[0].contains("differ by a factor"), "{notes:?}");
        let fine = times(&simulated(Ensemble::Gaussian, 8), &factors);
        let fine = Problem {
            cells: Cells::new(
                24,
                fine.cells
                    .lower()
                    .iter()
                    .map(|l| if l.is_finite() { *l } else { -9.0 })
                    .collect(),
                fine.cells
                    .lower()
                    .iter()
                    .map(|l| if l.is_finite() { *l + 0.01 } else { -8.99 })
                    .collect(),
            )
            .unwrap(),
            ..fine
        };
        let gain = |problem: &Problem| problem.diag[4] / median(&problem.diag);
        assert_eq!(gain(&balanced(fine.clone())), gain(&fine));
    }

    #[test]
    fn noise_that_differs_by_row_is_divided_out() {
        let problem = simulated(Ensemble::Gaussian, 3);
        let factors: Vec<f64> = (0..24).map(|i| [1.0, 0.5, 2.0][i % 3]).collect();
        let sigmas = factors.iter().map(|factor| 0.05 * factor).collect();
        let uneven = times(&problem, &factors).with_sigmas(sigmas).unwrap();
        assert_same(&balanced(uneven), &problem);
        let none = problem.clone().with_sigmas(vec![0.0; 24]).unwrap();
        assert_eq!(balanced(none).sigma, 0.0);
        assert!(problem.clone().with_sigmas(vec![0.1; 23]).is_err());
        assert!(problem.with_sigmas(vec![f64::NAN; 24]).is_err());
    }

    #[test]
    fn cells_are_at_least_as_wide_as_the_least_noise() {
        let problem = simulated(Ensemble::Gaussian, 3);
        let centres: Vec<f64> = (0..48).map(|i| f64::from(i) / 48.0).collect();
        let upper = centres.iter().map(|c| c + 1e-12).collect();
        let narrow = Problem {
            cells: Cells::new(24, centres, upper).unwrap(),
            ..problem
        };
        let wide = balanced(narrow);
        let least = NOISE_FLOOR * wide.mean_diag().sqrt();
        for (lower, upper) in wide.cells.lower().iter().zip(wide.cells.upper()) {
            assert!((upper - lower) / least > 0.999, "{lower} to {upper}");
        }
    }
}

//! Measurements of known images: z = A·x + sigma·n, and the cell of each entry.

use qcs_kernels::philox::{Domain, Stream};

use super::{
    Cells, Ensemble, Operator, Origin, Problem, Quantiser, Spectrum, check_pixels, check_scale, check_sigma, mean,
};
use crate::error::{Error, Result};
use crate::images::Images;

/// Where A comes from.
#[derive(Clone, Debug)]
pub enum Sensing {
    /// M rows drawn from a law.
    Drawn { ensemble: Ensemble, m: usize },
    /// What an earlier problem drew from a law, with the same seed.
    Reused {
        ensemble: Ensemble,
        a: Operator,
        spectrum: Option<Spectrum>,
    },
    /// A user's own.
    Inputs(Operator),
}

/// How images are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulation {
    /// 1 to 8.
    pub bits: u8,
    /// The quantiser's step; `None` is the optimum for a Gaussian of variance mean
    /// diag(A·Aᵀ)·`mean_square` + sigma².
    pub step: Option<f64>,
    /// The noise's standard deviation, 0 or more.
    pub sigma: f64,
    /// `E[x²]` of the data at large, from the preset: never of the images at hand, or results would
    /// depend on them.
    pub mean_square: f64,
    /// For 1 bit: thresholds drawn once for each measurement from N(0, variance of the measurements) instead of 0, so that the
    /// signs tell the contrast of an image too.
    pub dither: bool,
    /// The seed of A and of the noise.
    pub seed: u64,
}

impl Default for Simulation {
    /// One bit, some noise, and the mean square of MNIST's pixels.
    fn default() -> Self {
        Self {
            bits: 1,
            step: None,
            sigma: 0.05,
            mean_square: 0.112,
            dither: false,
            seed: 0,
        }
    }
}

impl Problem {
    /// Measures `images`, which are kept as the truth. Image i gets the noise of index i: the same
    /// whatever images come with it, and the same bits for any number of threads.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are no images, a pixel is not finite, A has not N columns, or a
    /// setting makes no sense (see [`Ensemble::build`], [`Quantiser::new`], [`Problem::new`]).
    pub fn simulate(images: Images, sensing: Sensing, settings: &Simulation) -> Result<Self> {
        let &Simulation {
            bits,
            step,
            sigma,
            mean_square,
            dither,
            seed,
        } = settings;
        // What can be refused at once is refused before a large matrix is built.
        check_sigma(sigma)?;
        check_pixels(&images)?;
        Quantiser::new(bits, step, 1.0)?;
        if !(mean_square > 0.0 && mean_square.is_finite()) {
            return Err(Error::usage(format!(
                "the mean square of the pixels is {mean_square}: it must be positive"
            )));
        }
        if images.count() == 0 {
            return Err(Error::usage("there are no images to measure"));
        }
        let n = images.shape.len();
        let (a, spectrum, ensemble) = match sensing {
            Sensing::Drawn { ensemble, m } => {
                let (a, spectrum) = ensemble.build(m, n, seed)?;
                (a.into(), spectrum, Some(ensemble))
            }
            Sensing::Reused { ensemble, a, spectrum } => (a, spectrum, Some(ensemble)),
            Sensing::Inputs(a) if a.cols() != n => {
                return Err(Error::usage(format!(
                    "A has {} columns, but an image of shape {} has {n} pixels",
                    a.cols(),
                    images.shape
                )));
            }
            Sensing::Inputs(a) => (a, None, None),
        };
        let diag = a.diag();
        check_scale(&diag)?;
        let variance = mean(&diag) * mean_square + sigma * sigma;
        let quantiser = Quantiser::new(bits, step, variance)?;
        if dither && bits > 1 {
            return Err(Error::usage(format!(
                "dither is for 1 bit, not for {bits}: cells of several bits tell the contrast"
            )));
        }
        let thresholds = if dither {
            thresholds(a.rows(), variance.sqrt(), seed)
        } else {
            Vec::new()
        };
        let cells = measure(&images, &a, &quantiser, &thresholds, sigma, seed)?;
        let problem = Self::new(a, cells, sigma)?
            .with_truth(images)?
            .with_quantiser(quantiser)
            .with_origin(Origin { ensemble, seed });
        Ok(match spectrum {
            Some(spectrum) => problem.knowing(spectrum),
            None => problem,
        })
    }
}

/// Of a 1-bit quantiser with dither: the same for every image.
fn thresholds(m: usize, deviation: f64, seed: u64) -> Vec<f64> {
    let stream = Stream {
        seed,
        domain: Domain::Measurement,
        image: 0,
        chain: 0,
        step: DITHER,
    };
    let mut normals = vec![0.0f32; m];
    stream.fill_normals(0, &mut normals);
    normals.iter().map(|&normal| deviation * f64::from(normal)).collect()
}

/// The noise of measurements is step 0 of its domain.
const DITHER: u32 = 1;

/// Where there are thresholds, cells end there instead of at 0.
fn measure(
    images: &Images,
    a: &Operator,
    quantiser: &Quantiser,
    thresholds: &[f64],
    sigma: f64,
    seed: u64,
) -> Result<Cells> {
    let m = a.rows();
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let mut noise = vec![0.0f32; m];
    for (index, image) in images.iter().enumerate() {
        let x: Vec<f64> = image.iter().map(|&pixel| f64::from(pixel)).collect();
        let stream = Stream {
            seed,
            domain: Domain::Measurement,
            image: index as u32,
            chain: 0,
            step: 0,
        };
        stream.fill_normals(0, &mut noise);
        for (row, (clean, &n)) in a.times(&x).into_iter().zip(&noise).enumerate() {
            let threshold = thresholds.get(row).copied().unwrap_or(0.0);
            let cell = quantiser.cell(clean + sigma * f64::from(n) - threshold);
            lower.push(cell.0 + threshold);
            upper.push(cell.1 + threshold);
        }
    }
    Cells::new(m, lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::ImageShape;
    use crate::problem::Matrix;

    const SHAPE: ImageShape = ImageShape::new(1, 4, 5);

    fn images(count: usize) -> Images {
        let pixels = (0..count * SHAPE.len()).map(|i| (i * 37 % 101) as f32 / 100.0);
        Images::new(SHAPE, pixels.collect())
    }

    fn settings() -> Simulation {
        Simulation {
            bits: 3,
            step: None,
            sigma: 0.05,
            mean_square: 0.1,
            dither: false,
            seed: 4,
        }
    }

    fn gaussian(m: usize) -> Sensing {
        Sensing::Drawn {
            ensemble: Ensemble::Gaussian,
            m,
        }
    }

    #[test]
    fn without_noise_every_product_lies_in_its_cell() {
        for bits in 1..=8 {
            let settings = Simulation {
                bits,
                sigma: 0.0,
                ..settings()
            };
            let problem = Problem::simulate(images(3), gaussian(12), &settings).unwrap();
            for (index, image) in images(3).iter().enumerate() {
                let x: Vec<f64> = image.iter().map(|&p| f64::from(p)).collect();
                let (lower, upper) = problem.cells().image(index);
                for ((z, lo), up) in problem.a().times(&x).iter().zip(lower).zip(upper) {
                    assert!(lo <= z && z < up, "{bits} bits: {z} not in [{lo}, {up})");
                }
            }
        }
    }

    #[test]
    fn the_noise_has_the_standard_deviation_sigma() {
        // A fine step against the noise: the cells' middles are z = A·x + sigma·n to within 1 %.
        let (m, sigma) = (5000, 1.0);
        let a = Matrix::from_f64(m, SHAPE.len(), vec![1e-3; m * SHAPE.len()]).unwrap();
        let settings = Simulation {
            bits: 8,
            step: Some(0.06),
            sigma,
            ..settings()
        };
        let problem = Problem::simulate(images(2), Sensing::Inputs(a.into()), &settings).unwrap();
        let noise = |index: usize| -> Vec<f64> {
            let (lower, upper) = problem.cells().image(index);
            lower.iter().zip(upper).map(|(lo, up)| (lo + up) / 2.0).collect()
        };
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / m as f64;
        let (first, second) = (noise(0), noise(1));
        let bound = 4.0 * (2.0 / m as f64).sqrt() + 0.01;
        assert!((product(&first, &first) - 1.0).abs() < bound);
        assert!(
            product(&first, &second).abs() < bound,
            "each image has noise of its own"
        );
    }

    #[test]
    fn an_image_is_measured_the_same_whatever_comes_with_it() {
        let three = Problem::simulate(images(3), gaussian(12), &settings()).unwrap();
        let one = Problem::simulate(images(1), gaussian(12), &settings()).unwrap();
        assert_eq!(three.a(), one.a());
        assert_eq!(three.quantiser(), one.quantiser());
        assert_eq!(three.cells().image(0), one.cells().image(0));
    }

    #[test]
    fn the_default_step_is_the_optimum_for_the_variance_of_the_measurements() {
        let ensemble = Ensemble::RowOrthogonal;
        let problem = Problem::simulate(images(1), Sensing::Drawn { ensemble, m: 10 }, &settings()).unwrap();
        // diag(A·Aᵀ) = N/M = 2.
        let expected = 0.586_019 * f64::sqrt(2.0 * 0.1 + 0.05 * 0.05);
        let step = problem.quantiser().unwrap().step().unwrap();
        assert!((step / expected - 1.0).abs() < 1e-6, "{step}");
        assert!(problem.known_spectrum().is_some());
        assert_eq!(
            problem.origin(),
            Some(Origin {
                ensemble: Some(ensemble),
                seed: 4
            })
        );
        assert_eq!(problem.truth(), Some(&images(1)));
    }

    #[test]
    fn the_seed_decides_matrix_and_noise() {
        let simulate = |seed, sensing| {
            let settings = Simulation {
                seed,
                bits: 8,
                ..settings()
            };
            Problem::simulate(images(1), sensing, &settings).unwrap()
        };
        let (first, again, other) = (
            simulate(1, gaussian(9)),
            simulate(1, gaussian(9)),
            simulate(2, gaussian(9)),
        );
        assert_eq!((first.a(), first.cells()), (again.a(), again.cells()));
        assert_ne!(first.a(), other.a());
        let given = |seed| simulate(seed, Sensing::Inputs(first.a().clone()));
        assert_eq!(
            given(1).cells(),
            first.cells(),
            "drawn or given, the same A gives the same cells"
        );
        assert_ne!(given(2).cells(), first.cells());
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = |images: Images, sensing: Sensing, change: &dyn Fn(&mut Simulation)| {
            let mut settings = settings();
            change(&mut settings);
            matches!(Problem::simulate(images, sensing, &settings), Err(Error::Usage(_)))
        };
        assert!(refused(images(0), gaussian(3), &|_| ()));
        assert!(refused(images(1), gaussian(0), &|_| ()));
        assert!(refused(Images::new(SHAPE, vec![f32::NAN; 20]), gaussian(3), &|_| ()));
        assert!(refused(images(1), gaussian(3), &|s| s.sigma = -0.1));
        assert!(refused(images(1), gaussian(3), &|s| s.bits = 9));
        assert!(refused(images(1), gaussian(3), &|s| s.step = Some(0.0)));
        assert!(refused(images(1), gaussian(3), &|s| s.mean_square = f64::NAN));
        let given = |n, value| Sensing::Inputs(Matrix::from_f64(2, n, vec![value; 2 * n]).unwrap().into());
        assert!(refused(images(1), given(19, 1.0), &|_| ()), "19 columns for 20 pixels");
        assert!(refused(images(1), given(20, 1e300), &|_| ()), "products would overflow");
        assert!(!refused(images(1), given(20, 1.0), &|_| ()));
    }
}

//! Measurements of known images: z = A·x + sigma·n, and the cell of each entry.

use qcs_kernels::philox::{Domain, Stream};

use super::{
    Cells, Ensemble, Matrix, Origin, Problem, Quantiser, check_pixels, check_scale, check_sigma,
    mean,
};
use crate::error::{Error, Result};
use crate::images::Images;

/// Where A comes from.
#[derive(Clone, Debug)]
pub enum Sensing {
    /// M rows drawn from a law.
    Drawn { ensemble: Ensemble, m: usize },
    /// A user's own matrix.
    Given(Matrix),
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
    /// E[x²] of the data at large, from the preset: never of the images at hand, or results would
    /// depend on them.
    pub mean_square: f64,
    /// The seed of A and of the noise.
    pub seed: u64,
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
                (a, spectrum, Some(ensemble))
            }
            Sensing::Given(a) if a.cols() != n => {
                return Err(Error::usage(format!(
                    "A has {} columns, but an image of shape {} has {n} pixels",
                    a.cols(),
                    images.shape
                )));
            }
            Sensing::Given(a) => (a, None, None),
        };
        let diag = a.diag();
        check_scale(&diag)?;
        let variance = mean(&diag) * mean_square + sigma * sigma;
        let quantiser = Quantiser::new(bits, step, variance)?;
        let cells = measure(&images, &a, &quantiser, sigma, seed)?;
        let mut problem = Self::new(a, cells, sigma)?
            .with_truth(images)?
            .with_quantiser(quantiser)
            .with_origin(Origin { ensemble, seed });
        if let Some(spectrum) = spectrum {
            problem.spectrum = spectrum.into();
        }
        Ok(problem)
    }
}

fn measure(
    images: &Images,
    a: &Matrix,
    quantiser: &Quantiser,
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
        for (clean, &n) in a.times(&x).into_iter().zip(&noise) {
            let cell = quantiser.cell(clean + sigma * f64::from(n));
            lower.push(cell.0);
            upper.push(cell.1);
        }
    }
    Cells::new(m, lower, upper)
}

//! Measures what turbo must know of a prior: mean and variance of its data, and its denoising error by noise level.

use qcs_kernels::philox::{Domain, Stream};

use crate::engine::Engine;
use crate::methods::prior_score;
use crate::prior::{Denoiser, Prior};
use crate::{Error, Images, Result};

/// Noise levels of the usual table.
pub const LEVELS: usize = 33;

/// The noise levels of a table, geometric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    pub count: usize,
    pub least: f64,
    pub largest: f64,
}

/// Brightest values are those of images denoised at the first level from this on: about that of turbo's first iterations from signs.
const PEAK_LEVEL: f64 = 0.45;
/// Their least spread: where all training images are as bright, another may yet be a little darker.
const LEAST_SPREAD: f64 = 0.02;

impl Default for Levels {
    /// Measurements of many bits and little noise end at the least: a network that was never shown such levels must not be
    /// believed.
    fn default() -> Self {
        Self {
            count: LEVELS,
            least: 0.001,
            largest: 20.0,
        }
    }
}

impl Levels {
    fn check(&self) -> Result<()> {
        if self.count >= 2 && self.least > 0.0 && self.least < self.largest && self.largest.is_finite() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} levels from {} to {}: two at least are needed, positive and rising",
            self.count, self.least, self.largest
        )))
    }

    fn level(&self, index: usize) -> f64 {
        self.least * (self.largest / self.least).powf(index as f64 / (self.count - 1) as f64)
    }
}

/// The denoiser's table on the first `count` of the images; mean and variance on all of them. `watch` hears each level and
/// its error, the mean squared error per pixel.
///
/// The same noise serves every level, so that the errors rise although they are measured. Where they stop rising, at
/// levels that the network was never trained for, the table ends.
///
/// # Errors
/// [`Error::Usage`] if there are no two images, they are not the prior's, or no table comes of it.
pub fn calibrate(
    engine: &mut dyn Engine,
    prior: &Prior,
    images: &Images,
    count: usize,
    watch: &mut dyn FnMut(f64, f64),
) -> Result<Denoiser> {
    let mut heard = |level, error| {
        watch(level, error);
        Ok(())
    };
    calibrate_at(engine, prior, images, count, Levels::default(), &mut heard)
}

/// The same at levels of the caller's choice: fewer for a denoiser that takes long, or those that it was trained for. An error of
/// `watch` ends it.
///
/// # Errors
/// As [`calibrate`], if the levels do not rise, and that of `watch`.
pub fn calibrate_at(
    engine: &mut dyn Engine,
    prior: &Prior,
    images: &Images,
    count: usize,
    table: Levels,
    watch: &mut dyn FnMut(f64, f64) -> Result<()>,
) -> Result<Denoiser> {
    if images.count() < 2 || count == 0 {
        return Err(Error::usage("two images at least are needed to measure a prior"));
    }
    table.check()?;
    let (mean, variance) = moments(images);
    let n = images.shape.len();
    let clean = Images::new(images.shape, images.data[..count.min(images.count()) * n].to_vec());
    let noise = noise(&clean);
    let (mut levels, mut errors, mut peak) = (Vec::new(), Vec::new(), None);
    for index in 0..table.count {
        let level = table.level(index);
        let noisy = clean.data.iter().zip(&noise).map(|(x, z)| x + level as f32 * z);
        let noisy = Images::new(clean.shape, noisy.collect());
        let score = prior_score(engine, prior, &noisy, level)?;
        if peak.is_none() && level >= PEAK_LEVEL {
            peak = of_peaks(&noisy, &score, level);
        }
        let squares = noisy.data.iter().zip(&score.data).zip(&clean.data).map(|((y, s), x)| {
            let d = f64::from(*y) + level * level * f64::from(*s);
            (d - f64::from(*x)).powi(2)
        });
        let error = squares.sum::<f64>() / clean.data.len() as f64;
        watch(level, error)?;
        let rises = errors.last().is_none_or(|&last| error as f32 > last);
        if !rises || !error.is_finite() {
            break;
        }
        levels.push(level as f32);
        errors.push(error as f32);
    }
    let denoiser = Denoiser {
        mean,
        variance,
        levels,
        errors,
        peak,
    };
    denoiser.check(prior.image())?;
    Ok(denoiser)
}

/// Mean and spread of ln of the brightest value of the denoised images; nothing where one has none above 0.
fn of_peaks(noisy: &Images, score: &Images, level: f64) -> Option<(f64, f64)> {
    let brightest = |(noisy, score): (&[f32], &[f32])| {
        let denoised = noisy
            .iter()
            .zip(score)
            .map(|(&y, &s)| f64::from(y) + level * level * f64::from(s));
        denoised.fold(0.0, f64::max).ln()
    };
    let logs: Vec<f64> = noisy.iter().zip(score.iter()).map(brightest).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let spread = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / count).sqrt();
    (logs.len() > 1 && mean.is_finite()).then_some((mean, spread.max(LEAST_SPREAD)))
}

/// The mean image, and the variance about it averaged over pixels.
fn moments(images: &Images) -> (Vec<f32>, f64) {
    let (n, count) = (images.shape.len(), images.count() as f64);
    let mut mean = vec![0.0; n];
    for image in images.iter() {
        mean.iter_mut().zip(image).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    mean.iter_mut().for_each(|sum| *sum /= count);
    let squares = images.iter().flat_map(|image| image.iter().zip(&mean));
    let variance = squares.map(|(&x, mean)| (f64::from(x) - mean).powi(2)).sum::<f64>() / count / n as f64;
    (mean.into_iter().map(|x| x as f32).collect(), variance)
}

fn noise(images: &Images) -> Vec<f32> {
    let mut noise = vec![0.0; images.data.len()];
    for (image, noise) in noise.chunks_mut(images.shape.len()).enumerate() {
        let stream = Stream {
            seed: 0,
            domain: Domain::Noise,
            image: image as u32,
            chain: 0,
            step: 0,
        };
        stream.fill_normals(0, noise);
    }
    noise
}

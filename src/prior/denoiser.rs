//! What a prior knows of itself as a denoiser: mean and variance of its data, and its error at each noise level. Measured by
//! `qcs calibrate`, kept in the weights file.

use std::collections::HashMap;

use super::file::finite;
use super::registry::image_of;
use crate::files::safetensors::TensorFile;
use crate::{Error, ImageShape, Result};

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Denoiser {
    /// The mean image, `[C·H·W]`
    pub mean: Vec<f32>,
    /// The data's variance about it, averaged over pixels
    pub variance: f64,
    /// Noise levels, rising
    pub levels: Vec<f32>,
    /// The mean squared error per pixel of the denoised image at each level, rising
    pub errors: Vec<f32>,
    /// Mean and spread of ln of the brightest value of a denoised image, where they were measured: what tells the scale of an image
    /// whose measurements are signs
    pub peak: Option<(f64, f64)>,
}

impl Denoiser {
    /// The tensors of a weights file.
    pub const TENSORS: [&str; 3] = ["denoiser.mean", "denoiser.levels", "denoiser.errors"];
    /// The metadata that holds the variance.
    pub const VARIANCE: &str = "denoiser.variance";
    /// The metadata that says how many images it was measured on.
    pub const IMAGES: &str = "denoiser.images";
    /// The metadata that says their shape, where it is not the one that the network was trained on.
    pub const SHAPE: &str = "denoiser.shape";

    /// The metadata that hold mean and spread of ln of a denoised image's brightest value.
    pub const PEAK: [&str; 2] = ["denoiser.log_peak_mean", "denoiser.log_peak_spread"];

    /// The weights that a plan may name beside the network's: the mean, and the table in logarithms.
    pub const MEAN: &str = "denoiser.mean";
    pub const LOG_LEVELS: &str = "denoiser.log_levels";
    pub const LOG_RATIOS: &str = "denoiser.log_ratios";

    /// # Errors
    /// [`Error::Usage`] if the table is no table: levels and errors must be positive, finite and rising, two at least.
    pub fn check(&self, image: ImageShape) -> Result<()> {
        let refuse = |reason: &str| Err(Error::usage(format!("the table of denoising errors {reason}")));
        let rising = |values: &[f32]| values.windows(2).all(|pair| pair[0] < pair[1]);
        let positive = |values: &[f32]| values.iter().all(|&v| v > 0.0 && v.is_finite());
        if self.mean.len() != image.len() {
            return refuse(&format!(
                "has a mean of {} pixels, not {}",
                self.mean.len(),
                image.len()
            ));
        }
        if self.levels.len() < 2 || self.levels.len() != self.errors.len() {
            return refuse("needs as many errors as levels, two at least");
        }
        let variance = self.variance > 0.0 && self.variance.is_finite();
        if !(variance && positive(&self.levels) && positive(&self.errors)) {
            return refuse("holds a number that is not positive and finite");
        }
        if self
            .peak
            .is_some_and(|(mean, spread)| !(mean.is_finite() && spread > 0.0 && spread.is_finite()))
        {
            return refuse("stands beside a brightest value whose spread is not positive and finite");
        }
        if !rising(&self.levels) || !rising(&self.errors) {
            return refuse("does not rise: more noise, more error");
        }
        Ok(())
    }

    /// What a file says, if it does.
    pub(super) fn read(file: &TensorFile<'_>, image: ImageShape) -> Result<Option<Self>> {
        if !Self::TENSORS.iter().any(|name| file.has(name)) {
            return Ok(None);
        }
        let missing = || Error::usage(format!("the metadata lack `{}`", Self::VARIANCE));
        let [mean, levels, errors] = Self::TENSORS;
        let mean = finite(file, mean)?;
        if !Self::is_known_size(file, mean.len(), image)? {
            return Err(Error::usage(format!(
                "the table of denoising errors has a mean of {} pixels, not {}",
                mean.len(),
                image.len()
            )));
        }
        let (mean, left_out) = at_shape(mean, image);
        let variance: f64 = file.number(Self::VARIANCE)?.ok_or_else(missing)?;
        let denoiser = Self {
            mean,
            variance: variance + left_out,
            levels: finite(file, levels)?,
            errors: finite(file, errors)?,
            peak: file.number(Self::PEAK[0])?.zip(file.number(Self::PEAK[1])?),
        };
        denoiser.check(image)?;
        Ok(Some(denoiser))
    }

    /// Whether a mean of so many pixels is one of these images, of those that the network was trained on or measured on, or has
    /// one value to each channel. A file that does not say what it was trained on is believed.
    fn is_known_size(file: &TensorFile<'_>, pixels: usize, image: ImageShape) -> Result<bool> {
        let measured = file
            .text(Self::SHAPE)
            .and_then(|shape| shape.parse::<ImageShape>().ok());
        let trained = match file.text("image_size") {
            Some(_) => Some(image_of(file, None, image.channels)?.len()),
            None => None,
        };
        let known = [
            Some(image.len()),
            Some(image.channels),
            measured.map(|shape| shape.len()),
            trained,
        ];
        Ok(trained.is_none() || known.contains(&Some(pixels)))
    }

    /// The vectors that plans name.
    pub(super) fn params(&self) -> HashMap<String, Vec<f32>> {
        let ratio = |(&level, &error): (&f32, &f32)| (f64::from(error) / f64::from(level).powi(2)).ln() as f32;
        let ratios = self.levels.iter().zip(&self.errors).map(ratio).collect();
        let logs = self.levels.iter().map(|level| level.ln()).collect();
        HashMap::from([
            (Self::MEAN.to_owned(), self.mean.clone()),
            (Self::LOG_LEVELS.to_owned(), logs),
            (Self::LOG_RATIOS.to_owned(), ratios),
        ])
    }
}

/// A mean image for images of another size: the mean of each channel, and the variance of the pixels about it, which this
/// leaves out. One of the right size, or of none that fits, stays as it is.
fn at_shape(mean: Vec<f32>, image: ImageShape) -> (Vec<f32>, f64) {
    let pixels = mean.len() / image.channels;
    if mean.len() == image.len() || pixels == 0 || !mean.len().is_multiple_of(image.channels) {
        return (mean, 0.0);
    }
    let (mut spread, mut left_out) = (Vec::with_capacity(image.len()), 0.0);
    for channel in mean.chunks_exact(pixels) {
        let centre = channel.iter().map(|&x| f64::from(x)).sum::<f64>() / pixels as f64;
        left_out += channel.iter().map(|&x| (f64::from(x) - centre).powi(2)).sum::<f64>();
        spread.resize(spread.len() + image.height * image.width, centre as f32);
    }
    (spread, left_out / mean.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::files::safetensors::{self, Slice, Tensor};

    #[test]
    fn a_mean_image_serves_another_size_by_the_mean_of_each_channel() {
        let mean = vec![0.0, 1.0, 0.5, 0.5];
        let (same, nothing) = at_shape(mean.clone(), ImageShape::new(2, 1, 2));
        assert_eq!((same, nothing), (mean.clone(), 0.0));
        let (other, left_out) = at_shape(mean, ImageShape::new(2, 1, 3));
        assert_eq!(other, [0.5; 6]);
        assert_eq!(left_out, 0.125);
    }

    #[test]
    fn a_file_may_say_the_size_of_its_images_by_one_side_or_by_two() {
        let image = ImageShape::new(1, 4, 4);
        let table = [0.1f32, 0.2];
        let read = |mean: &[f32], size: &str| {
            let vector = |name, values| Tensor::new(name, &[<[f32]>::len(values)], Slice::F32(values));
            let [of_mean, levels, errors] = Denoiser::TENSORS;
            let tensors = [vector(of_mean, mean), vector(levels, &table), vector(errors, &table)];
            let metadata = BTreeMap::from([("image_size", size.to_owned()), (Denoiser::VARIANCE, "0.1".to_owned())]);
            let mut bytes = Vec::new();
            safetensors::write(&mut bytes, &tensors, &metadata).unwrap();
            Denoiser::read(&TensorFile::parse(&bytes).unwrap(), image)
        };
        for (pixels, size) in [(16, "4"), (16, "4,4"), (20, "5,4")] {
            let denoiser = read(&vec![0.5; pixels], size).unwrap().unwrap();
            assert_eq!(denoiser.mean, [0.5; 16], "{size}");
        }
        assert!(read(&[0.5; 20], "4,4").unwrap_err().to_string().contains("20 pixels"));
        assert!(read(&[0.5; 16], "four").unwrap_err().to_string().contains("not a size"));
    }
}

//! What a prior knows of itself as a denoiser: mean and variance of its data, and its error at each noise level. Measured by
//! `qcs calibrate`, kept in the weights file.

use std::collections::HashMap;

use super::file::finite;
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
}

impl Denoiser {
    /// The tensors of a weights file.
    pub const TENSORS: [&str; 3] = ["denoiser.mean", "denoiser.levels", "denoiser.errors"];
    /// The metadata that holds the variance.
    pub const VARIANCE: &str = "denoiser.variance";
    /// The metadata that says how many images it was measured on.
    pub const IMAGES: &str = "denoiser.images";

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
        if !positive(&self.levels) || !positive(&self.errors) || !(self.variance > 0.0 && self.variance.is_finite()) {
            return refuse("holds a number that is not positive and finite");
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
        let denoiser = Self {
            mean: finite(file, mean)?,
            variance: file.number(Self::VARIANCE)?.ok_or_else(missing)?,
            levels: finite(file, levels)?,
            errors: finite(file, errors)?,
        };
        denoiser.check(image)?;
        Ok(Some(denoiser))
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

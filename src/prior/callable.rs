//! A prior that is a function of the caller's: any denoiser, called with a batch at a time.

use std::path::PathBuf;

use super::{Network, Prior};
use crate::plan::{NetworkOp, PlanBuilder, TensorId};
use crate::{ImageShape, Result};

/// From noisy images, `[B, C·H·W]`, and the noise level of each to the expected clean ones. An image's result may depend on that
/// image and its level alone.
pub type Denoise = dyn Fn(&[f32], &[f64], &mut [f32]) -> Result<()> + Send + Sync;

/// The network of such a prior: one op that calls out.
struct Callable {
    image: ImageShape,
}

impl Network for Callable {
    fn describe(&self) -> String {
        "a function".to_owned()
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        plan.push(NetworkOp::CallOut { x, level, score });
    }
}

impl Prior {
    /// A prior from a denoiser: `denoise` gets noisy images, `[B, C·H·W]` with clean values in [0, 1], the noise level of each,
    /// and a place for the expected clean images. What it returns as an error ends the run. It computes where the caller likes;
    /// the rest runs on the CPU.
    ///
    /// Turbo also wants a table of the denoiser's errors: [`calibrate`](crate::methods::turbo::calibrate) measures it.
    ///
    /// ```
    /// use qcs::{ImageShape, Prior};
    ///
    /// // Every pixel is N(0.5, 0.04).
    /// let prior = Prior::from_fn(ImageShape::new(1, 8, 8), |x, levels, clean| {
    ///     for ((x, clean), level) in x.chunks(64).zip(clean.chunks_mut(64)).zip(levels) {
    ///         let gain = (0.04 / (0.04 + level * level)) as f32;
    ///         clean.iter_mut().zip(x).for_each(|(clean, x)| *clean = 0.5 + gain * (x - 0.5));
    ///     }
    ///     Ok(())
    /// });
    /// assert_eq!(prior.image().len(), 64);
    /// ```
    pub fn from_fn(
        image: ImageShape,
        denoise: impl Fn(&[f32], &[f64], &mut [f32]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source: PathBuf::from("the function"),
            function: Some(Box::new(denoise)),
            ..Self::of(Box::new(Callable { image }), None, std::collections::HashMap::new())
        }
    }

    /// The score of each image by the function, `(denoised − x)/level²`.
    ///
    /// # Errors
    /// The function's own.
    ///
    /// # Panics
    /// If the prior is no function.
    pub(crate) fn call(&self, x: &[f32], levels: &[f64], score: &mut [f32]) -> Result<()> {
        let denoise = self.function.as_ref().expect("only a function's plan calls out");
        denoise(x, levels, score)?;
        let n = self.image().len();
        for ((x, score), level) in x.chunks_exact(n).zip(score.chunks_exact_mut(n)).zip(levels) {
            let precision = 1.0 / (level * level);
            for (score, &x) in score.iter_mut().zip(x) {
                *score = ((f64::from(*score) - f64::from(x)) * precision) as f32;
            }
        }
        Ok(())
    }
}

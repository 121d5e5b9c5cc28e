//! A denoiser from outside: any function of noisy images and their noise levels serves as the prior's network.

use std::sync::Arc;

use super::{Network, Prior};
use crate::plan::{NetworkOp, PlanBuilder, TensorId};
use crate::{ImageShape, Result};

/// A function that denoises.
pub trait Function: Send + Sync {
    /// Writes E[x₀ | x] to `denoised` for each state: `x` and `denoised` are `[states, C·H·W]`, `levels` the standard deviation
    /// of the noise in each state.
    ///
    /// # Errors
    /// Ends the run.
    fn denoise(&self, x: &[f32], levels: &[f64], denoised: &mut [f32]) -> Result<()>;
}

/// A network that is one such function: the engine calls out of the plan. Where its sums depend on the batch, so do results.
struct External {
    name: String,
    image: ImageShape,
    function: Arc<dyn Function>,
}

impl Network for External {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        plan.push(NetworkOp::CallOut { x, level, score });
    }

    fn function(&self) -> Option<&dyn Function> {
        Some(self.function.as_ref())
    }
}

impl Prior {
    /// A prior whose denoiser is a function of the caller's own. `name` says which one it is, for people and in checkpoints. It
    /// computes on the CPU; what turbo must know of it is measured by [`calibrate`](crate::methods::turbo::calibrate).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use qcs::prior::{Function, Prior};
    ///
    /// /// Of white images with pixels N(0.5, 0.1²).
    /// struct Wiener;
    ///
    /// impl Function for Wiener {
    ///     fn denoise(&self, x: &[f32], levels: &[f64], denoised: &mut [f32]) -> qcs::Result<()> {
    ///         for (index, d) in denoised.iter_mut().enumerate() {
    ///             let share = 0.01 / (0.01 + levels[index / 784].powi(2)) as f32;
    ///             *d = 0.5 + share * (x[index] - 0.5);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let prior = Prior::of_function("Wiener's filter", qcs::ImageShape::new(1, 28, 28), Arc::new(Wiener));
    /// assert_eq!(prior.parameter_count(), 0);
    /// ```
    pub fn of_function(name: impl Into<String>, image: ImageShape, function: Arc<dyn Function>) -> Self {
        let name = name.into();
        let source = name.clone().into();
        let network = External { name, image, function };
        Self {
            source,
            ..Self::new(network, None, Default::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::CpuEngine;
    use crate::methods::prior_score;
    use crate::{Error, Images};

    const SHAPE: ImageShape = ImageShape::new(1, 2, 3);

    struct Halves;

    impl Function for Halves {
        fn denoise(&self, x: &[f32], levels: &[f64], denoised: &mut [f32]) -> Result<()> {
            assert_eq!(x.len(), levels.len() * SHAPE.len());
            denoised.iter_mut().zip(x).for_each(|(d, x)| *d = x / 2.0);
            Ok(())
        }
    }

    struct Fails;

    impl Function for Fails {
        fn denoise(&self, _: &[f32], _: &[f64], _: &mut [f32]) -> Result<()> {
            Err(Error::Failed("no weights".to_owned()))
        }
    }

    fn score(function: Arc<dyn Function>) -> Result<Images> {
        let prior = Prior::of_function("a test", SHAPE, function);
        let x = (0..18).map(|i| i as f32).collect();
        prior_score(&mut CpuEngine::new(2), &prior, &Images::new(SHAPE, x), 2.0)
    }

    #[test]
    fn the_score_is_the_step_to_the_denoised_image_over_the_variance() {
        for (i, score) in score(Arc::new(Halves)).unwrap().data.iter().enumerate() {
            assert_eq!(*score, -(i as f32) / 8.0);
        }
    }

    #[test]
    fn what_the_function_refuses_ends_the_run_with_its_words() {
        assert_eq!(score(Arc::new(Fails)).unwrap_err().to_string(), "no weights");
    }
}

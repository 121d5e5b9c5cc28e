//! The prior score of given images, for those who want to look at it alone.

use super::{Prior, ScorePlan};
use crate::engine::{Constants, Engine, State, Step};
use crate::plan::Program;
use crate::{Error, Images, Result};

/// Images evaluated at once.
const BATCH: usize = 8;

impl Prior {
    /// The score of each image at noise level `beta`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the images have not the prior's shape, a pixel is not finite, or `beta` is not positive;
    /// [`Error::Device`] if the engine cannot hold a batch.
    pub fn score(&self, engine: &mut dyn Engine, images: &Images, beta: f64) -> Result<Images> {
        let shape = self.network.image;
        if images.shape != shape {
            let given = images.shape;
            return Err(Error::usage(format!(
                "images of shape {given} are not the prior's ({shape})"
            )));
        }
        check_level(beta)?;
        check_finite(&images.data, shape.len())?;
        let batch = images.count().clamp(1, BATCH);
        let compiled = ScorePlan::new(&self.network, batch, engine.target());
        let steps = [Step {
            beta,
            ..Step::default()
        }];
        let constants = Constants {
            steps: &steps,
            prior: Some(self),
            ..Constants::default()
        };
        let mut session = engine.session(&compiled.plan, constants)?;
        session.bind(&[State { image: 0, chain: 0 }])?;
        let (mut x, mut score) = (vec![0.0; batch * shape.len()], vec![0.0; batch * shape.len()]);
        let mut scores = Vec::with_capacity(images.data.len());
        for chunk in images.data.chunks(batch * shape.len()) {
            // A short last batch keeps images of the one before in its tail; their scores are not read.
            x[..chunk.len()].copy_from_slice(chunk);
            session.write_f32(compiled.x, &x)?;
            session.execute(Program::Score, 0)?;
            session.read_f32(compiled.score, &mut score)?;
            scores.extend_from_slice(&score[..chunk.len()]);
        }
        Ok(Images::new(shape, scores))
    }
}

/// A noise level must be positive and finite.
pub(crate) fn check_level(beta: f64) -> Result<()> {
    if beta > 0.0 && beta.is_finite() {
        Ok(())
    } else {
        Err(Error::usage(format!(
            "a noise level must be positive and finite, not {beta}"
        )))
    }
}

pub(crate) fn check_finite(x: &[f32], n: usize) -> Result<()> {
    match x.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::usage(format!(
            "x holds NaN or infinity in image {}, element {}",
            at / n,
            at % n
        ))),
    }
}

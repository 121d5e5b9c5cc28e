//! The likelihood score of given states, for those who want to look at it alone.

use super::{Likelihood, LikelihoodPlan, Method};
use crate::engine::{Constants, Engine, State, Step};
use crate::plan::Program;
use crate::prior::{check_finite, check_level};
use crate::problem::Problem;
use crate::{Error, Result};

/// States evaluated at once.
const BATCH: usize = 8;

impl Likelihood {
    /// The score, without gamma, of the states `x` `[B, N]` at noise level `beta`. State b is compared with the
    /// measurements of image b, or with the only ones there are.
    ///
    /// # Errors
    /// [`Error::Usage`] if `x` is not whole states, has more of them than the problem has images, holds NaN, or if
    /// `beta` is not positive; as [`Problem::spectrum`]; [`Error::Device`] if the engine cannot hold a batch.
    pub fn score(&self, engine: &mut dyn Engine, problem: &Problem, x: &[f32], beta: f64) -> Result<Vec<f32>> {
        let (n, images) = (problem.a().cols(), problem.cells().count());
        if !x.len().is_multiple_of(n) || x.is_empty() {
            return Err(Error::usage(format!(
                "x has {} values: the problem needs B·{n}",
                x.len()
            )));
        }
        let states = x.len() / n;
        if images > 1 && states > images {
            return Err(Error::usage(format!(
                "x has {states} states, but the problem holds {images} images"
            )));
        }
        check_level(beta)?;
        check_finite(x, n)?;
        let batch = states.min(BATCH);
        if self.method == Method::Ep {
            engine.prepare(problem)?;
        }
        let compiled = LikelihoodPlan::new(self, problem, batch, engine.target());
        let steps = [Step {
            beta,
            ..Step::default()
        }];
        let constants = Constants {
            steps: &steps,
            problem: Some(problem),
            ..Constants::default()
        };
        let mut session = engine.session(&compiled.plan, constants)?;
        let (mut chunk_x, mut score) = (vec![0.0; batch * n], vec![0.0; batch * n]);
        let mut scores = Vec::with_capacity(x.len());
        for (index, chunk) in x.chunks(batch * n).enumerate() {
            let state = |b: usize| State {
                image: if images == 1 { 0 } else { b },
                chain: 0,
            };
            let first = index * batch;
            let bound: Vec<State> = (first..first + chunk.len() / n).map(state).collect();
            session.bind(&bound)?;
            chunk_x[..chunk.len()].copy_from_slice(chunk);
            session.write_f32(compiled.x, &chunk_x)?;
            session.execute(Program::Likelihood, 0)?;
            session.read_f32(compiled.score, &mut score)?;
            scores.extend_from_slice(&score[..chunk.len()]);
        }
        Ok(scores)
    }
}

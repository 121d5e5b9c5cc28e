//! The prior score and the likelihood score alone, for those who want to look at one of them.

use crate::engine::{Constants, Engine, Session, State};
use crate::likelihood::{Carried, Likelihood, SettledEp};
use crate::plan::{Contents, LikelihoodOp, Plan, PlanBuilder, Program, Step, Target, TensorId};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::{Error, Images, Result};

/// States evaluated at once.
const BATCH: usize = 8;

/// A plan that only evaluates a score, and where its input and output lie.
pub struct ScorePlan {
    pub plan: Plan,
    /// `[N]` f32 per state
    pub x: TensorId,
    /// The noise level of each state, f64
    pub level: TensorId,
    /// `[N]` f32 per state
    pub score: TensorId,
}

impl ScorePlan {
    /// The prior score.
    pub fn of_prior(prior: &Prior, batch: usize, target: &dyn Target) -> Self {
        let n = prior.image().len();
        Self::new(n, batch, target, |plan, x, level| {
            let score = plan.temporary(Contents::F32(n));
            prior.network().push(plan, x, level, score);
            score
        })
    }

    /// The likelihood score, without gamma.
    pub fn of_likelihood(likelihood: &Likelihood, problem: &Problem, batch: usize, target: &dyn Target) -> Self {
        Self::new(problem.a().cols(), batch, target, |plan, x, level| {
            let carried = likelihood.carries().then(|| {
                // A score alone has no earlier steps: the sites begin empty each time. The count of their iterations is 0 then,
                // which is a flag that lets EP work.
                let sites = SettledEp::sites(plan, problem.a().rows());
                plan.push(LikelihoodOp::EpReset { sites });
                let resting = sites.count;
                Carried { sites, resting }
            });
            likelihood.push(plan, problem, x, level, carried)
        })
    }

    fn new(
        n: usize,
        batch: usize,
        target: &dyn Target,
        push: impl FnOnce(&mut PlanBuilder, TensorId, TensorId) -> TensorId,
    ) -> Self {
        let mut plan = PlanBuilder::new(batch, target);
        let (x, level) = (plan.persistent(Contents::F32(n)), plan.persistent(Contents::F64(1)));
        plan.begin(Program::Step);
        let score = push(&mut plan, x, level);
        plan.keep(score);
        Self {
            plan: plan.finish(target),
            x,
            level,
            score,
        }
    }

    /// The scores of `x`, `[B, N]`, all at one noise level; state b belongs to image `image(b)`.
    fn evaluate(
        &self,
        session: &mut dyn Session,
        x: &[f32],
        beta: f64,
        image: impl Fn(usize) -> usize,
    ) -> Result<Vec<f32>> {
        let batch = self.plan.batch;
        let n = self.plan.tensor(self.x).bytes / 4 / batch;
        session.write_values(self.level, &vec![beta; batch])?;
        let (mut chunk_x, mut score) = (vec![0.0; batch * n], vec![0.0; batch * n]);
        let mut scores = Vec::with_capacity(x.len());
        for (index, chunk) in x.chunks(batch * n).enumerate() {
            let states = index * batch..index * batch + chunk.len() / n;
            let states: Vec<State> = states
                .map(|b| State {
                    image: image(b),
                    chain: 0,
                })
                .collect();
            session.bind(&states)?;
            // A short last batch keeps states of the one before in its tail; their scores are not read.
            chunk_x[..chunk.len()].copy_from_slice(chunk);
            session.write_values(self.x, &chunk_x)?;
            session.execute(Program::Step, 0)?;
            session.read_values(self.score, &mut score)?;
            scores.extend_from_slice(&score[..chunk.len()]);
        }
        Ok(scores)
    }
}

/// The prior score of each image at noise level `beta`.
///
/// # Errors
/// [`Error::Usage`] if the images have not the prior's shape, a pixel is not finite, or `beta` is not positive;
/// [`Error::Device`] if the engine cannot hold a batch.
pub fn prior_score(engine: &mut dyn Engine, prior: &Prior, images: &Images, beta: f64) -> Result<Images> {
    let shape = prior.image();
    if images.shape != shape {
        let given = images.shape;
        return Err(Error::usage(format!(
            "images of shape {given} are not the prior's ({shape})"
        )));
    }
    check(&images.data, shape.len(), beta)?;
    let compiled = ScorePlan::of_prior(prior, images.count().clamp(1, BATCH), engine.target());
    let constants = Constants {
        steps: &[Step::default()],
        prior: Some(prior),
        ..Constants::default()
    };
    let mut session = engine.session(&compiled.plan, constants)?;
    let scores = compiled.evaluate(session.as_mut(), &images.data, beta, |_| 0)?;
    Ok(Images::new(shape, scores))
}

/// The likelihood score, without gamma, of the states `x` `[B · chains, N]` at noise level `beta`. The chains of an image follow
/// each other: those of image b are compared with its measurements, or with the only ones there are. `note` hears how A was factorised, where it had to be.
///
/// # Errors
/// [`Error::Usage`] if `x` is not whole states, has more of them than the problem has images, holds NaN, or if `beta` is not
/// positive; as [`Problem::spectrum`]; [`Error::Device`] if the engine cannot hold a batch.
pub fn likelihood_score(
    engine: &mut dyn Engine,
    likelihood: &Likelihood,
    problem: &Problem,
    x: &[f32],
    chains: usize,
    beta: f64,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<f32>> {
    let (n, images) = (problem.a().cols(), problem.cells().count());
    if chains == 0 || !x.len().is_multiple_of(chains * n) || x.is_empty() {
        return Err(Error::usage(format!(
            "x has {} values: the problem needs B·{}",
            x.len(),
            chains * n
        )));
    }
    let states = x.len() / n;
    if images > 1 && states / chains > images {
        return Err(Error::usage(format!(
            "x has {} images, but the problem holds {images}",
            states / chains
        )));
    }
    check(x, n, beta)?;
    let compiled = ScorePlan::of_likelihood(likelihood, problem, states.min(BATCH), engine.target());
    if compiled.plan.needs_spectrum() {
        engine.factorise(problem)?.iter().for_each(|text| note(text));
    }
    let constants = Constants {
        steps: &[Step::default()],
        problem: Some(problem),
        ..Constants::default()
    };
    let mut session = engine.session(&compiled.plan, constants)?;
    compiled.evaluate(session.as_mut(), x, beta, |b| if images == 1 { 0 } else { b / chains })
}

/// A noise level must be positive and finite, and so must be the states.
fn check(x: &[f32], n: usize, beta: f64) -> Result<()> {
    if !(beta > 0.0 && beta.is_finite()) {
        return Err(Error::usage(format!(
            "a noise level must be positive and finite, not {beta}"
        )));
    }
    match x.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::usage(format!(
            "x holds NaN or infinity in image {}, element {}",
            at / n,
            at % n
        ))),
    }
}

//! Turbo: EP and the denoiser as two halves of one message passing (a generalised VAMP with a learned denoiser). It
//! estimates the posterior mean in some 20 evaluations of the network; several chains are drawn from its last message.
//!
//! The paper's sampler assumes that x given x_t has variance beta²; the prior knows better, by its own denoising error.
//! Here the two halves exchange extrinsic Gaussian messages: EP makes the cells Gaussian at N(mu, nu·I), a linear filter
//! hands r = x + s·noise to the network, and what the network adds goes back as (mu, nu). Kin: GVAMP, and the score-based
//! turbo message passing STMP and Q-STMP, which need (row-)orthogonally invariant A; this takes any A.

mod calibrate;
mod options;
mod plan;

use qcs_kernels::turbo::Scalars;
use qcs_kernels::turbo::turbo_denoise::BROKEN;

pub use calibrate::{LEVELS, Levels, calibrate, calibrate_at};
pub use options::{Turbo, TurboSettings};

use super::{
    Algorithm, BatchPlan, Divergence, EP_ITERATIONS, Estimate, Handle, Inputs, Kind, MethodOptions, Options, Outputs,
    Pass, Preset, Samples, X,
};
use crate::error::Remedy;
use crate::plan::{Step, Target};
use crate::prior::{Denoiser, Prior};
use crate::problem::Problem;
use crate::{Error, Images, Result};

impl MethodOptions for Turbo {
    fn advised_for(key: &str, prior: &Prior, _: Option<&Preset>, signs: bool) -> Result<Self> {
        Ok(Self::advised(prior, key, signs)?.over(Self::base()))
    }

    fn resolved(self, _: &Kind) -> Result<Self> {
        self.settings()?;
        Ok(self)
    }

    fn algorithm(&self, _: &Kind) -> Result<Box<dyn Algorithm>> {
        Ok(Box::new(self.settings()?))
    }
}

/// The problem and the denoiser, or an error that names the one that is missing.
fn needed<'a>(given: Inputs<'a>) -> Result<(&'a Problem, &'a Denoiser)> {
    let problem = given
        .problem
        .ok_or_else(|| Error::usage("turbo reconstructs measured images: without a problem there is nothing to do"))?;
    let denoiser = given.prior.denoiser().ok_or_else(|| {
        let reason = "turbo needs the prior's denoising errors, which the file does not hold";
        Error::bad_file(&given.prior.source, reason).or(Remedy::Calibrate)
    })?;
    Ok((problem, denoiser))
}

impl Algorithm for TurboSettings {
    fn check(&self, given: Inputs<'_>) -> Result<()> {
        needed(given).map(|_| ())
    }

    fn passes<'a>(&'a self, given: Inputs<'a>) -> Vec<Box<dyn Pass + 'a>> {
        let messages = Messages { settings: self, given };
        let mut passes: Vec<Box<dyn Pass + 'a>> = vec![Box::new(messages)];
        if given.chains > 1 {
            passes.push(Box::new(Draws { settings: self, given }));
        }
        passes
    }

    fn outcome(&self, given: Inputs<'_>, left: &Outputs) -> Samples {
        let shape = given.prior.image();
        let d = Images::new(shape, left.values(plan::D));
        let numbers = left.values(plan::SCALARS);
        // Where the scale is open, its error is along the image itself.
        let squares = d
            .iter()
            .map(|d| d.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / d.len() as f64);
        let squares: Vec<f64> = squares.collect();
        let eta = numbers.chunks_exact(Scalars::LEN).zip(squares).map(|(values, square)| {
            let scalars = Scalars::of(values.try_into().expect("chunks of that length"));
            scalars.eta + scalars.scale * square
        });
        let counts = |handle: Handle<u32>| left.values(handle).into_iter().map(|count| count as usize).collect();
        let (evaluations, done): (Vec<usize>, _) = (counts(plan::STEPS), left.values(plan::DONE));
        let mut diverged = Vec::new();
        for image in (0..done.len()).filter(|&image| done[image] == BROKEN) {
            diverged.extend((0..given.chains).map(|chain| Divergence {
                image,
                chain,
                level: evaluations[image],
                step: 1,
                reach: None,
            }));
        }
        Samples {
            states: if given.chains > 1 {
                Images::new(shape, left.values(X))
            } else {
                d.clone()
            },
            chains: given.chains,
            diverged,
            seconds: left.seconds,
            estimate: Some(Estimate {
                mean: d,
                predicted_error: eta.map(f64::sqrt).collect(),
                evaluations,
                ep_iterations: counts(EP_ITERATIONS),
            }),
        }
    }
}

/// The first pass: every image by itself, until it has settled.
struct Messages<'a> {
    settings: &'a TurboSettings,
    given: Inputs<'a>,
}

impl Pass for Messages<'_> {
    fn per_chain(&self) -> bool {
        false
    }

    fn steps(&self) -> Vec<Step> {
        numbered(self.settings.evaluations)
    }

    fn stage(&self) -> &'static str {
        "iteration"
    }

    fn compile(&self, batch: usize, target: &dyn Target) -> BatchPlan {
        let needed = needed(self.given).expect("checked before anything is compiled");
        plan::message_passing(self.settings, self.given, needed, batch, target)
    }
}

/// The second pass: every chain of an image from its last message.
struct Draws<'a> {
    settings: &'a TurboSettings,
    given: Inputs<'a>,
}

impl Pass for Draws<'_> {
    fn per_chain(&self) -> bool {
        true
    }

    fn steps(&self) -> Vec<Step> {
        numbered(self.settings.draw_steps)
    }

    fn stage(&self) -> &'static str {
        "draw step"
    }

    fn compile(&self, batch: usize, target: &dyn Target) -> BatchPlan {
        plan::draws(self.settings, self.given, batch, target)
    }
}

/// Steps that are each a stage of their own. They carry no numbers: what a step computes with lies in its state.
fn numbered(count: u32) -> Vec<Step> {
    let step = |index| Step {
        index,
        stage: index + 1,
        ..Step::default()
    };
    (0..count).map(step).collect()
}

//! Annealed Langevin dynamics.

use qcs_kernels::sampler::denoise::DenoiseArgs;
use qcs_kernels::sampler::gamma::GammaArgs;
use qcs_kernels::sampler::langevin::{LangevinAcceptArgs, LangevinProposeArgs};
use qcs_kernels::sampler::set_level::SetLevelArgs;
use qcs_kernels::sampler::start_state::StartStateArgs;

use super::{Call, Caller};
use crate::plan::SamplerOp;

impl Caller<'_> {
    pub(super) fn sampler(&self, op: &SamplerOp, scratch: usize) -> Vec<Call> {
        let (states, seed, steps) = (self.batch(), self.constants.seed, self.steps());
        let keys = self.at(self.layout.keys);
        match *op {
            SamplerOp::StartState { x, frozen } => vec![Call::of(&StartStateArgs {
                keys,
                x: self.tensor(x),
                frozen: self.tensor(frozen),
                seed,
                states,
                len: self.len(x),
            })],
            SamplerOp::SetLevel { level } => vec![Call::of(&SetLevelArgs {
                steps,
                level: self.tensor(level),
                states,
                unused: 0,
            })],
            SamplerOp::Gamma {
                prior,
                likelihood,
                rule,
                gamma,
            } => vec![Call::of(&GammaArgs {
                prior: self.tensor(prior),
                likelihood: self.tensor(likelihood),
                gamma: self.tensor(gamma),
                factor: rule.factor(),
                adaptive: u32::from(rule.is_adaptive()),
                states,
                len: self.len(prior),
                unused: 0,
            })],
            SamplerOp::Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            } => {
                let (score, gamma) = likelihood.unzip();
                let velocity = self.tensor_or_none(velocity);
                let (next, len) = (self.at(scratch), self.len(x));
                let propose = LangevinProposeArgs {
                    steps,
                    keys,
                    x: self.tensor(x),
                    prior: self.tensor(prior),
                    likelihood: self.tensor_or_none(score),
                    gamma: self.tensor_or_none(gamma),
                    velocity,
                    frozen: self.tensor(frozen),
                    next,
                    seed,
                    states,
                    len,
                };
                let accept = LangevinAcceptArgs {
                    next,
                    frozen: self.tensor(frozen),
                    x: self.tensor(x),
                    velocity,
                    states,
                    len,
                };
                vec![Call::of(&propose), Call::of(&accept)]
            }
            SamplerOp::Denoise {
                x,
                level,
                prior,
                frozen,
            } => vec![Call::of(&DenoiseArgs {
                level: self.tensor(level),
                prior: self.tensor(prior),
                frozen: self.tensor(frozen),
                x: self.tensor(x),
                states,
                len: self.len(x),
            })],
        }
    }
}

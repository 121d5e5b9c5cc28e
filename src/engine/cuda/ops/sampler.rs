//! Annealed Langevin dynamics.

use qcs_kernels::sampler::denoise::DenoiseArgs;
use qcs_kernels::sampler::gamma::GammaArgs;
use qcs_kernels::sampler::langevin::{LangevinAcceptArgs, LangevinProposeArgs};
use qcs_kernels::sampler::set_level::SetLevelArgs;
use qcs_kernels::sampler::start_state::StartStateArgs;

use super::{Call, Caller};
use crate::plan::{GammaRule, Langevin, SamplerOp, TensorId};

impl Caller<'_> {
    pub(super) fn sampler(&self, op: &SamplerOp, scratch: usize) -> Vec<Call> {
        vec![match *op {
            SamplerOp::StartState { x, frozen } => self.start_state(x, frozen),
            SamplerOp::SetLevel { level } => self.set_level(level),
            SamplerOp::Gamma {
                prior,
                likelihood,
                rule,
                gamma,
            } => self.gamma(prior, likelihood, rule, gamma),
            SamplerOp::Langevin(op) => return self.langevin(op, scratch).into(),
            SamplerOp::Denoise {
                x,
                level,
                prior,
                frozen,
            } => self.denoise(x, level, prior, frozen),
        }]
    }

    fn start_state(&self, x: TensorId, frozen: TensorId) -> Call {
        Call::of(&StartStateArgs {
            keys: self.at(self.layout.keys),
            x: self.tensor(x),
            frozen: self.tensor(frozen),
            seed: self.constants.seed,
            states: self.batch(),
            len: self.len(x),
        })
    }

    fn set_level(&self, level: TensorId) -> Call {
        Call::of(&SetLevelArgs {
            steps: self.steps(),
            level: self.tensor(level),
            states: self.batch(),
            unused: 0,
        })
    }

    fn gamma(&self, prior: TensorId, likelihood: TensorId, rule: GammaRule, gamma: TensorId) -> Call {
        Call::of(&GammaArgs {
            prior: self.tensor(prior),
            likelihood: self.tensor(likelihood),
            gamma: self.tensor(gamma),
            factor: rule.factor(),
            adaptive: u32::from(rule.is_adaptive()),
            states: self.batch(),
            len: self.len(prior),
            unused: 0,
        })
    }

    /// The new state beside the old one, then in its place unless it is not finite.
    fn langevin(&self, op: Langevin, scratch: usize) -> [Call; 2] {
        let (score, gamma) = op.likelihood.unzip();
        let velocity = self.tensor_or_none(op.velocity);
        let (next, states, len) = (self.at(scratch), self.batch(), self.len(op.x));
        let propose = LangevinProposeArgs {
            steps: self.steps(),
            keys: self.at(self.layout.keys),
            x: self.tensor(op.x),
            prior: self.tensor(op.prior),
            likelihood: self.tensor_or_none(score),
            gamma: self.tensor_or_none(gamma),
            velocity,
            frozen: self.tensor(op.frozen),
            next,
            seed: self.constants.seed,
            states,
            len,
        };
        let accept = LangevinAcceptArgs {
            next,
            frozen: self.tensor(op.frozen),
            x: self.tensor(op.x),
            velocity,
            states,
            len,
        };
        [Call::of(&propose), Call::of(&accept)]
    }

    fn denoise(&self, x: TensorId, level: TensorId, prior: TensorId, frozen: TensorId) -> Call {
        Call::of(&DenoiseArgs {
            level: self.tensor(level),
            prior: self.tensor(prior),
            frozen: self.tensor(frozen),
            x: self.tensor(x),
            states: self.batch(),
            len: self.len(x),
        })
    }
}

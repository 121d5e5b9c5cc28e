//! The Langevin update and what belongs to it: a task per state, each the twin of its kernel. A state's noise depends on
//! nothing but its key.

use std::ops::Range;

use qcs_kernels::philox::{Domain, Stream};
use qcs_kernels::sampler::denoise::denoise;
use qcs_kernels::sampler::gamma::gamma as gamma_of;
use qcs_kernels::sampler::langevin::langevin;
use qcs_kernels::sampler::set_level::set_level;
use qcs_kernels::sampler::start_state::start_state;
use qcs_kernels::sampler::step::StepRecord;

use crate::engine::cpu::memory::{Operands, Parts};
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, dispatch};
use crate::engine::step_record;
use crate::plan::{GammaRule, Langevin, SamplerOp, Step, TensorId};

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn sampler(&mut self, op: &SamplerOp, scratch: Range<usize>, step: Step) {
        match *op {
            SamplerOp::StartState { x, frozen } => self.start_state(x, frozen),
            SamplerOp::SetLevel { level } => self.set_level(level, step),
            SamplerOp::Gamma {
                prior,
                likelihood,
                rule,
                gamma,
            } => self.gamma(prior, likelihood, rule, gamma),
            SamplerOp::Langevin(op) => self.langevin(op, scratch, step),
            SamplerOp::Denoise {
                x,
                level,
                prior,
                frozen,
            } => self.denoise(x, level, prior, frozen),
        }
    }

    fn start_state(&mut self, x: TensorId, frozen: TensorId) {
        let (at, states, seed) = (Operands::new(self.plan, &self.arena), &self.states, self.constants.seed);
        let (x, frozen) = (at.write::<f32>(x), at.write(frozen));
        let n = x.len() / states.len();
        self.threads.for_each2((x, n), (frozen, 1), &|state, x, frozen| {
            start_state(seed, states[state].key(), x, &mut frozen[0]);
        });
    }

    fn set_level(&self, level: TensorId, step: Step) {
        set_level(step.langevin.beta, Operands::new(self.plan, &self.arena).write(level));
    }

    fn gamma(&mut self, prior: TensorId, likelihood: TensorId, rule: GammaRule, gamma: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (prior, likelihood) = (at.read::<f32>(prior), at.read::<f32>(likelihood));
        let n = prior.len() / self.states.len();
        self.threads.for_each(at.write(gamma), 1, &|state, gamma| {
            let own = state * n..(state + 1) * n;
            gamma[0] = gamma_of(&prior[own.clone()], &likelihood[own], rule.factor(), rule.is_adaptive());
        });
    }

    fn langevin(&mut self, op: Langevin, scratch: Range<usize>, step: Step) {
        let (at, isa, step) = (Operands::new(self.plan, &self.arena), self.isa, step_record(step));
        let (states, seed) = (&self.states, self.constants.seed);
        let (x, all_prior) = (at.write::<f32>(op.x), at.read::<f32>(op.prior));
        let all_likelihood = op
            .likelihood
            .map(|(score, gamma)| (at.read::<f32>(score), at.read::<f64>(gamma)));
        let n = x.len() / states.len();
        let all_velocity = op.velocity.map(|velocity| Parts::new(at.write::<f32>(velocity)));
        let all_frozen = Parts::new(at.write::<u32>(op.frozen));
        self.threads
            .for_each2((x, n), (at.scratch(scratch), n), &|state, x, next| {
                let own = state * n..(state + 1) * n;
                // SAFETY: each task touches the flag and the velocity of its own state.
                let (frozen, velocity) = unsafe {
                    (
                        &mut all_frozen.part(state..state + 1)[0],
                        all_velocity.as_ref().map(|all| all.part(own.clone())),
                    )
                };
                let prior = &all_prior[own.clone()];
                let likelihood = all_likelihood.map(|(score, gamma)| (&score[own], gamma[state]));
                let noise = states[state].key().stream(seed, Domain::Noise, step.index as u32);
                dispatch!(isa, update(
                    noise: Stream, step: StepRecord, prior: &[f32], likelihood: Option<(&[f32], f64)>, x: &mut [f32],
                    velocity: Option<&mut [f32]>, frozen: &mut u32, next: &mut [f32]
                ));
            });
    }

    fn denoise(&mut self, x: TensorId, level: TensorId, prior: TensorId, frozen: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (level, prior, frozen) = (at.read::<f64>(level), at.read::<f32>(prior), at.read::<u32>(frozen));
        let n = prior.len() / self.states.len();
        self.threads.for_each(at.write(x), n, &|state, x| {
            denoise(level[state], &prior[state * n..(state + 1) * n], frozen[state], x);
        });
    }
}

/// The normal variates are made of fused multiply-adds.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the operands of the op
fn update<F: F32x8, D: F64x4>(
    noise: Stream,
    step: StepRecord,
    prior: &[f32],
    likelihood: Option<(&[f32], f64)>,
    x: &mut [f32],
    velocity: Option<&mut [f32]>,
    frozen: &mut u32,
    next: &mut [f32],
) {
    langevin(noise, step, prior, likelihood, x, velocity, frozen, next);
}

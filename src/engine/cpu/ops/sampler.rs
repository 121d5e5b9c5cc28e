//! The Langevin update and what belongs to it. A task is one state; its noise depends on nothing but its key.

use std::ops::Range;

use qcs_kernels::philox::{Domain, Stream};

use crate::engine::State;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::memory::Parts;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::{GammaRule, SamplerOp, Step};

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn sampler(&mut self, op: &SamplerOp, scratch: Range<usize>, step: Step) {
        let (plan, isa, seed) = (self.plan, self.isa, self.constants.seed);
        let at = Operands {
            plan,
            arena: &self.arena,
        };
        match *op {
            SamplerOp::StartState { x, frozen } => {
                start_state(self.threads, seed, &self.states, at.write(x), at.write(frozen));
            }
            SamplerOp::SetLevel { level } => at.write(level).fill(step.beta),
            SamplerOp::Gamma {
                prior,
                likelihood,
                rule,
                gamma: to,
            } => gamma(self.threads, rule, at.read(prior), at.read(likelihood), at.write(to)),
            SamplerOp::Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            } => {
                let update = Update {
                    seed,
                    states: &self.states,
                    step,
                    prior: at.read(prior),
                    likelihood: likelihood.map(|(score, gamma)| (at.read(score), at.read(gamma))),
                };
                let moving = Moving {
                    x: at.write(x),
                    velocity: velocity.map(|velocity| at.write(velocity)),
                    frozen: at.write(frozen),
                };
                update.apply(self.threads, isa, at.scratch(scratch), moving);
            }
            SamplerOp::Denoise {
                x,
                level,
                prior,
                frozen,
            } => {
                let (level, prior, frozen) = (at.read(level), at.read(prior), at.read(frozen));
                denoise(self.threads, level, prior, frozen, at.write(x));
            }
        }
    }
}

/// x ~ U(0, 1), and nothing is frozen.
fn start_state(threads: &mut Threads, seed: u64, states: &[State], x: &mut [f32], frozen: &mut [u32]) {
    let n = x.len() / states.len();
    frozen.fill(0);
    threads.for_each(x, n, &|i, x| {
        stream(seed, Domain::Start, states[i], 0).fill_uniforms(0, x);
    });
}

fn stream(seed: u64, domain: Domain, state: State, step: u32) -> Stream {
    Stream {
        seed,
        domain,
        image: state.image as u32,
        chain: state.chain as u32,
        step,
    }
}

#[inline(always)]
fn fill_normals<F: F32x8, D: F64x4>(stream: Stream, values: &mut [f32]) {
    stream.fill_normals(0, values);
}

/// gamma per state; 0 where the likelihood score is 0, so that nothing is divided by it.
fn gamma(threads: &mut Threads, rule: GammaRule, prior: &[f32], likelihood: &[f32], gamma: &mut [f64]) {
    let n = prior.len() / gamma.len();
    threads.for_each(gamma, 1, &|i, gamma| {
        let at = i * n..(i + 1) * n;
        let norm = norm(&likelihood[at.clone()]);
        gamma[0] = match rule {
            _ if norm == 0.0 => 0.0,
            GammaRule::Adaptive { xi } => xi * self::norm(&prior[at]) / norm,
            GammaRule::Constant { gamma } => gamma,
        };
    });
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt()
}

/// The operands of one update.
struct Update<'a> {
    pub seed: u64,
    pub states: &'a [State],
    pub step: Step,
    pub prior: &'a [f32],
    /// The likelihood score and gamma
    pub likelihood: Option<(&'a [f32], &'a [f64])>,
}

/// What an update changes.
struct Moving<'a> {
    pub x: &'a mut [f32],
    /// What the last step added to x
    pub velocity: Option<&'a mut [f32]>,
    pub frozen: &'a mut [u32],
}

impl Update<'_> {
    /// x += momentum·velocity + alpha·(prior + gamma·likelihood) + noise·z, z normal.
    ///
    /// A state that would become non-finite keeps its last value, and `frozen` its step number plus one.
    fn apply(&self, threads: &mut Threads, isa: Isa, scratch: &mut [f32], moving: Moving<'_>) {
        let Moving { x, velocity, frozen } = moving;
        let n = x.len() / self.states.len();
        let (alpha, noise) = (self.step.alpha as f32, self.step.noise as f32);
        let momentum = self.step.momentum as f32;
        let frozen = Parts::new(frozen);
        let velocity = velocity.map(Parts::new);
        threads.for_each2((x, n), (scratch, n), &|i, x, next| {
            // SAFETY: each task touches the flag and the velocity of its own state.
            let (frozen, velocity) = unsafe {
                let at = i * n..(i + 1) * n;
                (frozen.part(i..i + 1), velocity.as_ref().map(|v| v.part(at)))
            };
            if frozen[0] != 0 {
                return;
            }
            let noise_of = stream(self.seed, Domain::Noise, self.states[i], self.step.index);
            let values = &mut *next;
            dispatch!(isa, fill_normals(noise_of: Stream, values: &mut [f32]));
            let prior = &self.prior[i * n..(i + 1) * n];
            let likelihood = self
                .likelihood
                .map(|(score, gamma)| (&score[i * n..(i + 1) * n], gamma[i] as f32));
            let kept = velocity.as_deref().filter(|_| self.step.momentum != 0.0);
            let mut finite = true;
            for (e, next) in next.iter_mut().enumerate() {
                let score = prior[e] + likelihood.map_or(0.0, |(score, gamma)| gamma * score[e]);
                let x = kept.map_or(x[e], |velocity| x[e] + momentum * velocity[e]);
                *next = x + alpha * score + noise * *next;
                finite &= next.is_finite();
            }
            if !finite {
                frozen[0] = self.step.index + 1;
                return;
            }
            if let Some(velocity) = velocity {
                for ((velocity, next), x) in velocity.iter_mut().zip(&*next).zip(&*x) {
                    *velocity = next - x;
                }
            }
            x.copy_from_slice(next);
        });
    }
}

/// x += level²·prior, except for frozen states and where that is not finite.
fn denoise(threads: &mut Threads, level: &[f64], prior: &[f32], frozen: &[u32], x: &mut [f32]) {
    let n = x.len() / frozen.len();
    threads.for_each(x, n, &|i, x| {
        let beta2 = (level[i] * level[i]) as f32;
        let prior = &prior[i * n..(i + 1) * n];
        if frozen[i] == 0 && prior.iter().all(|s| s.is_finite()) {
            for (x, s) in x.iter_mut().zip(prior) {
                *x += beta2 * s;
            }
        }
    });
}

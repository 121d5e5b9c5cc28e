//! x += momentum·velocity + alpha·(prior + gamma·likelihood) + noise·z, z normal; a state that would become non-finite is
//! frozen. The velocity, where a run has one, is what the previous step added to x.
//!
//! Two kernels: the first proposes all new values and marks the states where one is not finite, the second takes over
//! the proposals of the others. No thread can know alone whether its state stays finite.

use super::StateKey;
use super::step::{StepRecord, StepTable};
use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};
use crate::philox::Stream;
#[cfg(target_arch = "nvptx64")]
use crate::philox::normals;

/// Writes the next value of every state to `next`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LangevinProposeArgs {
    /// The current step gives momentum, alpha, noise and the number of the step.
    pub steps: StepTable,
    /// `[states]`
    pub keys: Global<StateKey>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// `[states, len]`
    pub prior: Global<f32>,
    /// `[states, len]`, or none
    pub likelihood: Global<f32>,
    /// `[states]`; read where there is a likelihood
    pub gamma: Global<f64>,
    /// `[states, len]`, or none; not read where the step has no momentum
    pub velocity: Global<f32>,
    /// `[states]`: 0, or the number of the step plus one where a value was not finite
    pub frozen: Global<u32>,
    /// `[states, len]`
    pub next: Global<f32>,
    /// The run's seed.
    pub seed: u64,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for LangevinProposeArgs {
    fn kernel(&self) -> &'static str {
        "langevin_propose"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.len.div_ceil(4).div_ceil(THREADS), self.states)
    }
}

/// Takes `next` over into `x`, and `next - x` into the velocity, for every state that is not frozen.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LangevinAcceptArgs {
    /// `[states, len]`
    pub next: Global<f32>,
    /// `[states]`
    pub frozen: Global<u32>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// `[states, len]`, or none
    pub velocity: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for LangevinAcceptArgs {
    fn kernel(&self) -> &'static str {
        "langevin_accept"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.len.div_ceil(4).div_ceil(THREADS), self.states)
    }
}

/// The twin of both kernels: one state. `likelihood` comes with its gamma; `next` is working memory.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the operands of the op
pub fn langevin(
    noise: Stream,
    step: StepRecord,
    prior: &[f32],
    likelihood: Option<(&[f32], f64)>,
    x: &mut [f32],
    velocity: Option<&mut [f32]>,
    frozen: &mut u32,
    next: &mut [f32],
) {
    if *frozen != 0 {
        return;
    }
    let (score, gamma) = likelihood.unzip();
    let update = Update::of(step, gamma.unwrap_or(0.0));
    let kept = velocity.as_deref().filter(|_| step.momentum != 0.0);
    noise.fill_normals(0, next);
    let mut finite = true;
    for (e, next) in next.iter_mut().enumerate() {
        *next = update.next(x[e], kept.map(|v| v[e]), prior[e], score.map(|s| s[e]), *next);
        finite &= next.is_finite();
    }
    if !finite {
        *frozen = step.index as u32 + 1;
        return;
    }
    if let Some(velocity) = velocity {
        for ((velocity, next), x) in velocity.iter_mut().zip(&*next).zip(&*x) {
            *velocity = next - x;
        }
    }
    x.copy_from_slice(next);
}

/// The scalars of one update, rounded to f32.
#[derive(Clone, Copy)]
struct Update {
    momentum: f32,
    alpha: f32,
    noise: f32,
    gamma: f32,
}

impl Update {
    #[inline(always)]
    fn of(step: StepRecord, gamma: f64) -> Self {
        Self {
            momentum: step.momentum as f32,
            alpha: step.alpha as f32,
            noise: step.noise as f32,
            gamma: gamma as f32,
        }
    }

    #[inline(always)]
    fn next(self, x: f32, velocity: Option<f32>, prior: f32, likelihood: Option<f32>, noise: f32) -> f32 {
        let score = prior + likelihood.map_or(0.0, |score| self.gamma * score);
        let x = velocity.map_or(x, |velocity| x + self.momentum * velocity);
        x + self.alpha * score + self.noise * noise
    }
}

/// Four neighbouring elements of a state, fewer at its end.
#[cfg(target_arch = "nvptx64")]
pub struct Four {
    first: usize,
    count: u32,
    /// Whether one instruction can move all four.
    aligned: bool,
}

#[cfg(target_arch = "nvptx64")]
impl Four {
    /// Elements `4·quarter` to `4·quarter + 3` of a state of `len`.
    #[inline(always)]
    pub fn of(state: usize, quarter: u32, len: u32) -> Option<Self> {
        let first = 4 * quarter;
        (first < len).then(|| Self {
            first: state * len as usize + first as usize,
            count: if len - first < 4 { len - first } else { 4 },
            aligned: len % 4 == 0,
        })
    }

    /// # Safety
    /// The array holds the state; so below.
    #[inline(always)]
    pub unsafe fn read(&self, from: Global<f32>) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            if self.aligned {
                return from.read4(self.first);
            }
            let at = |e: u32| {
                if e < self.count {
                    from.read(self.first + e as usize)
                } else {
                    0.0
                }
            };
            [at(0), at(1), at(2), at(3)]
        }
    }

    /// The same of an array that this kernel also writes: [`read`](Self::read) may take it from a cache that stores do not
    /// reach.
    #[inline(always)]
    pub unsafe fn load(&self, from: Global<f32>) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            if self.aligned {
                return from.load4(self.first);
            }
            let at = |e: u32| {
                if e < self.count {
                    from.load(self.first + e as usize)
                } else {
                    0.0
                }
            };
            [at(0), at(1), at(2), at(3)]
        }
    }

    #[inline(always)]
    pub unsafe fn store(&self, to: Global<f32>, values: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.aligned {
                return to.store4(self.first, values);
            }
            let [a, b, c, d] = values;
            to.store(self.first, a);
            if self.count > 1 {
                to.store(self.first + 1, b);
            }
            if self.count > 2 {
                to.store(self.first + 2, c);
            }
            if self.count > 3 {
                to.store(self.first + 3, d);
            }
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};
    use crate::philox::Domain;

    /// A thread computes the four values of one Philox block.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn langevin_propose(args: LangevinProposeArgs) {
        // SAFETY: the launch gives a state and a quarter of its elements to each thread.
        unsafe {
            let (state, quarter) = (block_y() as usize, global_thread());
            let Some(four) = Four::of(state, quarter, args.len) else {
                return;
            };
            // Another thread may freeze the state at this very step: then this proposal is not looked at.
            if args.frozen.load(state) != 0 {
                return;
            }
            let step = args.steps.now();
            let with_likelihood = args.likelihood.is_some();
            let gamma = if with_likelihood { args.gamma.read(state) } else { 0.0 };
            let update = Update::of(step, gamma);
            let words = args
                .keys
                .key(state)
                .stream(args.seed, Domain::Noise, step.index as u32)
                .words(quarter);
            let noise = normals(words);
            let (x, prior) = (four.read(args.x), four.read(args.prior));
            let likelihood = if with_likelihood {
                four.read(args.likelihood)
            } else {
                [0.0; 4]
            };
            let with_velocity = args.velocity.is_some() && step.momentum != 0.0;
            let velocity = if with_velocity {
                four.read(args.velocity)
            } else {
                [0.0; 4]
            };
            let next = |e: usize| {
                update.next(
                    x[e],
                    with_velocity.then_some(velocity[e]),
                    prior[e],
                    with_likelihood.then_some(likelihood[e]),
                    noise[e],
                )
            };
            let next = [next(0), next(1), next(2), next(3)];
            four.store(args.next, next);
            // Elements past the end of the state are 0 plus noise: finite.
            if !(next[0].is_finite() && next[1].is_finite() && next[2].is_finite() && next[3].is_finite()) {
                // Several threads may write this word, all the same value.
                args.frozen.store(state, step.index as u32 + 1);
            }
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn langevin_accept(args: LangevinAcceptArgs) {
        // SAFETY: the launch gives a state and a quarter of its elements to each thread.
        unsafe {
            let (state, quarter) = (block_y() as usize, global_thread());
            let Some(four) = Four::of(state, quarter, args.len) else {
                return;
            };
            if args.frozen.read(state) != 0 {
                return;
            }
            let next = four.read(args.next);
            if args.velocity.is_some() {
                let x = four.load(args.x);
                four.store(
                    args.velocity,
                    [next[0] - x[0], next[1] - x[1], next[2] - x[2], next[3] - x[3]],
                );
            }
            four.store(args.x, next);
        }
    }
}

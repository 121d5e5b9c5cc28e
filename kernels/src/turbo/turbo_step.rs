//! One damped step with momentum of (r, s) towards the extrinsic message of the measurements.
//!
//! Linearised, the target is (I − H/q)·G·r, H the filter and G the denoiser's Jacobian less its mean, whose eigenvalues lie
//! between 0 and 1: the residual f has eigenvalues from 0 to max(h)/q, and heavy-ball with momentum 1/2 is stable for steps
//! below 3·q/max(h). That is the step, a half at most. `trust` guards where the Jacobian exceeds I (several modes): shorter
//! steps and no momentum where the residual grows and turns back. s goes through the very filter that r goes through:
//! r must never be called cleaner than it is.

use super::Scalars;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// The share of a step's movement that the next one repeats.
const MOMENTUM: f64 = 0.5;
/// The longest step.
const LONGEST: f64 = 0.5;
/// Steps below this times q/max(h) are stable.
const STABLE: f64 = 2.0 * (1.0 + MOMENTUM);
/// What trust is multiplied by where the residual grows and turns back, and where it keeps its direction; its bounds.
const LESS: f64 = 0.6;
const MORE: f64 = 1.2;
const LEAST: f64 = 0.05;

/// Moves r and s of every state that is not done. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboStepArgs {
    /// `[states]`
    pub steps: Global<u32>,
    /// `[states]`
    pub done: Global<u32>,
    /// `[states, len]`
    pub mu: Global<f32>,
    /// The measurements' score of mu, `[states, len]`
    pub score: Global<f32>,
    /// `[states, 3]`, see `turbo_filter`
    pub filter: Global<f64>,
    /// `[states, len]`
    pub r: Global<f32>,
    /// `[states]`
    pub s: Global<f64>,
    /// `[states, len]`
    pub velocity: Global<f32>,
    /// The residual, `[states, len]`
    pub f: Global<f32>,
    /// `[states, 6]`
    pub scalars: Global<f64>,
    /// The least s, and the largest.
    pub least: f64,
    /// The largest s.
    pub largest: f64,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for TurboStepArgs {
    fn kernel(&self) -> &'static str {
        "turbo_step"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// What moves in a step.
pub struct Moving<'a> {
    /// The noisy image that the prior will see
    pub r: &'a mut [f32],
    /// The standard deviation of its noise
    pub s: &'a mut f64,
    /// What the last step added to r
    pub velocity: &'a mut [f32],
    /// The last residual
    pub f: &'a mut [f32],
    /// Numbers
    pub scalars: &'a mut Scalars,
}

/// The twin: one state with `steps` steps behind it.
pub fn turbo_step(steps: u32, mu: &[f32], score: &[f32], filter: [f64; 3], bounds: (f64, f64), moving: Moving<'_>) {
    let Moving {
        r,
        s,
        velocity,
        f,
        scalars,
    } = moving;
    let [q, most, deviation] = filter;
    if steps == 0 {
        for (e, r) in r.iter_mut().enumerate() {
            (*r, velocity[e]) = (target(mu[e], score[e], q), 0.0);
        }
        *s = clamped(deviation, bounds);
        return;
    }
    let mut sums = Sums::default();
    for (e, &r) in r.iter().enumerate() {
        sums.add(target(mu[e], score[e], q) - r, f[e], velocity[e]);
    }
    let step = Step::of(steps, sums, r.len() as f64, *s, (q, most), scalars);
    for (e, r) in r.iter_mut().enumerate() {
        f[e] = target(mu[e], score[e], q) - *r;
        velocity[e] = step.velocity(velocity[e], f[e]);
        *r += velocity[e];
    }
    *s = clamped(step.deviation(*s, deviation, scalars), bounds);
}

/// The mean of the extrinsic message.
#[inline(always)]
fn target(mu: f32, score: f32, q: f64) -> f32 {
    (f64::from(mu) + f64::from(score) / q) as f32
}

#[inline(always)]
fn clamped(s: f64, (least, largest): (f64, f64)) -> f64 {
    if s < least {
        least
    } else if s > largest {
        largest
    } else {
        s
    }
}

/// Inner products of the new residual with itself, the last one, and the velocity.
#[derive(Clone, Copy, Default)]
struct Sums {
    square: f64,
    along: f64,
    uphill: f64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, f: f32, last: f32, velocity: f32) {
        let f = f64::from(f);
        self.square = f.fma(f, self.square);
        self.along = f.fma(f64::from(last), self.along);
        self.uphill = f.fma(f64::from(velocity), self.uphill);
    }
}

/// The factors of a step.
#[derive(Clone, Copy)]
struct Step {
    momentum: f64,
    step: f64,
}

impl Step {
    /// Decides on the step, and keeps what the next one needs to know of it.
    #[inline(always)]
    fn of(steps: u32, sums: Sums, n: f64, s: f64, (q, most): (f64, f64), scalars: &mut Scalars) -> Self {
        let size = (sums.square / n).root() / s;
        let mut momentum = MOMENTUM;
        // The first residual has none before it.
        if steps > 1 {
            let bad = size > scalars.size && sums.along < 0.0;
            let factor = if bad {
                LESS
            } else if sums.along > 0.0 {
                MORE
            } else {
                1.0
            };
            scalars.trust = clamped(factor * scalars.trust, (LEAST, 1.0));
            if bad || sums.uphill < 0.0 {
                momentum = 0.0;
                scalars.gain = 0.0;
            }
        }
        scalars.size = size;
        let stable = STABLE * q / most;
        let step = scalars.trust * if stable < LONGEST { stable } else { LONGEST };
        Self { momentum, step }
    }

    #[inline(always)]
    fn velocity(self, velocity: f32, f: f32) -> f32 {
        (self.momentum * f64::from(velocity) + self.step * f64::from(f)) as f32
    }

    #[inline(always)]
    fn deviation(self, s: f64, target: f64, scalars: &mut Scalars) -> f64 {
        scalars.gain = MOMENTUM * scalars.gain + self.step;
        let share = if scalars.gain < 1.0 { scalars.gain } else { 1.0 };
        share.fma(target - s, s)
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_TURBO_STEP", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_step(args: TurboStepArgs) {
        // SAFETY: the launch gives a state to each block; all of its threads see the same flags and numbers, because the
        // first one writes them only after all have met in the last sum.
        unsafe {
            let state = block() as usize;
            if args.done.read(state) != 0 {
                return;
            }
            let steps = args.steps.read(state);
            let q = args.filter.read(3 * state);
            let (most, deviation) = (args.filter.read(3 * state + 1), args.filter.read(3 * state + 2));
            let (s, bounds) = (args.s.load(state), (args.least, args.largest));
            let mut scalars = Scalars::load(args.scalars, state);
            let first = state * args.len as usize;
            let mut sums = Sums::default();
            let mut e = thread();
            while e < args.len && steps != 0 {
                let at = first + e as usize;
                let f = target(args.mu.read(at), args.score.read(at), q) - args.r.load(at);
                sums.add(f, args.f.load(at), args.velocity.load(at));
                e += block_threads();
            }
            let sums = Sums {
                square: block_sum(sums.square, scratch()),
                along: block_sum(sums.along, scratch()),
                uphill: block_sum(sums.uphill, scratch()),
            };
            let (step, next) = if steps == 0 {
                (
                    Step {
                        momentum: 0.0,
                        step: 0.0,
                    },
                    deviation,
                )
            } else {
                let step = Step::of(steps, sums, f64::from(args.len), s, (q, most), &mut scalars);
                (step, step.deviation(s, deviation, &mut scalars))
            };
            let mut e = thread();
            while e < args.len {
                let at = first + e as usize;
                let target = target(args.mu.read(at), args.score.read(at), q);
                if steps == 0 {
                    args.r.store(at, target);
                    args.velocity.store(at, 0.0);
                } else {
                    let r = args.r.load(at);
                    let f = target - r;
                    let velocity = step.velocity(args.velocity.load(at), f);
                    args.f.store(at, f);
                    args.velocity.store(at, velocity);
                    args.r.store(at, r + velocity);
                }
                e += block_threads();
            }
            if thread() == 0 {
                args.s.store(state, clamped(next, bounds));
                scalars.store(args.scalars, state);
            }
        }
    }
}

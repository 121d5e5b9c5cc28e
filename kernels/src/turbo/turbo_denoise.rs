//! The prior: d = r + s²·score, and what the prior adds becomes the message (mu, nu) to the measurements.
//!
//! With a the denoiser's mean squared error over s², which is its mean divergence: eta = a·s² is d's predicted error,
//! mu = (d − a·r)/(1 − a) and nu = eta/(1 − a) are the extrinsic message. a comes from the prior's table by interpolation
//! between logarithms, constant beyond the table's ends.

use super::Scalars;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};
use crate::philox::ln;
use crate::special::exp;

/// A denoiser whose error is nearly that of the noise tells nothing.
const MOST: f64 = 0.9;

/// `done` of a state that has settled, or has used up its evaluations.
pub const SETTLED: u32 = 1;
/// `done` of a state that would have become non-finite and keeps its last d.
pub const BROKEN: u32 = 2;

/// Takes a step of every state that is not done to its end. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboDenoiseArgs {
    /// `[len]` each: ln of the table's levels, ascending, and ln of error over level²
    pub levels: Global<f32>,
    /// See above.
    pub errors: Global<f32>,
    /// `[states, len]`
    pub r: Global<f32>,
    /// `[states]`
    pub s: Global<f64>,
    /// The prior score of r at s, `[states, len]`
    pub prior: Global<f32>,
    /// `[states, len]`
    pub d: Global<f32>,
    /// `[states, len]`
    pub mu: Global<f32>,
    /// sqrt(nu), `[states]`
    pub level: Global<f64>,
    /// `[states, 6]`
    pub scalars: Global<f64>,
    /// `[states]`
    pub steps: Global<u32>,
    /// `[states]`
    pub done: Global<u32>,
    /// A state whose d moves by less than this share of its predicted error, twice running, has settled.
    pub tolerance: f64,
    /// Entries of the table.
    pub entries: u32,
    /// Steps after which a state is done in any case.
    pub most: u32,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboDenoiseArgs {
    fn kernel(&self) -> &'static str {
        "turbo_denoise"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// When a state is done.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The movement of d, as a share of its predicted error, below which it has settled
    pub tolerance: f64,
    /// The most steps
    pub steps: u32,
}

/// The denoised image and the message that is made of it.
pub struct Denoised<'a> {
    /// The estimate
    pub d: &'a mut [f32],
    /// The mean of the message to the measurements
    pub mu: &'a mut [f32],
    /// The square root of its variance
    pub level: &'a mut f64,
    /// Numbers
    pub scalars: &'a mut Scalars,
}

/// The twin: one state with `steps` steps behind it. Returns whether it is done.
pub fn turbo_denoise(
    (levels, errors): (&[f32], &[f32]),
    r: &[f32],
    s: f64,
    prior: &[f32],
    steps: u32,
    limits: Limits,
    denoised: Denoised<'_>,
) -> u32 {
    let Denoised { d, mu, level, scalars } = denoised;
    let s2 = (s * s) as f32;
    let mut sums = Sums::default();
    for (e, &d) in d.iter().enumerate() {
        sums.add(new_d(r[e], s2, prior[e]), if steps == 0 { 0.0 } else { d });
    }
    let at = segment(s, levels.len(), |i| levels[i]);
    let knot = |i: usize| (levels[i], errors[i]);
    let a = interpolated(s, knot(at), knot(at + 1));
    let message = Message::of(a, s);
    let done = scalars.end(sums, d.len() as f64, message.eta, steps, limits);
    if done == BROKEN {
        return done;
    }
    for (e, d) in d.iter_mut().enumerate() {
        *d = new_d(r[e], s2, prior[e]);
        mu[e] = message.mu(*d, r[e]);
    }
    *level = message.level;
    done
}

#[inline(always)]
fn new_d(r: f32, s2: f32, prior: f32) -> f32 {
    s2.fma(prior, r)
}

/// Which two neighbours of the table hold s between them, or the nearest two.
#[inline(always)]
fn segment(s: f64, entries: usize, level: impl Fn(usize) -> f32) -> usize {
    let s = ln(s as f32);
    let mut at = 0;
    while at + 2 < entries && level(at + 1) < s {
        at += 1;
    }
    at
}

/// The denoiser's error over s².
#[inline(always)]
fn interpolated(s: f64, (x0, y0): (f32, f32), (x1, y1): (f32, f32)) -> f64 {
    let t = (f64::from(ln(s as f32)) - f64::from(x0)) / (f64::from(x1) - f64::from(x0));
    let t = t.clamp(0.0, 1.0);
    let a = exp(t.fma(f64::from(y1) - f64::from(y0), f64::from(y0)));
    if a < MOST { a } else { MOST }
}

/// The squares of d's movement and of d itself.
#[derive(Clone, Copy, Default)]
struct Sums {
    moved: f64,
    size: f64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, new: f32, old: f32) {
        let (new, by) = (f64::from(new), f64::from(new) - f64::from(old));
        self.moved = by.fma(by, self.moved);
        self.size = new.fma(new, self.size);
    }
}

impl Scalars {
    /// Whether the state is done after this step.
    #[inline(always)]
    fn end(&mut self, sums: Sums, n: f64, eta: f64, steps: u32, limits: Limits) -> u32 {
        if !(sums.size < f64::INFINITY && eta < f64::INFINITY) {
            return BROKEN;
        }
        let change = if steps == 0 {
            f64::INFINITY
        } else {
            (sums.moved / n / eta).root()
        };
        let settled = change < limits.tolerance && self.change < limits.tolerance;
        self.change = change;
        self.eta = eta;
        if settled || steps + 1 >= limits.steps {
            SETTLED
        } else {
            0
        }
    }
}

/// The extrinsic message.
#[derive(Clone, Copy)]
struct Message {
    a: f64,
    eta: f64,
    level: f64,
}

impl Message {
    #[inline(always)]
    fn of(a: f64, s: f64) -> Self {
        let eta = a * s * s;
        Self {
            a,
            eta,
            level: (eta / (1.0 - a)).root(),
        }
    }

    #[inline(always)]
    fn mu(self, d: f32, r: f32) -> f32 {
        ((f64::from(d) - self.a * f64::from(r)) / (1.0 - self.a)) as f32
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_TURBO_DENOISE", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_denoise(args: TurboDenoiseArgs) {
        // SAFETY: the launch gives a state to each block; all of its threads see the same flags and numbers, because the
        // first one writes them only after all have met in the last sum.
        unsafe {
            let state = block() as usize;
            if args.done.load(state) != 0 {
                return;
            }
            let (steps, s) = (args.steps.load(state), args.s.read(state));
            let mut scalars = Scalars::load(args.scalars, state);
            let (first, s2) = (state * args.len as usize, (s * s) as f32);
            let mut sums = Sums::default();
            let mut e = thread();
            while e < args.len {
                let at = first + e as usize;
                let old = if steps == 0 { 0.0 } else { args.d.load(at) };
                sums.add(new_d(args.r.read(at), s2, args.prior.read(at)), old);
                e += block_threads();
            }
            let sums = Sums {
                moved: block_sum(sums.moved, scratch()),
                size: block_sum(sums.size, scratch()),
            };
            let at = segment(s, args.entries as usize, |i| args.levels.read(i));
            let knot = |i: usize| (args.levels.read(i), args.errors.read(i));
            let message = Message::of(interpolated(s, knot(at), knot(at + 1)), s);
            let limits = Limits {
                tolerance: args.tolerance,
                steps: args.most,
            };
            let done = scalars.end(sums, f64::from(args.len), message.eta, steps, limits);
            let mut e = thread();
            while e < args.len && done != BROKEN {
                let at = first + e as usize;
                let r = args.r.read(at);
                let d = new_d(r, s2, args.prior.read(at));
                args.d.store(at, d);
                args.mu.store(at, message.mu(d, r));
                e += block_threads();
            }
            if thread() == 0 {
                if done != BROKEN {
                    args.level.store(state, message.level);
                    scalars.store(args.scalars, state);
                }
                args.done.store(state, done);
                args.steps.store(state, steps + 1);
            }
        }
    }
}

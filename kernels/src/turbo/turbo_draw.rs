//! Draws of x given the message (r, s): the reverse SDE from a level to the last one in geometric steps, the last denoised.
//!
//! x ← d + (b/a)²·(x − d) + sqrt(b²·(a² − b²))/a·z, from level a to level b, with d = x + a²·score.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};
use crate::philox::{Domain, ln, normals};
use crate::sampler::StateKey;
use crate::sampler::step::StepTable;
use crate::special::exp;

/// x is r with so much fresh noise that its level is `spread`·s.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboDrawStartArgs {
    /// `[states]`
    pub keys: Global<StateKey>,
    /// `[states, len]`
    pub r: Global<f32>,
    /// `[states]`
    pub s: Global<f64>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// The noise level of x, `[states]`
    pub level: Global<f64>,
    /// From one level to the next, `[states]`
    pub ratio: Global<f64>,
    /// Nobody is done, `[states]`
    pub done: Global<u32>,
    /// The run's seed.
    pub seed: u64,
    /// The first level over s, at least 1.
    pub spread: f64,
    /// The last level, or a tenth of the first where that is less.
    pub end: f64,
    /// Levels.
    pub count: u32,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboDrawStartArgs {
    fn kernel(&self) -> &'static str {
        "turbo_draw_start"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// One step of the reverse SDE. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboDrawArgs {
    /// The current step gives its number.
    pub steps: StepTable,
    /// `[states]`
    pub keys: Global<StateKey>,
    /// The prior score of x at its level, `[states, len]`
    pub prior: Global<f32>,
    /// `[states]`
    pub ratio: Global<f64>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// `[states]`
    pub level: Global<f64>,
    /// The run's seed.
    pub seed: u64,
    /// Levels.
    pub count: u32,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboDrawArgs {
    fn kernel(&self) -> &'static str {
        "turbo_draw"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The levels of a draw.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// The first over s
    pub spread: f64,
    /// The last
    pub end: f64,
    /// How many
    pub count: u32,
}

/// The twin of the start: one state. Returns its level and the ratio of levels.
pub fn turbo_draw_start(seed: u64, key: StateKey, r: &[f32], s: f64, levels: Levels, x: &mut [f32]) -> (f64, f64) {
    let fresh = fresh(levels.spread, s);
    key.stream(seed, Domain::Start, 0).fill_normals(0, x);
    for (x, r) in x.iter_mut().zip(r) {
        *x = fresh.fma(*x, *r);
    }
    begin(levels.spread * s, levels.end, levels.count)
}

/// The twin: one state at step number `index` of `count`, its level and the ratio to the next. Returns its next level.
pub fn turbo_draw(
    seed: u64,
    key: StateKey,
    (index, count): (u32, u32),
    prior: &[f32],
    (level, ratio): (f64, f64),
    x: &mut [f32],
) -> f64 {
    let step = Step::of(level, ratio, index + 1 == count);
    let noise = key.stream(seed, Domain::Noise, index);
    for (e, x) in x.iter_mut().enumerate() {
        *x = step.next(*x, prior[e], normals(noise.words(e as u32 / 4))[e % 4]);
    }
    level * ratio
}

/// Standard deviation of the noise that takes s to spread·s.
#[inline(always)]
fn fresh(spread: f64, s: f64) -> f32 {
    ((spread * spread - 1.0).root() * s) as f32
}

/// The first level, and the ratio to the next.
#[inline(always)]
fn begin(level: f64, end: f64, count: u32) -> (f64, f64) {
    let end = if end < 0.1 * level { end } else { 0.1 * level };
    let way = f64::from(ln((end / level) as f32));
    (level, exp(way / f64::from(count - 1)))
}

/// The factors of a step.
#[derive(Clone, Copy)]
struct Step {
    /// level²
    a2: f32,
    /// The share of the noise that stays
    kept: f32,
    noise: f32,
}

impl Step {
    #[inline(always)]
    fn of(level: f64, ratio: f64, last: bool) -> Self {
        let kept = if last { 0.0 } else { ratio * ratio };
        // sqrt(b²·(a² − b²))/a
        let noise = if last { 0.0 } else { level * ratio * (1.0 - kept).root() };
        Self {
            a2: (level * level) as f32,
            kept: kept as f32,
            noise: noise as f32,
        }
    }

    #[inline(always)]
    fn next(self, x: f32, prior: f32, noise: f32) -> f32 {
        let d = self.a2.fma(prior, x);
        self.noise.fma(noise, self.kept.fma(x - d, d))
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{barrier, block, block_threads, thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_draw_start(args: TurboDrawStartArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let s = args.s.read(state);
            let (fresh, key) = (fresh(args.spread, s), args.keys.key(state));
            let noise = key.stream(args.seed, Domain::Start, 0);
            let mut e = thread();
            while e < args.len {
                let at = state * args.len as usize + e as usize;
                let z = normals(noise.words(e / 4));
                args.x.store(at, fresh.fma(pick(z, e % 4), args.r.read(at)));
                e += block_threads();
            }
            if thread() == 0 {
                let (level, ratio) = begin(args.spread * s, args.end, args.count);
                args.level.store(state, level);
                args.ratio.store(state, ratio);
                args.done.store(state, 0);
            }
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_draw(args: TurboDrawArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let index = args.steps.now().index as u32;
            let (level, ratio) = (args.level.load(state), args.ratio.read(state));
            let step = Step::of(level, ratio, index + 1 == args.count);
            let noise = args.keys.key(state).stream(args.seed, Domain::Noise, index);
            let mut e = thread();
            while e < args.len {
                let at = state * args.len as usize + e as usize;
                let z = normals(noise.words(e / 4));
                args.x
                    .store(at, step.next(args.x.load(at), args.prior.read(at), pick(z, e % 4)));
                e += block_threads();
            }
            // Every thread has read the level by then.
            barrier();
            if thread() == 0 {
                args.level.store(state, level * ratio);
            }
        }
    }

    /// An element by selection: an index would put the array into memory.
    #[inline(always)]
    fn pick(z: [f32; 4], e: u32) -> f32 {
        match e {
            0 => z[0],
            1 => z[1],
            2 => z[2],
            _ => z[3],
        }
    }
}

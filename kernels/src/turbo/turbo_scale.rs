//! The scale of an image that signs leave open: x and c·x have the same signs at 0.
//!
//! Two things tell ln c. The cells, given mu: were the error of A·mu known, its signs that are wrong would say how large A·mu is beside
//! it. V = sigma² + nu·|a|² is that error as turbo believes it, so the cells' answer is no better than this belief. And the prior: the
//! brightest value of a denoised image is much the same in all of them. Both are Gaussians in ln c, and a step goes to their joint mean.
//! Only the first iterations ask: later mu has learnt from these very signs, and they agree with any scale it has.

use super::Scalars;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};
use crate::special::{exp, ln};
use crate::truncated_normal;

/// The iterations that ask, from the second on.
const LAST: u32 = 5;
/// What turbo's belief about its own error is worth: the spread of ln of the true one over it.
const DOUBT: f64 = 0.16;
/// The largest |ln c| of a step.
const LONGEST: f64 = 0.3;
/// A brightest value below this is taken for this.
const DIMMEST: f64 = 0.01;

/// Scales z, mu and r of the states that are in their first iterations and whose cells are all signs at 0. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboScaleArgs {
    /// `[states]`
    pub steps: Global<u32>,
    /// `[states]`
    pub done: Global<u32>,
    /// Bounds of the cells, `[states, measurements]`
    pub lower: Global<f64>,
    /// `[states, measurements]`
    pub upper: Global<f64>,
    /// sqrt(nu), `[states]`
    pub level: Global<f64>,
    /// `[states, len]`
    pub d: Global<f32>,
    /// A·mu, `[states, measurements]`
    pub z: Global<f64>,
    /// `[states, len]`
    pub mu: Global<f32>,
    /// `[states, len]`
    pub r: Global<f32>,
    /// `[states, 6]`
    pub scalars: Global<f64>,
    /// Mean of ln of the brightest value.
    pub mean: f64,
    /// Its spread.
    pub spread: f64,
    /// sigma².
    pub sigma2: f64,
    /// The mean of |a|² over rows a of A.
    pub row2: f64,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
    /// M.
    pub measurements: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboScaleArgs {
    fn kernel(&self) -> &'static str {
        "turbo_scale"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// What is known beside the state.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Mean of ln of the brightest value
    pub mean: f64,
    /// Its spread
    pub spread: f64,
    /// sigma²
    pub sigma2: f64,
    /// The mean of |a|² over rows a of A
    pub row2: f64,
}

/// What is scaled.
pub struct Scaled<'a> {
    /// A·mu
    pub z: &'a mut [f64],
    /// The mean of the message to the measurements
    pub mu: &'a mut [f32],
    /// The noisy image that the prior has seen
    pub r: &'a mut [f32],
    /// Numbers
    pub scalars: &'a mut Scalars,
}

/// The twin: one state with `steps` steps behind it.
pub fn turbo_scale(steps: u32, known: Known, cells: (&[f64], &[f64]), level: f64, d: &[f32], scaled: Scaled<'_>) {
    let Scaled { z, mu, r, scalars } = scaled;
    if !asks(steps) {
        return;
    }
    let error = Error::of(known, level);
    let mut sums = Sums::default();
    for (&z, (&lower, &upper)) in z.iter().zip(cells.0.iter().zip(cells.1)) {
        sums.add(error, z, lower, upper);
    }
    let brightest = d.iter().fold(0.0, |most, &d| if d > most { d } else { most });
    let Some((factor, variance)) = sums.factor(error, known, brightest) else {
        return;
    };
    scalars.scale = variance;
    z.iter_mut().for_each(|z| *z *= factor);
    mu.iter_mut().chain(r).for_each(|x| *x = by(*x, factor));
}

#[inline(always)]
fn asks(steps: u32) -> bool {
    (1..=LAST).contains(&steps)
}

#[inline(always)]
fn by(x: f32, factor: f64) -> f32 {
    (f64::from(x) * factor) as f32
}

/// How far A·mu is believed to lie from A·x + n.
#[derive(Clone, Copy)]
struct Error {
    /// 1/sqrt(V)
    q: f64,
    /// The variance of ln c that doubt about V leaves
    doubt: f64,
}

impl Error {
    #[inline(always)]
    fn of(known: Known, level: f64) -> Self {
        let of_mu = level * level * known.row2;
        let variance = known.sigma2 + of_mu;
        let doubt = DOUBT * of_mu / variance;
        Self {
            q: 1.0 / variance.root(),
            doubt: doubt * doubt,
        }
    }
}

/// Over the cells: the first derivative of ln Z by ln c, the second without its sign, and how many are no signs.
#[derive(Clone, Copy, Default)]
struct Sums {
    slope: f64,
    curvature: f64,
    others: f64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, error: Error, z: f64, lower: f64, upper: f64) {
        let open = |end: f64| end.is_infinite();
        if !((open(lower) || lower == 0.0) && (open(upper) || upper == 0.0) && (open(lower) || open(upper))) {
            self.others += 1.0;
            return;
        }
        let at = z * error.q;
        let moments = truncated_normal::moments(lower * error.q - at, upper * error.q - at);
        self.slope = moments.mean.fma(at, self.slope);
        self.curvature = (1.0 - moments.variance).fma(at * at, self.curvature);
    }

    /// c, and the variance of its ln; none where the cells are not all signs, and where anything is not finite.
    #[inline(always)]
    fn factor(self, error: Error, known: Known, brightest: f32) -> Option<(f64, f64)> {
        let brightest = f64::from(brightest);
        let dim = if brightest > DIMMEST { brightest } else { DIMMEST };
        let weight = 1.0 / (known.spread * known.spread);
        let doubted = error.doubt.fma(self.curvature, 1.0);
        let slope = self.slope / doubted + (known.mean - ln(dim)) * weight;
        let variance = 1.0 / (self.curvature / doubted + weight);
        let by = slope * variance;
        // A NaN is no step.
        if self.others > 0.0 || !(by > -f64::INFINITY && by < f64::INFINITY) {
            None
        } else {
            Some((exp(by.clamp(-LONGEST, LONGEST)), variance))
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_max, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_TURBO_SCALE", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_scale(args: TurboScaleArgs) {
        // SAFETY: the launch gives a state to each block; all of its threads see the same flags and sums.
        unsafe {
            let state = block() as usize;
            if args.done.read(state) != 0 || !asks(args.steps.read(state)) {
                return;
            }
            let known = Known {
                mean: args.mean,
                spread: args.spread,
                sigma2: args.sigma2,
                row2: args.row2,
            };
            let error = Error::of(known, args.level.read(state));
            let first = state * args.measurements as usize;
            let mut sums = Sums::default();
            let mut i = thread();
            while i < args.measurements {
                let at = first + i as usize;
                sums.add(error, args.z.load(at), args.lower.read(at), args.upper.read(at));
                i += block_threads();
            }
            let of_pixels = state * args.len as usize;
            let mut brightest = 0.0f32;
            let mut e = thread();
            while e < args.len {
                let d = args.d.read(of_pixels + e as usize);
                if d > brightest {
                    brightest = d;
                }
                e += block_threads();
            }
            let sums = Sums {
                slope: block_sum(sums.slope, scratch()),
                curvature: block_sum(sums.curvature, scratch()),
                others: block_sum(sums.others, scratch()),
            };
            let brightest = block_max(f64::from(brightest), scratch()) as f32;
            let Some((factor, variance)) = sums.factor(error, known, brightest) else {
                return;
            };
            let mut i = thread();
            while i < args.measurements {
                let at = first + i as usize;
                args.z.store(at, args.z.load(at) * factor);
                i += block_threads();
            }
            let mut e = thread();
            while e < args.len {
                let at = of_pixels + e as usize;
                args.mu.store(at, by(args.mu.load(at), factor));
                args.r.store(at, by(args.r.load(at), factor));
                e += block_threads();
            }
            if thread() == 0 {
                let mut scalars = Scalars::load(args.scalars, state);
                scalars.scale = variance;
                scalars.store(args.scalars, state);
            }
        }
    }
}

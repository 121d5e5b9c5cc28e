//! gamma = xi·‖prior‖/‖likelihood‖ per state, [`MOST`] at most, or a constant; 0 where the likelihood score vanishes.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// The largest adaptive gamma. A score so small says that the measurements are satisfied: below it the likelihood fades out
/// instead of being blown up to the prior's size, and gamma stays a number in f32, in which the Langevin step multiplies.
/// States with 50 measurements and more were seen to reach 1e29.
pub const MOST: f64 = 1e36;

/// Weighs the likelihood score against the prior score. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GammaArgs {
    /// `[states, len]`
    pub prior: Global<f32>,
    /// `[states, len]`
    pub likelihood: Global<f32>,
    /// `[states]`
    pub gamma: Global<f64>,
    /// The factor xi, or gamma itself if `adaptive` is 0.
    pub factor: f64,
    /// 1 if gamma follows the norms, 0 if it is constant.
    pub adaptive: u32,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for GammaArgs {
    fn kernel(&self) -> &'static str {
        "gamma"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state. `factor` is xi, or gamma itself if it is constant.
pub fn gamma(prior: &[f32], likelihood: &[f32], factor: f64, adaptive: bool) -> f64 {
    let squares = |values: &[f32]| values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>();
    rule(squares(prior), squares(likelihood), factor, adaptive)
}

/// gamma from the squared norms.
#[inline(always)]
fn rule(prior: f64, likelihood: f64, factor: f64, adaptive: bool) -> f64 {
    if likelihood == 0.0 {
        0.0
    } else if adaptive {
        let gamma = factor * prior.root() / likelihood.root();
        if gamma > MOST { MOST } else { gamma }
    } else {
        factor
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_GAMMA", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn gamma(args: GammaArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let (mut prior, mut likelihood) = (0.0, 0.0);
            let mut element = thread();
            while element < args.len {
                let at = state * args.len as usize + element as usize;
                let (p, l) = (f64::from(args.prior.read(at)), f64::from(args.likelihood.read(at)));
                prior = p.fma(p, prior);
                likelihood = l.fma(l, likelihood);
                element += block_threads();
            }
            let prior = block_sum(prior, scratch());
            let likelihood = block_sum(likelihood, scratch());
            if thread() == 0 {
                args.gamma
                    .store(state, rule(prior, likelihood, args.factor, args.adaptive != 0));
            }
        }
    }
}

//! x += level²·prior, except for frozen states and where the score is not finite.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// The final denoising. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DenoiseArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// `[states, len]`
    pub prior: Global<f32>,
    /// `[states]`
    pub frozen: Global<u32>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for DenoiseArgs {
    fn kernel(&self) -> &'static str {
        "denoise"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state.
pub fn denoise(beta: f64, prior: &[f32], frozen: u32, x: &mut [f32]) {
    let beta2 = (beta * beta) as f32;
    if frozen == 0 && prior.iter().all(|s| s.is_finite()) {
        for (x, s) in x.iter_mut().zip(prior) {
            *x += beta2 * s;
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_DENOISE", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn denoise(args: DenoiseArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let (prior, x) = (
                args.prior.from(state * args.len as usize),
                args.x.from(state * args.len as usize),
            );
            let mut broken = 0.0;
            let mut element = thread();
            while element < args.len {
                if !prior.read(element as usize).is_finite() {
                    broken = 1.0;
                }
                element += block_threads();
            }
            if block_sum(broken, scratch()) != 0.0 || args.frozen.read(state) != 0 {
                return;
            }
            let beta = args.level.read(state);
            let beta2 = (beta * beta) as f32;
            let mut element = thread();
            while element < args.len {
                let at = element as usize;
                x.store(at, x.load(at) + beta2 * prior.read(at));
                element += block_threads();
            }
        }
    }
}

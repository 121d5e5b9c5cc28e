//! The score of a network in the frame of [`precondition`](super::precondition), from its output and what went in, as a state `[channels, pixels]`.

use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
use crate::network::precondition::{Parametrisation, Precondition};

/// Takes the prior score out of the network. A thread writes one element.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StoreMixedArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// What was denoised, `[states, channels, pixels]`
    pub x: Global<f32>,
    /// Feature map
    pub input: Global<f32>,
    /// `[states, channels, pixels]`
    pub score: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Height times width.
    pub pixels: u32,
    /// The code of the [`Parametrisation`].
    pub kind: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for StoreMixedArgs {
    fn kernel(&self) -> &'static str {
        "store_mixed"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.states * self.channels * self.pixels)
    }
}

/// The twin: one state.
pub fn store_mixed(kind: Parametrisation, x: &[f32], input: &[f32], level: f64, channels: usize, score: &mut [f32]) {
    let precondition = Precondition::new(kind, level);
    let pixels = score.len() / channels;
    for (c, (score, x)) in score.chunks_exact_mut(pixels).zip(x.chunks_exact(pixels)).enumerate() {
        let plane = &input[c / BLOCK * pixels * BLOCK..];
        for ((score, x), pixel) in score.iter_mut().zip(x).zip(plane.chunks_exact(BLOCK)) {
            *score = precondition.score(*x, pixel[c % BLOCK]);
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::global_thread;
    use crate::network::feature_map::in_feature_map;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn store_mixed(args: StoreMixedArgs) {
        let at = global_thread();
        if at >= args.states * args.channels * args.pixels {
            return;
        }
        // SAFETY: an image has channels and pixels.
        let (state, from) = unsafe { in_feature_map(at, args.channels, args.pixels) };
        // SAFETY: the state and the element are there; each thread has its own.
        unsafe {
            let precondition = Precondition::new(Parametrisation::of(args.kind), args.level.read(state as usize));
            let (x, f) = (args.x.read(at as usize), args.input.read(from as usize));
            args.score.store(at as usize, precondition.score(x, f));
        }
    }
}

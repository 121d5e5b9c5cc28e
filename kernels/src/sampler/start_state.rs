//! x ~ U(0, 1), and no state is frozen.

use super::StateKey;
use crate::global::Global;
use crate::launch::{Arguments, Launch};
use crate::philox::Domain;

/// Starts every state of the batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StartStateArgs {
    /// `[states]`
    pub keys: Global<StateKey>,
    /// `[states, len]`
    pub x: Global<f32>,
    /// `[states]`, set to 0
    pub frozen: Global<u32>,
    /// The run's seed.
    pub seed: u64,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for StartStateArgs {
    fn kernel(&self) -> &'static str {
        "start_state"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.len.div_ceil(4).div_ceil(crate::launch::THREADS), self.states)
    }
}

/// The twin: one state.
pub fn start_state(seed: u64, key: StateKey, x: &mut [f32], frozen: &mut u32) {
    *frozen = 0;
    key.stream(seed, Domain::Start, 0).fill_uniforms(0, x);
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};
    use crate::philox::uniform;
    use crate::sampler::langevin::Four;

    /// A thread makes the four values of one Philox block.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn start_state(args: StartStateArgs) {
        // SAFETY: the launch gives a state and a quarter of its elements to each thread.
        unsafe {
            let (state, quarter) = (block_y() as usize, global_thread());
            if quarter == 0 {
                args.frozen.store(state, 0);
            }
            let Some(four) = Four::of(state, quarter, args.len) else {
                return;
            };
            let words = args.keys.key(state).stream(args.seed, Domain::Start, 0).words(quarter);
            four.store(args.x, words.map(uniform));
        }
    }
}

//! Elements by their places: a choice of rows, the way back, which leaves 0 in the others' places, and permutations.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// In an index: no element, 0.
pub const NOTHING: u32 = u32::MAX;

/// output_i = input_(index_i). A thread takes an element.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PickArgs {
    /// `[states, from]`
    pub input: Global<f64>,
    /// `[to]`: places in the input, or [`NOTHING`]
    pub index: Global<u32>,
    /// `[states, to]`
    pub output: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// Elements of an input.
    pub from: u32,
    /// Elements of an output.
    pub to: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for PickArgs {
    fn kernel(&self) -> &'static str {
        "pick"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.to.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state.
pub fn pick(input: &[f64], index: &[u32], output: &mut [f64]) {
    for (output, &index) in output.iter_mut().zip(index) {
        *output = if index == NOTHING { 0.0 } else { input[index as usize] };
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn pick(args: PickArgs) {
        let (state, at) = (block_y() as usize, global_thread());
        if at >= args.to {
            return;
        }
        // SAFETY: the launch gives a state and an element to each thread; an index is a place of the input.
        unsafe {
            let index = args.index.read(at as usize);
            let value = if index == NOTHING {
                0.0
            } else {
                args.input.read(state * args.from as usize + index as usize)
            };
            args.output.store(state * args.to as usize + at as usize, value);
        }
    }
}

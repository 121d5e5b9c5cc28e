//! The noise level of every state is the step's.

use super::step::StepTable;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Writes the level. A thread takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SetLevelArgs {
    /// The current step gives beta.
    pub steps: StepTable,
    /// `[states]`
    pub level: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for SetLevelArgs {
    fn kernel(&self) -> &'static str {
        "set_level"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.states)
    }
}

/// The twin: the whole batch.
pub fn set_level(beta: f64, level: &mut [f64]) {
    level.fill(beta);
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::global_thread;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn set_level(args: SetLevelArgs) {
        let state = global_thread();
        if state >= args.states {
            return;
        }
        // SAFETY: the launch gives a state to each thread.
        unsafe { args.level.store(state as usize, args.steps.now().beta) }
    }
}

//! Sites that say nothing yet: where EP that carries them on begins.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// Empties the sites of every state. A thread takes a cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpResetArgs {
    /// `[states, measurements]`
    pub site_z: Global<f64>,
    /// `[states, measurements]`
    pub h_g: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// EP's iterations, `[states]`
    pub count: Global<u32>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpResetArgs {
    fn kernel(&self) -> &'static str {
        "ep_reset"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state. Returns tau^G and the number of iterations.
pub fn ep_reset(site_z: &mut [f64], h_g: &mut [f64]) -> (f64, u32) {
    site_z.fill(0.0);
    h_g.fill(0.0);
    (0.0, 0)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_reset(args: EpResetArgs) {
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let (state, cell) = (block_y() as usize, global_thread());
            if cell >= args.measurements {
                return;
            }
            let at = state * args.measurements as usize + cell as usize;
            args.site_z.store(at, 0.0);
            args.h_g.store(at, 0.0);
            if cell == 0 {
                args.tau_g.store(state, 0.0);
                args.count.store(state, 0);
            }
        }
    }
}

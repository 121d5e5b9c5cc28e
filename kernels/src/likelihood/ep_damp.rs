//! The cells' new messages mixed with the old ones: undamped, EP diverges for correlated A.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// h^G and tau^G become damping·new + (1 − damping)·old where EP works. A thread takes a cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpDampArgs {
    /// `[states]`
    pub live: Global<u32>,
    /// `[states, 2]`: the damping first
    pub pace: Global<f64>,
    /// `[states, measurements]`
    pub new_h_g: Global<f64>,
    /// `[states]`
    pub new_tau_g: Global<f64>,
    /// `[states, measurements]`
    pub h_g: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpDampArgs {
    fn kernel(&self) -> &'static str {
        "ep_damp"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state on which EP works.
pub fn ep_damp(damping: f64, new_h_g: &[f64], new_tau_g: f64, h_g: &mut [f64], tau_g: &mut f64) {
    for (h_g, &new) in h_g.iter_mut().zip(new_h_g) {
        *h_g = mixed(damping, new, *h_g);
    }
    *tau_g = mixed(damping, new_tau_g, *tau_g);
}

#[inline(always)]
fn mixed(damping: f64, new: f64, old: f64) -> f64 {
    damping * new + (1.0 - damping) * old
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_damp(args: EpDampArgs) {
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let (state, cell) = (block_y() as usize, global_thread());
            if cell >= args.measurements || args.live.read(state) == 0 {
                return;
            }
            let (at, damping) = (
                state * args.measurements as usize + cell as usize,
                args.pace.read(2 * state),
            );
            args.h_g
                .store(at, mixed(damping, args.new_h_g.read(at), args.h_g.load(at)));
            if cell == 0 {
                let tau_g = mixed(damping, args.new_tau_g.read(state), args.tau_g.load(state));
                args.tau_g.store(state, tau_g);
            }
        }
    }
}

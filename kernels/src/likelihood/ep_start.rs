//! h^F = 0, and tau^F as the configuration says.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// Starts EP for every state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpStartArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// `[states, measurements]`
    pub h_f: Global<f64>,
    /// `[states]`
    pub tau_f: Global<f64>,
    /// sigma², the variance of the measurements' noise.
    pub sigma2: f64,
    /// The mean of diag(A·Aᵀ).
    pub mean_diag: f64,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
    /// 1: tau^F matches the mean variance of z + n; 0: tau^F is 1.
    pub matched: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for EpStartArgs {
    fn kernel(&self) -> &'static str {
        "ep_start"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state. `matched` gives sigma² and the mean of diag(A·Aᵀ).
pub fn ep_start(beta: f64, matched: Option<(f64, f64)>, h_f: &mut [f64], tau_f: &mut f64) {
    h_f.fill(0.0);
    *tau_f = matched.map_or(1.0, |(sigma2, mean_diag)| 1.0 / (sigma2 + beta * beta * mean_diag));
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_start(args: EpStartArgs) {
        // SAFETY: the launch gives a state and an element to each thread.
        unsafe {
            let (state, element) = (block_y() as usize, global_thread());
            if element < args.measurements {
                args.h_f
                    .store(state * args.measurements as usize + element as usize, 0.0);
            }
            if element == 0 {
                let beta = args.level.read(state);
                let matched = 1.0 / (args.sigma2 + beta * beta * args.mean_diag);
                args.tau_f.store(state, if args.matched != 0 { matched } else { 1.0 });
            }
        }
    }
}

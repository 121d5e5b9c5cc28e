//! g_m of the paper's pseudo-likelihood score: sqrt(tau^F) times the mean of the standard normal in the cell.

use super::Message;
use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};
use crate::truncated_normal;

/// The gradient with respect to z, for every cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpGradientArgs {
    /// Bounds of the cells, `[states, measurements]`
    pub lower: Global<f64>,
    /// `[states, measurements]`
    pub upper: Global<f64>,
    /// A·x, `[states, measurements]`
    pub z: Global<f64>,
    /// `[states, measurements]`
    pub h_f: Global<f64>,
    /// `[states]`
    pub tau_f: Global<f64>,
    /// `[states, measurements]`
    pub g: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpGradientArgs {
    fn kernel(&self) -> &'static str {
        "ep_gradient"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state.
#[inline(always)]
pub fn ep_gradient(lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]) {
    let message = Message::new(tau_f);
    for (i, g) in g.iter_mut().enumerate() {
        *g = cell(message, z[i], h_f[i], lower[i], upper[i]);
    }
}

/// One cell.
#[inline(always)]
pub(super) fn cell(message: Message, z: f64, h: f64, lower: f64, upper: f64) -> f64 {
    let (l, u) = message.bounds(z, h, lower, upper);
    message.s * truncated_normal::mean(l, u)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_gradient(args: EpGradientArgs) {
        let (state, index) = (block_y() as usize, global_thread());
        if index >= args.measurements {
            return;
        }
        let at = state * args.measurements as usize + index as usize;
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let message = Message::new(args.tau_f.read(state));
            let (lower, upper) = (args.lower.read(at), args.upper.read(at));
            args.g
                .store(at, cell(message, args.z.read(at), args.h_f.read(at), lower, upper));
        }
    }
}

//! g_m under the diagonal of C_t⁻¹ = sigma²·I + beta²·A·Aᵀ and no message: QCS-SGM.

use super::Message;
use super::ep_gradient::cell;
use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// The gradient with respect to z, for every cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DiagGradientArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// diag(A·Aᵀ), `[measurements]`
    pub diag: Global<f64>,
    /// Bounds of the cells, `[states, measurements]`
    pub lower: Global<f64>,
    /// `[states, measurements]`
    pub upper: Global<f64>,
    /// A·x, `[states, measurements]`
    pub z: Global<f64>,
    /// `[states, measurements]`
    pub g: Global<f64>,
    /// sigma², the variance of the measurements' noise.
    pub sigma2: f64,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for DiagGradientArgs {
    fn kernel(&self) -> &'static str {
        "diag_gradient"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state.
#[inline(always)]
pub fn diag_gradient(sigma2: f64, beta: f64, diag: &[f64], lower: &[f64], upper: &[f64], z: &[f64], g: &mut [f64]) {
    for (i, g) in g.iter_mut().enumerate() {
        *g = cell(message(sigma2, beta, diag[i]), z[i], 0.0, lower[i], upper[i]);
    }
}

#[inline(always)]
fn message(sigma2: f64, beta: f64, diag: f64) -> Message {
    Message::new(1.0 / (sigma2 + beta * beta * diag))
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn diag_gradient(args: DiagGradientArgs) {
        let (state, index) = (block_y() as usize, global_thread());
        if index >= args.measurements {
            return;
        }
        let at = state * args.measurements as usize + index as usize;
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let message = message(args.sigma2, args.level.read(state), args.diag.read(index as usize));
            let (lower, upper) = (args.lower.read(at), args.upper.read(at));
            args.g.store(at, cell(message, args.z.read(at), 0.0, lower, upper));
        }
    }
}

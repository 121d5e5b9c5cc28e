//! Node b in the eigenbasis, with D = 1/(sigma² + beta²·lambda) and w = 1/(tau^G + D):
//! h^F = m^b/chi^b − h^G becomes (w/chi^b − 1)∘h^G, and tau^F = 1/chi^b − tau^G becomes mean(D·w)/chi^b; neither cancels.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// The message from node b, for every state. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpSeparateArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// Eigenvalues of A·Aᵀ, `[measurements]`
    pub eigenvalues: Global<f64>,
    /// Uᵀ·h^G, `[states, measurements]`
    pub input: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// Uᵀ·h^F, `[states, measurements]`
    pub output: Global<f64>,
    /// `[states]`
    pub tau_f: Global<f64>,
    /// sigma², the variance of the measurements' noise.
    pub sigma2: f64,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpSeparateArgs {
    fn kernel(&self) -> &'static str {
        "ep_separate"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state; returns tau^F.
pub fn ep_separate(sigma2: f64, beta: f64, eigenvalues: &[f64], input: &[f64], tau_g: f64, output: &mut [f64]) -> f64 {
    let (mut sum_w, mut sum_dw) = (0.0, 0.0);
    // A weight waits in the output for chi^b.
    for (output, &lambda) in output.iter_mut().zip(eigenvalues) {
        let (d, w) = weights(sigma2, beta, lambda, tau_g);
        sum_w += w;
        sum_dw += d * w;
        *output = w;
    }
    let chi_b = sum_w / eigenvalues.len() as f64;
    for (output, input) in output.iter_mut().zip(input) {
        *output = (*output / chi_b - 1.0) * input;
    }
    sum_dw / sum_w
}

/// D and w of one eigenvalue.
#[inline(always)]
fn weights(sigma2: f64, beta: f64, lambda: f64, tau_g: f64) -> (f64, f64) {
    let d = 1.0 / (sigma2 + beta * beta * lambda);
    (d, 1.0 / (tau_g + d))
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_EP_SEPARATE", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_separate(args: EpSeparateArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let (tau_g, beta) = (args.tau_g.read(state), args.level.read(state));
            let (mut sum_w, mut sum_dw) = (0.0, 0.0);
            let mut i = thread();
            while i < args.measurements {
                let (d, w) = weights(args.sigma2, beta, args.eigenvalues.read(i as usize), tau_g);
                sum_w += w;
                sum_dw += d * w;
                i += block_threads();
            }
            let sum_w = block_sum(sum_w, scratch());
            let sum_dw = block_sum(sum_dw, scratch());
            let chi_b = sum_w / f64::from(args.measurements);
            let mut i = thread();
            while i < args.measurements {
                let at = state * args.measurements as usize + i as usize;
                let (_, w) = weights(args.sigma2, beta, args.eigenvalues.read(i as usize), tau_g);
                args.output.store(at, (w / chi_b - 1.0) * args.input.load(at));
                i += block_threads();
            }
            if thread() == 0 {
                args.tau_f.store(state, sum_dw / sum_w);
            }
        }
    }
}

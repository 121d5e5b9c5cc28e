//! A state begins: mu and nu are mean and variance of the data, and EP has no sites.

use super::Scalars;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Starts the states that have no step behind them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboStartArgs {
    /// `[states]`
    pub steps: Global<u32>,
    /// The mean image, `[len]`
    pub mean: Global<f32>,
    /// `[states, len]`
    pub mu: Global<f32>,
    /// sqrt(nu), `[states]`
    pub level: Global<f64>,
    /// `[states, measurements]`
    pub site_z: Global<f64>,
    /// `[states, measurements]`
    pub h_g: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// `[states, 6]`
    pub scalars: Global<f64>,
    /// `[states]`
    pub done: Global<u32>,
    /// EP's iterations, `[states]`
    pub count: Global<u32>,
    /// Standard deviation of the data about their mean.
    pub deviation: f64,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
    /// M.
    pub measurements: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboStartArgs {
    fn kernel(&self) -> &'static str {
        "turbo_start"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state that begins. Returns sqrt(nu), tau^G and the numbers.
pub fn turbo_start(
    mean: &[f32],
    deviation: f64,
    mu: &mut [f32],
    site_z: &mut [f64],
    h_g: &mut [f64],
) -> (f64, f64, Scalars) {
    mu.copy_from_slice(mean);
    site_z.fill(0.0);
    h_g.fill(0.0);
    (deviation, 0.0, Scalars::START)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_threads, thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_start(args: TurboStartArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            if args.steps.read(state) != 0 {
                return;
            }
            let mut i = thread();
            while i < args.len {
                let at = state * args.len as usize + i as usize;
                args.mu.store(at, args.mean.read(i as usize));
                i += block_threads();
            }
            let mut i = thread();
            while i < args.measurements {
                let at = state * args.measurements as usize + i as usize;
                args.site_z.store(at, 0.0);
                args.h_g.store(at, 0.0);
                i += block_threads();
            }
            if thread() == 0 {
                args.level.store(state, args.deviation);
                args.tau_g.store(state, 0.0);
                Scalars::START.store(args.scalars, state);
                args.done.store(state, 0);
                args.count.store(state, 0);
            }
        }
    }
}

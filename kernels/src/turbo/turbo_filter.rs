//! The measurements as a linear filter: EP's sites make them A·x + N(0, w) with w = sigma² + 1/tau^G, and the score of x under
//! N(mu, nu·I) is Aᵀ·U·(Uᵀ(y − A·mu)/(nu·lambda + w)), where y − A·mu = h^G/tau^G.
//!
//! With the filter's eigenvalues h = lambda/(nu·lambda + w), the extrinsic message has mean mu + score/q and variance
//! (1 − nu·q)/q, q = Σh/N. 1 − nu·q is summed without cancellation: (Σ w/(nu·lambda + w) + N − M)/N.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Filters every state's sites. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TurboFilterArgs {
    /// Eigenvalues of A·Aᵀ, `[measurements]`
    pub eigenvalues: Global<f64>,
    /// sqrt(nu), `[states]`
    pub level: Global<f64>,
    /// Uᵀ·h^G, `[states, measurements]`
    pub input: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// `[states, measurements]`
    pub output: Global<f64>,
    /// `[states, 3]`: q, the largest h, and the standard deviation of the extrinsic message
    pub filter: Global<f64>,
    /// sigma², the variance of the measurements' noise.
    pub sigma2: f64,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
    /// N.
    pub len: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for TurboFilterArgs {
    fn kernel(&self) -> &'static str {
        "turbo_filter"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state. Returns q, the largest h, and the standard deviation.
pub fn turbo_filter(
    eigenvalues: &[f64],
    sigma2: f64,
    level: f64,
    len: usize,
    input: &[f64],
    tau_g: f64,
    output: &mut [f64],
) -> [f64; 3] {
    let (nu, w) = (level * level, sigma2 + 1.0 / tau_g);
    let mut sums = Sums::default();
    for ((output, &input), &lambda) in output.iter_mut().zip(input).zip(eigenvalues) {
        *output = sums.add(nu, w, lambda, input, tau_g);
    }
    sums.filter(len as f64, eigenvalues.len() as f64)
}

/// Over the eigenvalues.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Σ h
    h: f64,
    /// Σ w/(nu·lambda + w)
    rest: f64,
    /// max h
    most: f64,
}

impl Sums {
    /// Adds an eigenvalue; gives its element of the filtered vector.
    #[inline(always)]
    fn add(&mut self, nu: f64, w: f64, lambda: f64, input: f64, tau_g: f64) -> f64 {
        let denominator = nu.fma(lambda, w);
        let h = lambda / denominator;
        self.h += h;
        self.rest += w / denominator;
        if h > self.most {
            self.most = h;
        }
        input / tau_g / denominator
    }

    #[inline(always)]
    fn filter(self, n: f64, m: f64) -> [f64; 3] {
        let q = self.h / n;
        [q, self.most, ((self.rest + n - m) / n / q).root()]
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_max, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_TURBO_FILTER", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn turbo_filter(args: TurboFilterArgs) {
        // SAFETY: the launch gives a state to each block.
        unsafe {
            let state = block() as usize;
            let (level, tau_g) = (args.level.read(state), args.tau_g.read(state));
            let (nu, w) = (level * level, args.sigma2 + 1.0 / tau_g);
            let mut sums = Sums::default();
            let mut i = thread();
            while i < args.measurements {
                let at = state * args.measurements as usize + i as usize;
                let lambda = args.eigenvalues.read(i as usize);
                args.output
                    .store(at, sums.add(nu, w, lambda, args.input.read(at), tau_g));
                i += block_threads();
            }
            let sums = Sums {
                h: block_sum(sums.h, scratch()),
                rest: block_sum(sums.rest, scratch()),
                most: block_max(sums.most, scratch()),
            };
            if thread() == 0 {
                let [q, most, deviation] = sums.filter(f64::from(args.len), f64::from(args.measurements));
                args.filter.store(3 * state, q);
                args.filter.store(3 * state + 1, most);
                args.filter.store(3 * state + 2, deviation);
            }
        }
    }
}

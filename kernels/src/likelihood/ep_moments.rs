//! Moments of the cells under N(h^F/tau^F, 1/tau^F): h^G = m^a/chi^a − h^F, tau^G = 1/chi^a − tau^F.
//!
//! Two kernels: the moments of each cell with the sums of their variances over blocks of cells, then, with chi^a known,
//! the messages.

use super::Message;
use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};
use crate::truncated_normal;

/// tau^G never falls below this: a negative precision is no message.
const TAU_G_FLOOR: f64 = 1e-6;

/// chi^a never falls below this: cells narrower than the float spacing have variance 0.
const CHI_FLOOR: f64 = 1e-300;

/// Cells of one block. Few, because a cell is several hundred instructions and a batch may be a single state.
const CELLS: u32 = 128;

/// Sums of variances that [`EpMomentsArgs`] needs room for, per state.
pub const fn partial_sums(measurements: usize) -> usize {
    measurements.div_ceil(CELLS as usize)
}

/// m^a of every cell, and the sum of the variances of each block of cells.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpMomentsArgs {
    /// `[states]`, or none: only states where it is not 0 are computed
    pub live: Global<u32>,
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
    /// m^a, `[states, measurements]`
    pub m_a: Global<f64>,
    /// `[states, partial_sums(measurements)]`
    pub variances: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpMomentsArgs {
    fn kernel(&self) -> &'static str {
        "ep_moments"
    }
    fn launch(&self) -> Launch {
        Launch {
            grid: [self.measurements.div_ceil(CELLS), self.states],
            threads: CELLS,
        }
    }
}

/// The messages, from m^a in place.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpMessagesArgs {
    /// `[states]`, or none: only states where it is not 0 are computed
    pub live: Global<u32>,
    /// `[states, measurements]`
    pub h_f: Global<f64>,
    /// `[states]`
    pub tau_f: Global<f64>,
    /// `[states, partial_sums(measurements)]`
    pub variances: Global<f64>,
    /// `[states, measurements]`, on entry m^a
    pub h_g: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpMessagesArgs {
    fn kernel(&self) -> &'static str {
        "ep_messages"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin of both kernels: one state; returns tau^G.
#[inline(always)]
pub fn ep_moments(lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, h_g: &mut [f64]) -> f64 {
    let message = Message::new(tau_f);
    let mut variances = 0.0;
    for (i, m_a) in h_g.iter_mut().enumerate() {
        let cell = Cell::of(message, z[i], h_f[i], lower[i], upper[i]);
        *m_a = cell.m_a;
        variances += cell.variance;
    }
    let chi_a = chi_a(variances, z.len() as u32, tau_f);
    for (h_g, h_f) in h_g.iter_mut().zip(h_f) {
        *h_g = *h_g / chi_a - h_f;
    }
    tau_g(chi_a, tau_f)
}

/// m^a of a cell, and its variance in units of 1/tau^F.
struct Cell {
    m_a: f64,
    variance: f64,
}

impl Cell {
    #[inline(always)]
    fn of(message: Message, z: f64, h: f64, lower: f64, upper: f64) -> Self {
        let (l, u) = message.bounds(z, h, lower, upper);
        let moments = truncated_normal::moments(l, u);
        Self {
            m_a: h / message.tau + moments.mean / message.s,
            variance: moments.variance,
        }
    }
}

#[inline(always)]
fn chi_a(variances: f64, measurements: u32, tau_f: f64) -> f64 {
    let mean = variances / f64::from(measurements);
    // Written so that a NaN stays.
    (if mean < CHI_FLOOR { CHI_FLOOR } else { mean }) / tau_f
}

#[inline(always)]
fn tau_g(chi_a: f64, tau_f: f64) -> f64 {
    let tau = 1.0 / chi_a - tau_f;
    if tau < TAU_G_FLOOR { TAU_G_FLOOR } else { tau }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_y, global_thread, launch_bounds, shared_memory, thread};

    shared_memory!(scratch, "QCS_EP_MOMENTS", 32);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_moments(args: EpMomentsArgs) {
        launch_bounds::<CELLS, 8>();
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let (state, cell) = (block_y() as usize, global_thread());
            if args.live.is_some() && args.live.read(state) == 0 {
                return;
            }
            let mut variance = 0.0;
            if cell < args.measurements {
                let at = state * args.measurements as usize + cell as usize;
                let message = Message::new(args.tau_f.read(state));
                let (lower, upper) = (args.lower.read(at), args.upper.read(at));
                let cell = Cell::of(message, args.z.read(at), args.h_f.read(at), lower, upper);
                args.m_a.store(at, cell.m_a);
                variance = cell.variance;
            }
            let sum = block_sum(variance, scratch());
            if thread() == 0 {
                let partial = state * partial_sums(args.measurements as usize) + block() as usize;
                args.variances.store(partial, sum);
            }
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_messages(args: EpMessagesArgs) {
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let (state, cell) = (block_y() as usize, global_thread());
            if cell >= args.measurements || args.live.is_some() && args.live.read(state) == 0 {
                return;
            }
            // Every thread adds the same few numbers: cheaper than a kernel that does it once.
            let count = partial_sums(args.measurements as usize);
            let mut variances = 0.0;
            let mut partial = 0;
            while partial < count {
                variances += args.variances.read(state * count + partial);
                partial += 1;
            }
            let tau_f = args.tau_f.read(state);
            let chi_a = chi_a(variances, args.measurements, tau_f);
            let at = state * args.measurements as usize + cell as usize;
            args.h_g.store(at, args.h_g.load(at) / chi_a - args.h_f.read(at));
            if cell == 0 {
                args.tau_g.store(state, tau_g(chi_a, tau_f));
            }
        }
    }
}

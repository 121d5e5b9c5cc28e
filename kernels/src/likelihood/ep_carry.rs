//! EP goes on from the sites of an earlier round, at another A·x: a site N(y, 1/tau^G) of A·x + n is kept as
//! h^G = tau^G·(y − z), so h^G moves with z. Sites that have never been set are tau^G = 0.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// The damping of a round's messages, where there are older ones to mix them with.
pub const DAMPING: f64 = 0.5;

/// Takes the sites of every state over to its new z. A thread takes a cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpCarryArgs {
    /// `[states]`: EP works on the states where it is 0
    pub resting: Global<u32>,
    /// A·x, `[states, measurements]`
    pub z: Global<f64>,
    /// The A·x of the sites, `[states, measurements]`; afterwards `z`
    pub site_z: Global<f64>,
    /// `[states, measurements]`
    pub h_g: Global<f64>,
    /// `[states]`
    pub tau_g: Global<f64>,
    /// `[states]`: 1 where EP works
    pub live: Global<u32>,
    /// `[states, 2]`: the damping, and the change of the last iteration
    pub pace: Global<f64>,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpCarryArgs {
    fn kernel(&self) -> &'static str {
        "ep_carry"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.measurements.div_ceil(THREADS), self.states)
    }
}

/// The twin: one state. Returns whether EP works on it, and its pace.
pub fn ep_carry(resting: u32, z: &[f64], site_z: &mut [f64], h_g: &mut [f64], tau_g: f64) -> (u32, [f64; 2]) {
    if resting == 0 {
        for ((h_g, site_z), &z) in h_g.iter_mut().zip(site_z).zip(z) {
            *h_g = moved(*h_g, tau_g, *site_z, z);
            *site_z = z;
        }
    }
    (u32::from(resting == 0), pace(tau_g))
}

#[inline(always)]
fn moved(h_g: f64, tau_g: f64, from: f64, to: f64) -> f64 {
    h_g + tau_g * (from - to)
}

/// The first messages of all are not mixed with anything.
#[inline(always)]
fn pace(tau_g: f64) -> [f64; 2] {
    [if tau_g == 0.0 { 1.0 } else { DAMPING }, f64::INFINITY]
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_carry(args: EpCarryArgs) {
        // SAFETY: the launch gives a state and a cell to each thread.
        unsafe {
            let (state, cell) = (block_y() as usize, global_thread());
            if cell >= args.measurements {
                return;
            }
            let (resting, tau_g) = (args.resting.read(state), args.tau_g.read(state));
            if resting == 0 {
                let at = state * args.measurements as usize + cell as usize;
                let z = args.z.read(at);
                args.h_g
                    .store(at, moved(args.h_g.load(at), tau_g, args.site_z.load(at), z));
                args.site_z.store(at, z);
            }
            if cell == 0 {
                let [damping, change] = pace(tau_g);
                args.live.store(state, if resting == 0 { 1 } else { 0 });
                args.pace.store(2 * state, damping);
                args.pace.store(2 * state + 1, change);
            }
        }
    }
}

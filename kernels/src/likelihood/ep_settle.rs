//! Node b's new message is taken over, and how far it moved says whether EP goes on and how much it is damped.

use super::ep_carry::DAMPING;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// The damping never falls below this.
const LEAST_DAMPING: f64 = 0.1;
/// What the damping falls by where the change grows.
const SHORTER: f64 = 0.7;

/// Takes h^F and tau^F over where EP works. A block takes a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpSettleArgs {
    /// `[states, measurements]`
    pub new_h_f: Global<f64>,
    /// `[states]`
    pub new_tau_f: Global<f64>,
    /// `[states, measurements]`
    pub h_g: Global<f64>,
    /// `[states, measurements]`
    pub h_f: Global<f64>,
    /// `[states]`
    pub tau_f: Global<f64>,
    /// `[states, 2]`: the damping, and the change of the last iteration
    pub pace: Global<f64>,
    /// `[states]`: set to 0 where the change is below the tolerance
    pub live: Global<u32>,
    /// `[states]`: iterations so far
    pub count: Global<u32>,
    /// The change below which EP has settled.
    pub tolerance: f64,
    /// States of the batch.
    pub states: u32,
    /// M.
    pub measurements: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for EpSettleArgs {
    fn kernel(&self) -> &'static str {
        "ep_settle"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.states, 1)
    }
}

/// The twin: one state on which EP works. Returns whether it goes on.
pub fn ep_settle(
    new_h_f: &[f64],
    new_tau_f: f64,
    h_g: &[f64],
    h_f: &mut [f64],
    tau_f: &mut f64,
    pace: &mut [f64; 2],
    tolerance: f64,
) -> bool {
    let (mut moved, mut size) = (0.0, 0.0);
    for ((&new, old), &h_g) in new_h_f.iter().zip(h_f).zip(h_g) {
        (moved, size) = add((moved, size), new, *old, h_g);
        *old = new;
    }
    let change = change(moved, size, new_tau_f, *tau_f);
    *tau_f = new_tau_f;
    *pace = next_pace(*pace, change);
    change > tolerance
}

/// Adds a cell to the squares of the movement and of both messages: the one of node b alone is 0 where A is row-orthogonal.
#[inline(always)]
fn add((moved, size): (f64, f64), new: f64, old: f64, h_g: f64) -> (f64, f64) {
    let by = new - old;
    (by.fma(by, moved), h_g.fma(h_g, new.fma(new, size)))
}

#[inline(always)]
fn change(moved: f64, size: f64, new_tau_f: f64, tau_f: f64) -> f64 {
    let by = new_tau_f / tau_f - 1.0;
    (moved / (size + 1e-300)).root() + if by < 0.0 { -by } else { by }
}

#[inline(always)]
fn next_pace([damping, last]: [f64; 2], change: f64) -> [f64; 2] {
    let damping = if damping > DAMPING {
        DAMPING
    } else if change > last {
        let shorter = SHORTER * damping;
        if shorter < LEAST_DAMPING {
            LEAST_DAMPING
        } else {
            shorter
        }
    } else {
        damping
    };
    [damping, change]
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block, block_sum, block_threads, shared_memory, thread};

    shared_memory!(scratch, "QCS_EP_SETTLE", 64);

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ep_settle(args: EpSettleArgs) {
        // SAFETY: the launch gives a state to each block; all of its threads see the same flag.
        unsafe {
            let state = block() as usize;
            if args.live.load(state) == 0 {
                return;
            }
            let first = state * args.measurements as usize;
            let mut sums = (0.0, 0.0);
            let mut i = thread();
            while i < args.measurements {
                let at = first + i as usize;
                let new = args.new_h_f.read(at);
                sums = add(sums, new, args.h_f.load(at), args.h_g.read(at));
                args.h_f.store(at, new);
                i += block_threads();
            }
            let moved = block_sum(sums.0, scratch());
            let size = block_sum(sums.1, scratch());
            if thread() == 0 {
                let new_tau_f = args.new_tau_f.read(state);
                let change = change(moved, size, new_tau_f, args.tau_f.load(state));
                let pace = [args.pace.load(2 * state), args.pace.load(2 * state + 1)];
                let [damping, last] = next_pace(pace, change);
                args.tau_f.store(state, new_tau_f);
                args.pace.store(2 * state, damping);
                args.pace.store(2 * state + 1, last);
                args.live.store(state, if change > args.tolerance { 1 } else { 0 });
                args.count.store(state, args.count.load(state) + 1);
            }
        }
    }
}

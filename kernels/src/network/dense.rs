//! A dense layer on a vector per state: what a network makes of the level's embedding.

use super::activation::silu;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Multiplies every state's vector by a matrix. A warp takes one output of a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DenseArgs {
    /// `[states, inputs]`
    pub input: Global<f32>,
    /// `[outputs, inputs]`
    pub weights: Global<f32>,
    /// `[outputs]`
    pub bias: Global<f32>,
    /// `[states, outputs]`
    pub output: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// Of the layer.
    pub inputs: u32,
    /// Of the layer.
    pub outputs: u32,
    /// 1 if the result passes SiLU.
    pub silu: u32,
}

/// Outputs that a block of threads computes.
const WARPS: u32 = 8;

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for DenseArgs {
    fn kernel(&self) -> &'static str {
        "dense"
    }
    fn launch(&self) -> Launch {
        Launch::blocks((self.states * self.outputs).div_ceil(WARPS), 1)
    }
}

/// A sum and its bias, and what becomes of them.
#[inline(always)]
fn finish(sum: f64, bias: f32, with_silu: bool) -> f32 {
    let value = (sum + f64::from(bias)) as f32;
    if with_silu { silu(value) } else { value }
}

/// The twin: one state.
pub fn dense(input: &[f32], weights: &[f32], bias: &[f32], with_silu: bool, output: &mut [f32]) {
    for ((output, row), &bias) in output.iter_mut().zip(weights.chunks_exact(input.len())).zip(bias) {
        let terms = row.iter().zip(input).map(|(&w, &x)| f64::from(w) * f64::from(x));
        *output = finish(terms.sum(), bias, with_silu);
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{WARP, divide, global_thread, thread, warp_sum};
    use crate::float::Float;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn dense(args: DenseArgs) {
        let warp = global_thread() / WARP;
        // A warp is of one mind: no lane of it goes on alone.
        if warp >= args.states * args.outputs {
            return;
        }
        // SAFETY: the layer has outputs, and every lane its inputs.
        unsafe {
            let (state, row) = divide(warp, args.outputs);
            let (input, weights) = (
                args.input.from(state as usize * args.inputs as usize),
                args.weights.from(row as usize * args.inputs as usize),
            );
            let (mut sum, mut at) = (0.0, thread() % WARP);
            while at < args.inputs {
                sum = f64::from(weights.read(at as usize)).fma(f64::from(input.read(at as usize)), sum);
                at += WARP;
            }
            let sum = warp_sum(sum);
            if thread() % WARP == 0 {
                let value = finish(sum, args.bias.read(row as usize), args.silu != 0);
                args.output.store(warp as usize, value);
            }
        }
    }
}

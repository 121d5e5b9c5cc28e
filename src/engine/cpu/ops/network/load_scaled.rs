//! From states to feature maps scaled for their noise levels: the kernel's twin for each state.

use qcs_kernels::network::load_scaled::load_scaled as load_state;
use qcs_kernels::network::padded;

use crate::engine::cpu::threads::Threads;

pub fn load_scaled(
    threads: &mut Threads,
    x: &[f32],
    level: &[f64],
    channels: usize,
    pixels: usize,
    output: &mut [f32],
) {
    let len = channels * pixels;
    threads.for_each(output, padded(channels + 1) * pixels, &|state, output| {
        load_state(&x[state * len..][..len], level[state], channels, output);
    });
}

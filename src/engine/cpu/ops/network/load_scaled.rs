//! From states to feature maps scaled for their noise levels: the kernel's twin for each state.

use qcs_kernels::network::load_scaled::load_scaled as load_state;
use qcs_kernels::network::padded;
use qcs_kernels::network::precondition::Parametrisation;

use crate::engine::cpu::threads::Threads;

/// `wide` is what the feature map has, the channel that says the level included.
pub fn load_scaled(
    threads: &mut Threads,
    kind: Parametrisation,
    x: &[f32],
    level: &[f64],
    (channels, wide): (usize, usize),
    pixels: usize,
    output: &mut [f32],
) {
    let len = channels * pixels;
    threads.for_each(output, padded(wide) * pixels, &|state, output| {
        let x = &x[state * len..][..len];
        load_state(kind, x, level[state], channels, wide > channels, output);
    });
}

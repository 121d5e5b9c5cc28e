//! From a feature map and what went into the network to the prior score: the kernel's twin for each state.

use qcs_kernels::network::padded;
use qcs_kernels::network::precondition::Parametrisation;
use qcs_kernels::network::store_mixed::store_mixed as store_state;

use crate::engine::cpu::threads::Threads;

#[allow(clippy::too_many_arguments)] // the operands of an op
pub fn store_mixed(
    threads: &mut Threads,
    kind: Parametrisation,
    x: &[f32],
    input: &[f32],
    channels: usize,
    pixels: usize,
    level: &[f64],
    score: &mut [f32],
) {
    let (len, map) = (channels * pixels, padded(channels) * pixels);
    threads.for_each(score, len, &|state, score| {
        let (x, input) = (&x[state * len..][..len], &input[state * map..][..map]);
        store_state(kind, x, input, level[state], channels, score);
    });
}

//! From a feature map to the prior score: the kernel's twin for each state.

use qcs_kernels::network::padded;
use qcs_kernels::network::store_score::store_score as store_state;

use crate::engine::cpu::threads::Threads;

pub fn store_score(
    threads: &mut Threads,
    input: &[f32],
    channels: usize,
    pixels: usize,
    level: &[f64],
    score: &mut [f32],
) {
    let map = padded(channels) * pixels;
    threads.for_each(score, channels * pixels, &|state, score| {
        store_state(&input[state * map..][..map], level[state], channels, score);
    });
}

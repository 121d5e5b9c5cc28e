//! From a feature map to the prior score.

use super::BLOCK;
use crate::engine::cpu::threads::Threads;

/// The feature map divided by the noise level of its state, from blocks to `[channels, pixels]`.
pub fn store_score(
    threads: &mut Threads,
    input: &[f32],
    channels: usize,
    pixels: usize,
    level: &[f64],
    score: &mut [f32],
) {
    let blocks = channels.div_ceil(BLOCK);
    threads.for_each(score, pixels, &|index, plane| {
        let (image, c) = (index / channels, index % channels);
        let source = &input[(image * blocks + c / BLOCK) * pixels * BLOCK..][..pixels * BLOCK];
        let level = level[image] as f32;
        for (to, from) in plane.iter_mut().zip(source.chunks_exact(BLOCK)) {
            *to = from[c % BLOCK] / level;
        }
    });
}

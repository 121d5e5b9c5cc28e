//! 2x − 1, from states to feature maps.

use super::BLOCK;
use crate::engine::cpu::threads::Threads;

/// 2x − 1 from `[channels, pixels]` to blocks; padding channels are 0.
pub fn load_image(threads: &mut Threads, x: &[f32], channels: usize, pixels: usize, output: &mut [f32]) {
    let blocks = channels.div_ceil(BLOCK);
    threads.for_each(output, pixels * BLOCK, &|index, plane| {
        let (image, block) = (index / blocks, index % blocks);
        plane.fill(0.0);
        for c in block * BLOCK..channels.min((block + 1) * BLOCK) {
            let source = &x[(image * channels + c) * pixels..][..pixels];
            for (pixel, &value) in source.iter().enumerate() {
                plane[pixel * BLOCK + c % BLOCK] = 2.0 * value - 1.0;
            }
        }
    });
}

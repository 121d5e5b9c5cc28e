//! 2x − 1, from states to feature maps: the kernel's twin for each state.

use qcs_kernels::network::load_image::load_image as load_state;
use qcs_kernels::network::padded;

use crate::engine::cpu::threads::Threads;

pub fn load_image(threads: &mut Threads, x: &[f32], channels: usize, pixels: usize, output: &mut [f32]) {
    threads.for_each(output, padded(channels) * pixels, &|state, output| {
        load_state(&x[state * channels * pixels..][..channels * pixels], channels, output);
    });
}

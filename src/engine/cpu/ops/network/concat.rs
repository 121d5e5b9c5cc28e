//! Two maps as one: the kernel's twin for each image.

use qcs_kernels::network::concat::concat as concat_image;

use crate::engine::cpu::threads::Threads;

pub fn concat(threads: &mut Threads, first: &[f32], second: &[f32], batch: usize, output: &mut [f32]) {
    let (one, two) = (first.len() / batch, second.len() / batch);
    threads.for_each(output, one + two, &|image, output| {
        concat_image(&first[image * one..][..one], &second[image * two..][..two], output);
    });
}

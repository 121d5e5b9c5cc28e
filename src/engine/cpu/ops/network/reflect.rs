//! States of another size, continued by reflection or cut: the kernel's twin for each plane.

use qcs_kernels::network::reflect::reflect as reflect_plane;

use crate::engine::cpu::threads::Threads;

pub fn reflect(
    threads: &mut Threads,
    input: &[f32],
    from: (usize, usize),
    (height, width): (usize, usize),
    output: &mut [f32],
) {
    let plane = from.0 * from.1;
    threads.for_each(output, height * width, &|index, output| {
        reflect_plane(&input[index * plane..][..plane], from, width, output);
    });
}

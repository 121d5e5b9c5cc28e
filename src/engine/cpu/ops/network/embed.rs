//! The levels as the network is told them: the kernel's twin for each state.

use qcs_kernels::network::embed::{Told, embed as embed_state};

use crate::engine::cpu::threads::Threads;

pub fn embed(
    threads: &mut Threads,
    told: Told,
    cosines_first: bool,
    level: &[f64],
    frequencies: &[f32],
    table: &[f32],
    output: &mut [f32],
) {
    threads.for_each(output, frequencies.len(), &|state, output| {
        embed_state(told, level[state], frequencies, table, cosines_first, output);
    });
}

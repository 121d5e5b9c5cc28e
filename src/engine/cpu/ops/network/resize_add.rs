//! Bilinear resize.

use qcs_kernels::network::resize_add::neighbours;

use super::BLOCK;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn resize_add(&mut self, input: TensorId, addend: Option<TensorId>, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (from, to, addend) = (at.size(input), at.size(output), addend.map(|a| at.read(a)));
        resize_add(
            self.threads,
            self.isa,
            at.read(input),
            from,
            addend,
            to,
            at.write(output),
        );
    }
}

/// Bilinear resize with aligned corners, plus the addend.
fn resize_add(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    from: (usize, usize),
    addend: Option<&[f32]>,
    to: (usize, usize),
    output: &mut [f32],
) {
    let (source, target) = (from.0 * from.1 * BLOCK, to.0 * to.1 * BLOCK);
    threads.for_each(output, target, &|index, output| {
        let input = &input[index * source..(index + 1) * source];
        let addend = addend.map(|a| &a[index * target..(index + 1) * target]);
        dispatch!(isa, resize_plane(
            input: &[f32], from: (usize, usize), addend: Option<&[f32]>, to: (usize, usize), output: &mut [f32]
        ));
    });
}

#[inline(always)]
fn resize_plane<F: F32x8, D: F64x4>(
    input: &[f32],
    from: (usize, usize),
    addend: Option<&[f32]>,
    to: (usize, usize),
    output: &mut [f32],
) {
    if let (true, Some(addend)) = (from == to, addend) {
        let pairs = input.chunks_exact(BLOCK).zip(addend.chunks_exact(BLOCK));
        for (pixel, (a, b)) in output.chunks_exact_mut(BLOCK).zip(pairs) {
            F::load(a).add(F::load(b)).store(pixel);
        }
        return;
    }
    for (row, pixels) in output.chunks_exact_mut(to.1 * BLOCK).enumerate() {
        let (y, y1, fy) = between(row, from.0, to.0);
        let (upper, lower) = (&input[y * from.1 * BLOCK..], &input[y1 * from.1 * BLOCK..]);
        for (column, pixel) in pixels.chunks_exact_mut(BLOCK).enumerate() {
            let start = addend.map_or(F::splat(0.0), |a| F::load(&a[(row * to.1 + column) * BLOCK..]));
            let (x, x1, fx) = between(column, from.1, to.1);
            let load = |row: &[f32], x: usize| F::load(&row[x * BLOCK..]);
            let mix = |a: F, b: F, f: f32| b.sub(a).mul_add(F::splat(f), a);
            let above = mix(load(upper, x), load(upper, x1), fx);
            let below = mix(load(lower, x), load(lower, x1), fx);
            mix(above, below, fy).add(start).store(pixel);
        }
    }
}

#[inline(always)]
fn between(at: usize, from: usize, to: usize) -> (usize, usize, f32) {
    let (first, second, weight) = neighbours(at as u32, from as u32, to as u32);
    (first as usize, second as usize, weight)
}

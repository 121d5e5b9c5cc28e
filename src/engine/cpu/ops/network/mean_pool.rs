//! 2×2 mean.

use super::BLOCK;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn mean_pool(&mut self, input: TensorId, residual: Option<TensorId>, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (size, residual) = (at.size(input), residual.map(|r| at.read(r)));
        mean_pool(self.threads, self.isa, at.read(input), residual, size, at.write(output));
    }
}

/// 2×2 mean, stride 2, plus the residual.
fn mean_pool(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    residual: Option<&[f32]>,
    (height, width): (usize, usize),
    output: &mut [f32],
) {
    let (plane, quarter) = (height * width * BLOCK, height * width * BLOCK / 4);
    threads.for_each(output, quarter, &|index, output| {
        let input = &input[index * plane..(index + 1) * plane];
        let residual = residual.map(|r| &r[index * quarter..(index + 1) * quarter]);
        dispatch!(isa, mean_pool_plane(input: &[f32], residual: Option<&[f32]>, width: usize, output: &mut [f32]));
    });
}

#[inline(always)]
fn mean_pool_plane<F: F32x8, D: F64x4>(input: &[f32], residual: Option<&[f32]>, width: usize, output: &mut [f32]) {
    let pitch = width * BLOCK;
    for (at, to) in output.chunks_exact_mut(BLOCK).enumerate() {
        let (y, x) = (at / (width / 2), at % (width / 2));
        let top = &input[2 * y * pitch + 2 * x * BLOCK..];
        let pixel = |offset: usize| F::load(&top[offset..]);
        let sum = pixel(0).add(pixel(BLOCK)).add(pixel(pitch).add(pixel(pitch + BLOCK)));
        let start = residual.map_or(F::splat(0.0), |r| F::load(&r[at * BLOCK..]));
        sum.mul_add(F::splat(0.25), start).store(to);
    }
}

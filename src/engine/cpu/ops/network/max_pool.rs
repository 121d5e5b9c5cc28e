//! 5×5 maximum.

use std::ops::Range;

use super::BLOCK;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::TensorId;

impl CpuSession<'_> {
    pub(super) fn max_pool(&mut self, input: TensorId, scratch: Range<usize>, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (size, rows) = (at.size(input), at.scratch(scratch));
        max_pool(self.threads, self.isa, at.read(input), size, rows, at.write(output));
    }
}

/// 5×5 maximum, stride 1, borders ignored: first along rows, into `scratch`, then along columns.
fn max_pool(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    (height, width): (usize, usize),
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let plane = height * width * BLOCK;
    threads.for_each2((scratch, plane), (output, plane), &|index, rows, output| {
        let input = &input[index * plane..(index + 1) * plane];
        dispatch!(isa, max_pool_plane(input: &[f32], width: usize, rows: &mut [f32], output: &mut [f32]));
    });
}

#[inline(always)]
fn max_pool_plane<F: F32x8, D: F64x4>(input: &[f32], width: usize, rows: &mut [f32], output: &mut [f32]) {
    let pitch = width * BLOCK;
    for (from, to) in input.chunks_exact(pitch).zip(rows.chunks_exact_mut(pitch)) {
        for (x, to) in to.chunks_exact_mut(BLOCK).enumerate() {
            let window = &from[x.saturating_sub(2) * BLOCK..(x + 3).min(width) * BLOCK];
            max_of::<F>(window.chunks_exact(BLOCK)).store(to);
        }
    }
    let height = rows.len() / pitch;
    for (y, to) in output.chunks_exact_mut(pitch).enumerate() {
        let window = &rows[y.saturating_sub(2) * pitch..(y + 3).min(height) * pitch];
        for (x, to) in to.chunks_exact_mut(BLOCK).enumerate() {
            max_of::<F>(window.chunks_exact(pitch).map(|row| &row[x * BLOCK..])).store(to);
        }
    }
}

#[inline(always)]
fn max_of<'a, F: F32x8>(values: impl Iterator<Item = &'a [f32]>) -> F {
    values.fold(F::splat(f32::NEG_INFINITY), |m, v| m.max(F::load(v)))
}

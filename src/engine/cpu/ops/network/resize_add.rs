//! Bilinear resize.

use super::BLOCK;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;

/// Bilinear resize with aligned corners, plus the addend.
pub fn resize_add(
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
        dispatch!(isa, resize_plane(input: &[f32], from: (usize, usize), addend: Option<&[f32]>, to: (usize, usize), output: &mut [f32]));
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
        let (y, y1, fy) = corner(row, from.0, to.0);
        let (upper, lower) = (&input[y * from.1 * BLOCK..], &input[y1 * from.1 * BLOCK..]);
        for (column, pixel) in pixels.chunks_exact_mut(BLOCK).enumerate() {
            let start = addend.map_or(F::splat(0.0), |a| F::load(&a[(row * to.1 + column) * BLOCK..]));
            let (x, x1, fx) = corner(column, from.1, to.1);
            let load = |row: &[f32], x: usize| F::load(&row[x * BLOCK..]);
            let mix = |a: F, b: F, f: f32| b.sub(a).mul_add(F::splat(f), a);
            let above = mix(load(upper, x), load(upper, x1), fx);
            let below = mix(load(lower, x), load(lower, x1), fx);
            mix(above, below, fy).add(start).store(pixel);
        }
    }
}

/// The two source positions around a target position, and the weight of the second.
#[inline(always)]
fn corner(at: usize, from: usize, to: usize) -> (usize, usize, f32) {
    if from == to || to == 1 {
        return (at.min(from - 1), at.min(from - 1), 0.0);
    }
    let position = at as f32 * ((from - 1) as f32 / (to - 1) as f32);
    let first = (position as usize).min(from - 1);
    (first, (first + 1).min(from - 1), position - first as f32)
}

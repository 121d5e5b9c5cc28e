//! The filters of a layer, as they lie in memory and as the products want them.

#![allow(clippy::needless_range_loop)] // with iterators the compiler keeps arrays of vectors in memory

use qcs_kernels::network::conv::winograd::IN;

use super::product::Form;
use super::{BLOCK, FREQUENCIES, WIDE, apart};
use crate::engine::cpu::simd::{F32x16, Floats, prefetch};

/// Input channels whose filters are asked for ahead of their use: they come from memory, or from a cache far away.
const AHEAD: usize = 4;
/// Taps of a filter.
pub(super) const TAPS: usize = 9;
/// Input blocks whose filters are transformed at a time: for 32 output channels 288 KiB, which leave room for the inputs in an L2 cache of a
/// megabyte.
pub(super) const CHUNK: usize = 8;

/// Output channels that are computed together, in vectors of sixteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its first vector among all.
    pub first: usize,
    pub vectors: usize,
    /// Where its filters start.
    pub weights: usize,
}

/// Pairs of vectors; three at a time if that divides an odd number, and once to end one.
fn groups(vectors: usize) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut first = 0;
    while first < vectors {
        let left = vectors - first;
        let vectors = match left {
            1 | 2 => left,
            _ if left % 2 == 1 => 3,
            _ => 2,
        };
        groups.push(Group {
            first,
            vectors,
            weights: 0,
        });
        first += vectors;
    }
    groups
}

/// Filters in the order in which they are transformed: `[group][in channel][tap][out channel of the group]`.
pub struct Packed {
    pub(super) weights: Vec<f32>,
    /// Of whole vectors
    pub(super) bias: Vec<f32>,
    pub(super) groups: Vec<Group>,
}

impl Packed {
    /// From `[out, in, 3, 3]` and `[out]`.
    pub fn new(weight: &[f32], mut bias: Vec<f32>, outputs: usize, inputs: usize) -> Self {
        let in_channels = inputs.next_multiple_of(BLOCK);
        let vectors = outputs.div_ceil(WIDE);
        bias.resize(vectors * WIDE, 0.0);
        let mut weights = vec![0.0; packed_len(in_channels / BLOCK, vectors * WIDE / BLOCK) - bias.len()];
        let mut groups = groups(vectors);
        let mut start = 0;
        for group in &mut groups {
            group.weights = start;
            let width = group.vectors * WIDE;
            let first = group.first * WIDE;
            for o in first..(first + width).min(outputs) {
                for (i, filter) in weight[o * inputs * TAPS..][..inputs * TAPS]
                    .chunks_exact(TAPS)
                    .enumerate()
                {
                    for (tap, &value) in filter.iter().enumerate() {
                        weights[start + (i * TAPS + tap) * width + o - first] = value;
                    }
                }
            }
            start += in_channels * TAPS * width;
        }
        Self { weights, bias, groups }
    }
}

/// Floats of packed filters and the bias.
pub fn packed_len(in_blocks: usize, out_blocks: usize) -> usize {
    (TAPS * in_blocks * BLOCK + 1) * out_blocks.div_ceil(2) * WIDE
}

/// G·g·Gᵀ of the filters of some input channels, `[in channel][tap][out channel]`, as `[frequency][in channel][out channel]`.
///
/// G's rows are whole numbers times a factor, and the two factors are multiplied with last: of filters in f16 all before that is exact or
/// nearly so.
#[inline(always)]
pub(super) fn transform_filters<V: F32x16, B: Form, const W: usize>(packed: &[f32], filters: &mut [f32]) {
    let together = BLOCK / B::FLOATS;
    let channel = TAPS * W * WIDE;
    let stride = apart(packed.len() / (TAPS * together));
    let filters = &mut filters[..FREQUENCIES * stride];
    for (at, taps) in packed.chunks_exact(together * channel).enumerate() {
        prefetch(packed, (at + AHEAD) * together * channel, together * channel);
        for vector in 0..W {
            let first = columns::<V, W>(&taps[vector * WIDE..]);
            let at = (at * W + vector) * WIDE;
            assert!(filters.len() >= (FREQUENCIES - 1) * stride + at + WIDE);
            let mut leave = |i: usize, j: usize, value: V| {
                let at = at + (IN * i + j) * stride;
                // SAFETY: the last of the 36 was found to lie inside.
                value.store(unsafe { filters.get_unchecked_mut(at..at + WIDE) });
            };
            if together == 1 {
                for i in 0..IN {
                    let row = row(first, i);
                    for j in 0..IN {
                        leave(i, j, row[j]);
                    }
                }
            } else {
                let second = columns::<V, W>(&taps[channel + vector * WIDE..]);
                for i in 0..IN {
                    let (first, second) = (row(first, i), row(second, i));
                    for j in 0..IN {
                        leave(i, j, first[j].with_bf16(second[j]));
                    }
                }
            }
        }
    }
}

/// G·g of a filter's three columns, without the factors of G's rows.
#[inline(always)]
fn columns<V: F32x16, const W: usize>(taps: &[f32]) -> [[V; IN]; 3] {
    let taps: [V; TAPS] = load_all(taps, W * WIDE);
    [
        times_g([taps[0], taps[3], taps[6]]),
        times_g([taps[1], taps[4], taps[7]]),
        times_g([taps[2], taps[5], taps[8]]),
    ]
}

/// Row i of G·g·Gᵀ.
#[inline(always)]
fn row<V: F32x16>(columns: [[V; IN]; 3], i: usize) -> [V; IN] {
    const FACTOR: [f32; IN] = [1.0 / 4.0, -1.0 / 6.0, -1.0 / 6.0, 1.0 / 24.0, 1.0 / 24.0, 1.0];
    let mut row = times_g([columns[0][i], columns[1][i], columns[2][i]]);
    for j in 0..IN {
        row[j] = row[j].mul(V::splat(FACTOR[i] * FACTOR[j]));
    }
    row
}

/// Vectors that lie `stride` apart.
#[inline(always)]
pub(super) fn load_all<V: F32x16, const N: usize>(from: &[f32], stride: usize) -> [V; N] {
    assert!(from.len() >= (N - 1) * stride + WIDE);
    let mut vectors = [V::splat(0.0); N];
    for (n, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the last was found to lie inside.
        *vector = V::load(unsafe { from.get_unchecked(n * stride..n * stride + WIDE) });
    }
    vectors
}

/// G·g, without the factors of its rows.
#[inline(always)]
fn times_g<F: Floats>([g0, g1, g2]: [F; 3]) -> [F; IN] {
    let (outer, far) = (g0.add(g2), g2.mul_add(F::splat(4.0), g0));
    let twice = g1.add(g1);
    [g0, outer.add(g1), outer.sub(g1), far.add(twice), far.sub(twice), g2]
}

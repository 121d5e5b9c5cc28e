//! The inner loop: one frequency's products of filters and inputs, summed over a chunk of input channels in registers.

#![allow(clippy::needless_range_loop)] // with iterators the compiler keeps arrays of vectors in memory

use super::{BLOCK, WIDE};
use crate::engine::cpu::simd::F32x16;

/// What is multiplied.
pub trait Form {
    /// Floats' room of a block of eight channels.
    const FLOATS: usize;
    /// filter·input + sum
    fn add_products<V: F32x16>(filter: V, input: V, sum: V) -> V;
}

/// f32
pub struct Whole;

impl Form for Whole {
    const FLOATS: usize = BLOCK;
    #[inline(always)]
    fn add_products<V: F32x16>(filter: V, input: V, sum: V) -> V {
        filter.mul_add(input, sum)
    }
}

/// bf16, two channels in the room of a float; sums are f32.
pub struct Bf16;

impl Form for Bf16 {
    const FLOATS: usize = BLOCK / 2;
    #[inline(always)]
    fn add_products<V: F32x16>(filter: V, input: V, sum: V) -> V {
        sum.add_bf16_products(filter, input)
    }
}

/// The products of one frequency with a chunk of input channels.
pub struct Product<'a> {
    /// `[in channel][out channel]`, in bf16 `[pair of in channels][out channel]`
    pub filters: &'a [f32],
    /// `[in block][tile][8 channels]`
    pub inputs: &'a [f32],
    /// Tiles.
    pub count: usize,
    /// Whether this is the first chunk: others go on with its sums.
    pub begins: bool,
}

impl Product<'_> {
    /// P tiles from `first`, W vectors of output channels.
    #[inline(always)]
    pub fn sum<V: F32x16, B: Form, const W: usize, const P: usize>(&self, first: usize, sums: &mut [f32]) {
        if W * P > V::SUMS {
            return; // never called: the sums would not fit the registers, and need not be compiled
        }
        let sums = &mut sums[first * W * WIDE..][..P * W * WIDE];
        let mut acc = [[V::splat(0.0); W]; P];
        if !self.begins {
            for p in 0..P {
                for n in 0..W {
                    acc[p][n] = V::load(&sums[(p * W + n) * WIDE..]);
                }
            }
        }
        let filters = self.filters.chunks_exact(B::FLOATS * W * WIDE);
        for (filters, inputs) in filters.zip(self.inputs.chunks_exact(self.count * B::FLOATS)) {
            let inputs = &inputs[first * B::FLOATS..][..P * B::FLOATS];
            for c in 0..B::FLOATS {
                let mut filter = [V::splat(0.0); W];
                for n in 0..W {
                    let at = (c * W + n) * WIDE;
                    // SAFETY: c and n are below FLOATS and W, and the chunk holds FLOATS·W vectors.
                    filter[n] = V::load(unsafe { filters.get_unchecked(at..at + WIDE) });
                }
                for p in 0..P {
                    // SAFETY: p and c are below P and FLOATS, which is the slice's size.
                    let value = V::splat(unsafe { *inputs.get_unchecked(p * B::FLOATS + c) });
                    for n in 0..W {
                        acc[p][n] = B::add_products(filter[n], value, acc[p][n]);
                    }
                }
            }
        }
        for p in 0..P {
            for n in 0..W {
                acc[p][n].store(&mut sums[(p * W + n) * WIDE..]);
            }
        }
    }
}

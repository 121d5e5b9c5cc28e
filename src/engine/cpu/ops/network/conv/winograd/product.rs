//! The inner loop: one frequency's products of filters and inputs, summed over a chunk of input channels in registers.

#![allow(clippy::needless_range_loop)] // with iterators the compiler keeps arrays of vectors in memory

use super::{BLOCK, WIDE};
use crate::engine::cpu::simd::F32x16;

/// The products of one frequency with a chunk of input channels.
pub struct Product<'a> {
    /// `[in channel][out channel]`
    pub filters: &'a [f32],
    /// `[in block][tile][8]`
    pub inputs: &'a [f32],
    /// Tiles.
    pub count: usize,
    /// Whether this is the first chunk: others go on with its sums.
    pub begins: bool,
}

impl Product<'_> {
    /// P tiles from `first`, W vectors of output channels.
    #[inline(always)]
    pub fn sum<V: F32x16, const W: usize, const P: usize>(&self, first: usize, sums: &mut [f32]) {
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
        let filters = self.filters.chunks_exact(BLOCK * W * WIDE);
        for (filters, inputs) in filters.zip(self.inputs.chunks_exact(self.count * BLOCK)) {
            let inputs = &inputs[first * BLOCK..][..P * BLOCK];
            for c in 0..BLOCK {
                let mut filter = [V::splat(0.0); W];
                for n in 0..W {
                    // SAFETY: c and n are below BLOCK and W, and the chunk holds BLOCK·W vectors.
                    filter[n] = V::load(unsafe { filters.get_unchecked((c * W + n) * WIDE..(c * W + n + 1) * WIDE) });
                }
                for p in 0..P {
                    // SAFETY: p and c are below P and BLOCK, which is the slice's size.
                    let value = V::splat(unsafe { *inputs.get_unchecked(p * BLOCK + c) });
                    for n in 0..W {
                        acc[p][n] = filter[n].mul_add(value, acc[p][n]);
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

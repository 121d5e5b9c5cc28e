//! Attention over the pixels of a map.
//!
//! First the keys are turned to `[channel][pixel]`, so that a vector holds a channel of eight keys. Then a task takes a few pixels of
//! one head: their products with all keys, softmax, and the sums of the values, which lie as they are needed. Every pixel's sums have
//! one order, whatever the task.

use std::ops::Range;

use super::BLOCK;
use crate::engine::cpu::memory::{Operands, Parts};
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch, exp_of_negative};
use crate::engine::cpu::threads::Threads;
use crate::plan::{Contents, TensorId};

impl CpuSession<'_> {
    pub(super) fn attention(&mut self, input: TensorId, heads: usize, scratch: Range<usize>, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let shape = AttentionShape::new(self.plan.batch, heads, self.plan.tensor(output).contents);
        let (input, scratch) = (at.read(input), at.scratch(scratch));
        attention(self.threads, self.isa, shape, input, scratch, at.write(output));
    }
}

/// Pixels whose products are made at a time: their sums stay in registers.
const QUERIES: usize = 4;

/// The shape of an attention.
#[derive(Clone, Copy)]
pub struct AttentionShape {
    pub batch: usize,
    /// Of q, of k and of v
    pub blocks: usize,
    pub heads: usize,
    pub pixels: usize,
}

impl AttentionShape {
    /// The shape of an op, from what its output is.
    pub fn new(batch: usize, heads: usize, output: Contents) -> Self {
        let (channels, height, width) = output.feature();
        Self {
            batch,
            blocks: channels / BLOCK,
            heads,
            pixels: height * width,
        }
    }

    /// Pixels rounded up to whole vectors.
    fn padded(&self) -> usize {
        self.pixels.next_multiple_of(BLOCK)
    }

    fn keys_len(&self) -> usize {
        self.batch * self.blocks * BLOCK * self.padded()
    }

    /// Floats of working memory: the turned keys, and the products of each thread.
    pub fn scratch_len(&self, threads: usize) -> usize {
        self.keys_len() + threads * QUERIES * self.padded()
    }
}

fn attention(
    threads: &mut Threads,
    isa: Isa,
    shape: AttentionShape,
    input: &[f32],
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let AttentionShape {
        blocks, heads, pixels, ..
    } = shape;
    let (plane, padded) = (pixels * BLOCK, shape.padded());
    let (keys, products) = scratch.split_at_mut(shape.keys_len());
    threads.for_each(keys, BLOCK * padded, &|index, turned| {
        let (image, block) = (index / blocks, index % blocks);
        let keys = &input[(image * 3 + 1) * blocks * plane + block * plane..][..plane];
        for (c, row) in turned.chunks_exact_mut(padded).enumerate() {
            row[pixels..].fill(0.0);
            for (to, key) in row.iter_mut().zip(keys.chunks_exact(BLOCK)) {
                *to = key[c];
            }
        }
    });
    let keys = &*keys;
    let groups = pixels.div_ceil(QUERIES);
    let (products, output) = (Parts::new(products), Parts::new(output));
    threads.run_on(shape.batch * heads * groups, &|thread, task| {
        let work = Work {
            shape,
            input,
            keys,
            image: task / (heads * groups),
            head: task / groups % heads,
            first: task % groups * QUERIES,
            output,
        };
        let size = QUERIES * padded;
        // SAFETY: each thread has its own piece, and runs one task at a time.
        let products = unsafe { products.part(thread * size..(thread + 1) * size) };
        let work = &work;
        dispatch!(isa, some_queries(work: &Work<'_>, products: &mut [f32]));
    });
}

/// One task: [`QUERIES`] pixels of a head, or those that are left.
struct Work<'a> {
    shape: AttentionShape,
    input: &'a [f32],
    /// `[image][channel][pixels padded]`
    keys: &'a [f32],
    image: usize,
    head: usize,
    first: usize,
    output: Parts<f32>,
}

#[inline(always)]
fn some_queries<F: F32x8, D: F64x4>(work: &Work<'_>, products: &mut [f32]) {
    let AttentionShape {
        blocks, heads, pixels, ..
    } = work.shape;
    let (plane, padded, of_head) = (pixels * BLOCK, work.shape.padded(), blocks / heads);
    let count = QUERIES.min(pixels - work.first);
    let at = (work.image * 3 * blocks + work.head * of_head) * plane;
    let (q, v) = (&work.input[at..], &work.input[at + 2 * blocks * plane..]);
    let keys = &work.keys[(work.image * blocks + work.head * of_head) * BLOCK * padded..];
    let query = |i: usize| (work.first + i.min(count - 1)) * BLOCK;
    let scale = 1.0 / ((of_head * BLOCK) as f32).sqrt();
    for key in (0..padded).step_by(BLOCK) {
        let mut sums = [F::splat(0.0); QUERIES];
        for block in 0..of_head {
            for c in 0..BLOCK {
                let k = F::load(&keys[(block * BLOCK + c) * padded + key..]);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = k.mul_add(F::splat(q[block * plane + query(i) + c]), *sum);
                }
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            sum.mul(F::splat(scale)).store(&mut products[i * padded + key..]);
        }
    }
    let mut shares = [0f32; QUERIES];
    for (row, share) in products.chunks_exact_mut(padded).zip(&mut shares) {
        *share = softmax::<F>(row, pixels);
    }
    for block in 0..of_head {
        let values = &v[block * plane..][..plane];
        let mut sums = [F::splat(0.0); QUERIES];
        for (key, value) in values.chunks_exact(BLOCK).enumerate() {
            let value = F::load(value);
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = value.mul_add(F::splat(products[i * padded + key]), *sum);
            }
        }
        let to = (work.image * blocks + work.head * of_head + block) * plane;
        for (i, sum) in sums.into_iter().enumerate().take(count) {
            let to = to + (work.first + i) * BLOCK;
            // SAFETY: a pixel of a head belongs to one task.
            sum.mul(F::splat(shares[i]))
                .store(unsafe { work.output.part(to..to + BLOCK) });
        }
    }
}

/// Turns products into weights, and gives one over their sum.
#[inline(always)]
fn softmax<F: F32x8>(products: &mut [f32], pixels: usize) -> f32 {
    // What fills up the last vector gets e^-87, nothing beside the 1 of the largest.
    products[pixels..].fill(f32::NEG_INFINITY);
    let mut most = F::splat(f32::NEG_INFINITY);
    for part in products.chunks_exact(BLOCK) {
        most = F::load(part).max(most);
    }
    let mut lanes = [0f32; BLOCK];
    most.store(&mut lanes);
    let most = F::splat(lanes.into_iter().fold(f32::NEG_INFINITY, f32::max));
    let mut total = F::splat(0.0);
    for part in products.chunks_exact_mut(BLOCK) {
        let weight = exp_of_negative(F::load(part).sub(most));
        total = total.add(weight);
        weight.store(part);
    }
    let mut lanes = [0f32; BLOCK];
    total.store(&mut lanes);
    1.0 / lanes.into_iter().sum::<f32>()
}

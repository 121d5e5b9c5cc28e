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

/// Pixels whose products are made at a time, with so many vectors of keys, or of values: their sums stay in registers, and are enough to
/// hide the time that one sum waits for the last.
const QUERIES: usize = 4;
const VECTORS: usize = 2;

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
    let queries = |block: usize, c: usize| std::array::from_fn(|i| q[block * plane + query(i) + c]);
    let channels = of_head * BLOCK;
    let wide = padded / (VECTORS * BLOCK) * VECTORS * BLOCK;
    for key in (0..wide).step_by(VECTORS * BLOCK) {
        products_of::<F, VECTORS>(keys, channels, padded, key, queries, scale, products);
    }
    for key in (wide..padded).step_by(BLOCK) {
        products_of::<F, 1>(keys, channels, padded, key, queries, scale, products);
    }
    let mut shares = [0f32; QUERIES];
    for (row, share) in products.chunks_exact_mut(padded).zip(&mut shares) {
        *share = softmax::<F>(row, pixels);
    }
    let store = |block: usize, sums: [F; QUERIES]| {
        let to = (work.image * blocks + work.head * of_head + block) * plane;
        for (i, sum) in sums.into_iter().enumerate().take(count) {
            let to = to + (work.first + i) * BLOCK;
            // SAFETY: a pixel of a head belongs to one task.
            sum.mul(F::splat(shares[i]))
                .store(unsafe { work.output.part(to..to + BLOCK) });
        }
    };
    let wide = of_head / VECTORS * VECTORS;
    for block in (0..wide).step_by(VECTORS) {
        let sums = sums_of::<F, VECTORS>(&v[block * plane..], plane, products, padded);
        sums.into_iter()
            .enumerate()
            .for_each(|(n, sums)| store(block + n, sums));
    }
    for block in wide..of_head {
        let [sums] = sums_of::<F, 1>(&v[block * plane..], plane, products, padded);
        store(block, sums);
    }
}

/// Products of some pixels with N vectors of keys, from `key` on; each sums over the channels of the head in their order.
#[inline(always)]
fn products_of<F: F32x8, const N: usize>(
    keys: &[f32],
    channels: usize,
    padded: usize,
    key: usize,
    queries: impl Fn(usize, usize) -> [f32; QUERIES],
    scale: f32,
    products: &mut [f32],
) {
    let mut sums = [[F::splat(0.0); QUERIES]; N];
    for channel in 0..channels {
        let row = &keys[channel * padded + key..][..N * BLOCK];
        let k: [F; N] = std::array::from_fn(|n| F::load(&row[n * BLOCK..]));
        for (i, query) in queries(channel / BLOCK, channel % BLOCK).into_iter().enumerate() {
            let query = F::splat(query);
            for n in 0..N {
                sums[n][i] = k[n].mul_add(query, sums[n][i]);
            }
        }
    }
    for (n, sums) in sums.into_iter().enumerate() {
        for (i, sum) in sums.into_iter().enumerate() {
            sum.mul(F::splat(scale))
                .store(&mut products[i * padded + key + n * BLOCK..]);
        }
    }
}

/// Sums of the values of N blocks of channels, weighted for some pixels; each sums over the keys in their order.
#[inline(always)]
fn sums_of<F: F32x8, const N: usize>(
    values: &[f32],
    plane: usize,
    products: &[f32],
    padded: usize,
) -> [[F; QUERIES]; N] {
    let mut sums = [[F::splat(0.0); QUERIES]; N];
    for key in 0..plane / BLOCK {
        let v: [F; N] = std::array::from_fn(|n| F::load(&values[n * plane + key * BLOCK..]));
        for i in 0..QUERIES {
            let weight = F::splat(products[i * padded + key]);
            for n in 0..N {
                sums[n][i] = v[n].mul_add(weight, sums[n][i]);
            }
        }
    }
    sums
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

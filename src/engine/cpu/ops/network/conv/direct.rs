//! Direct convolution: a tile of up to 12 vectors (pixels × channel blocks) stays in registers while the input channels of
//! a chunk and the taps run past it. The chunk is as large as leaves its weights in the L1 cache. Which tile computes a
//! pixel depends on the layer's shape only, and every pixel sums in the same order.

use super::{BLOCK, ConvShape, Group, groups};
use crate::engine::cpu::memory::Parts;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;

/// Input blocks whose weights are worked on at a time: 4 · 9 · 8 · 16 floats are 18 KiB.
const CHUNK: usize = 4;

/// Weights in the order in which the inner loop reads them: `[group][in block][tap][in channel][block of group][8]`.
pub struct Packed {
    weights: Vec<f32>,
    bias: Vec<f32>,
    groups: Vec<Group>,
}

impl Packed {
    /// From `[out, in, k, k]` and `[out]`.
    pub fn new(weight: &[f32], bias: Vec<f32>, outputs: usize, inputs: usize, kernel: usize) -> Self {
        let taps = kernel * kernel;
        let (in_blocks, out_blocks) = (inputs.div_ceil(BLOCK), outputs.div_ceil(BLOCK));
        let mut packed = Vec::with_capacity(in_blocks * out_blocks * BLOCK * BLOCK * taps);
        let mut groups = groups(out_blocks);
        for group in &mut groups {
            group.weights = packed.len();
            for tap_of_block in 0..in_blocks * taps {
                let (in_block, tap) = (tap_of_block / taps, tap_of_block % taps);
                for i in in_block * BLOCK..(in_block + 1) * BLOCK {
                    for o in group.first * BLOCK..(group.first + group.blocks) * BLOCK {
                        let there = i < inputs && o < outputs;
                        packed.push(if there {
                            weight[(o * inputs + i) * taps + tap]
                        } else {
                            0.0
                        });
                    }
                }
            }
        }
        Self {
            weights: packed,
            bias,
            groups,
        }
    }
}

/// output = conv(input) + bias + residual, for a zero-padded input.
pub fn conv(
    threads: &mut Threads,
    isa: Isa,
    shape: ConvShape,
    packed: &Packed,
    input: &[f32],
    residual: Option<&[f32]>,
    output: &mut [f32],
) {
    let groups = packed.groups.len();
    // Rows are cut into bands only as far as the threads need it; bands do not change any sum.
    let bands = (4 * threads.count()).div_ceil(shape.batch * groups).min(shape.height);
    let rows = shape.height.div_ceil(bands);
    let bands = shape.height.div_ceil(rows);
    let output = Parts::new(output);
    threads.run(shape.batch * groups * bands, &|task| {
        let (image, group, band) = (task / (groups * bands), task / bands % groups, task % bands);
        let work = Work {
            shape,
            packed,
            group: packed.groups[group],
            image,
            rows: (band * rows, ((band + 1) * rows).min(shape.height)),
            input,
            residual,
            output,
        };
        let work = &work;
        dispatch!(isa, rows_of_group(work: &Work<'_>));
    });
}

/// One task: some rows of one group of output channels of one image.
struct Work<'a> {
    shape: ConvShape,
    packed: &'a Packed,
    group: Group,
    image: usize,
    rows: (usize, usize),
    /// Padded
    input: &'a [f32],
    residual: Option<&'a [f32]>,
    output: Parts<f32>,
}

#[inline(always)]
fn rows_of_group<F: F32x8, D: F64x4>(work: &Work<'_>) {
    match work.group.blocks {
        1 => rows_of_blocks::<F, 1>(work),
        2 => rows_of_blocks::<F, 2>(work),
        _ => rows_of_blocks::<F, 3>(work),
    }
}

#[inline(always)]
fn rows_of_blocks<F: F32x8, const NB: usize>(work: &Work<'_>) {
    let shape = work.shape;
    let widest = 12 / NB;
    let tiles = shape.width.div_ceil(widest);
    for first in (0..shape.in_blocks).step_by(CHUNK) {
        let chunk = (first, (first + CHUNK).min(shape.in_blocks));
        for y in work.rows.0..work.rows.1 {
            for tile in 0..tiles {
                let x = tile * shape.width / tiles;
                let end = (tile + 1) * shape.width / tiles;
                match end - x {
                    12 => work.tile::<F, NB, 12>(chunk, y, x),
                    11 => work.tile::<F, NB, 11>(chunk, y, x),
                    10 => work.tile::<F, NB, 10>(chunk, y, x),
                    9 => work.tile::<F, NB, 9>(chunk, y, x),
                    8 => work.tile::<F, NB, 8>(chunk, y, x),
                    7 => work.tile::<F, NB, 7>(chunk, y, x),
                    6 => work.tile::<F, NB, 6>(chunk, y, x),
                    5 => work.tile::<F, NB, 5>(chunk, y, x),
                    4 => work.tile::<F, NB, 4>(chunk, y, x),
                    3 => work.tile::<F, NB, 3>(chunk, y, x),
                    2 => work.tile::<F, NB, 2>(chunk, y, x),
                    _ => work.tile::<F, NB, 1>(chunk, y, x),
                }
            }
        }
    }
}

impl Work<'_> {
    /// P pixels of row `y` from column `x`, NB blocks of output channels, summed over a chunk of input blocks.
    #[inline(always)]
    fn tile<F: F32x8, const NB: usize, const P: usize>(&self, chunk: (usize, usize), y: usize, x: usize) {
        if NB * P > 12 {
            return; // never called: the tile would not fit the registers, and need not be compiled
        }
        let shape = self.shape;
        let mut sums = self.start::<F, NB, P>(chunk.0 == 0, y, x);
        let (height, width) = shape.padded();
        let per_block = shape.kernel * shape.kernel * BLOCK * NB * BLOCK;
        for block in chunk.0..chunk.1 {
            let plane = (self.image * shape.in_blocks + block) * height * width;
            let weights = &self.packed.weights[self.group.weights + block * per_block..][..per_block];
            for (tap, weights) in weights.chunks_exact(BLOCK * NB * BLOCK).enumerate() {
                let (dy, dx) = (tap / shape.kernel, tap % shape.kernel);
                let at = plane + (y + dy * shape.dilation) * width + x + dx * shape.dilation;
                let pixels = &self.input[at * BLOCK..][..P * BLOCK];
                for c in 0..BLOCK {
                    let w: [F; NB] = std::array::from_fn(|n| F::load(&weights[(c * NB + n) * BLOCK..][..BLOCK]));
                    for p in 0..P {
                        let value = F::splat(pixels[p * BLOCK + c]);
                        for n in 0..NB {
                            sums[n][p] = w[n].mul_add(value, sums[n][p]);
                        }
                    }
                }
            }
        }
        self.finish(chunk.1 == shape.in_blocks, y, x, sums);
    }

    /// The bias, or what earlier chunks left in the output.
    #[inline(always)]
    fn start<F: F32x8, const NB: usize, const P: usize>(&self, first: bool, y: usize, x: usize) -> [[F; P]; NB] {
        std::array::from_fn(|n| {
            if first {
                let bias = F::load(&self.packed.bias[(self.group.first + n) * BLOCK..]);
                [bias; P]
            } else {
                let output = self.pixels::<P>(n, y, x);
                std::array::from_fn(|p| F::load(&output[p * BLOCK..]))
            }
        })
    }

    #[inline(always)]
    fn finish<F: F32x8, const NB: usize, const P: usize>(&self, last: bool, y: usize, x: usize, sums: [[F; P]; NB]) {
        for (n, sums) in sums.iter().enumerate() {
            let output = self.pixels::<P>(n, y, x);
            let residual = if last { self.residual } else { None };
            match residual {
                Some(residual) => {
                    let residual = &residual[self.offset(n, y, x)..][..P * BLOCK];
                    for (p, sum) in sums.iter().enumerate() {
                        sum.add(F::load(&residual[p * BLOCK..])).store(&mut output[p * BLOCK..]);
                    }
                }
                None => {
                    for (p, sum) in sums.iter().enumerate() {
                        sum.store(&mut output[p * BLOCK..]);
                    }
                }
            }
        }
    }

    fn offset(&self, block: usize, y: usize, x: usize) -> usize {
        let shape = self.shape;
        let plane = self.image * shape.out_blocks + self.group.first + block;
        ((plane * shape.height + y) * shape.width + x) * BLOCK
    }

    #[allow(clippy::mut_from_ref)] // tasks write disjoint images, groups and rows
    fn pixels<const P: usize>(&self, block: usize, y: usize, x: usize) -> &mut [f32] {
        let at = self.offset(block, y, x);
        // SAFETY: this task alone writes these rows of these blocks, and holds one such slice at a time.
        unsafe { self.output.part(at..at + P * BLOCK) }
    }
}

//! Direct convolution in the blocked layout.
//!
//! First the input is copied into a zero-padded plane, with its norm and ELU applied on the way. Then each task computes
//! some rows of a group of output channels: a tile of up to 12 vectors (pixels × channel blocks) stays in registers
//! while the input channels of a chunk and the taps run past it. The chunk is as large as leaves its weights in the L1
//! cache. Which tile computes a pixel depends on the layer's shape only, and every pixel sums in the same order.

use super::memory::Parts;
use super::simd::{F32x8, F64x4, Isa, dispatch, elu};
use super::threads::Threads;

/// Channels per block: one AVX2 register.
pub const BLOCK: usize = 8;

/// Input blocks whose weights are worked on at a time: 4 · 9 · 8 · 16 floats are 18 KiB.
const CHUNK: usize = 4;

/// The shape of one convolution, channels counted in blocks.
#[derive(Clone, Copy, Debug)]
pub struct ConvShape {
    pub batch: usize,
    pub in_blocks: usize,
    pub out_blocks: usize,
    pub height: usize,
    pub width: usize,
    pub kernel: usize,
    pub dilation: usize,
}

impl ConvShape {
    fn pad(&self) -> usize {
        self.dilation * (self.kernel / 2)
    }

    fn padded(&self) -> (usize, usize) {
        (self.height + 2 * self.pad(), self.width + 2 * self.pad())
    }

    /// Floats of the padded copy of the whole batch.
    pub fn scratch_len(&self) -> usize {
        let (height, width) = self.padded();
        self.batch * self.in_blocks * height * width * BLOCK
    }
}

/// Weights in the order in which the inner loop reads them: `[group][in block][tap][in channel][block of group][8]`.
pub struct PackedConv {
    weights: Vec<f32>,
    /// Zero where the layer has none.
    bias: Vec<f32>,
    groups: Vec<Group>,
}

/// Output blocks that are computed together.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    blocks: usize,
    weights: usize,
}

impl PackedConv {
    /// From `[out, in, k, k]` and `[out]`.
    pub fn new(weight: &[f32], bias: Option<&[f32]>, outputs: usize, inputs: usize, kernel: usize) -> Self {
        let taps = kernel * kernel;
        let (in_blocks, out_blocks) = (inputs.div_ceil(BLOCK), outputs.div_ceil(BLOCK));
        let mut packed = Vec::with_capacity(in_blocks * out_blocks * BLOCK * BLOCK * taps);
        let mut groups = Vec::new();
        let mut first = 0;
        while first < out_blocks {
            let blocks = group_size(out_blocks, first);
            groups.push(Group {
                first,
                blocks,
                weights: packed.len(),
            });
            for tap_of_block in 0..in_blocks * taps {
                let (in_block, tap) = (tap_of_block / taps, tap_of_block % taps);
                for i in in_block * BLOCK..(in_block + 1) * BLOCK {
                    for o in first * BLOCK..(first + blocks) * BLOCK {
                        let there = i < inputs && o < outputs;
                        packed.push(if there {
                            weight[(o * inputs + i) * taps + tap]
                        } else {
                            0.0
                        });
                    }
                }
            }
            first += blocks;
        }
        let mut padded_bias = vec![0.0; out_blocks * BLOCK];
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        Self {
            weights: packed,
            bias: padded_bias,
            groups,
        }
    }
}

/// Three blocks at a time if that divides an odd number of blocks, two otherwise, one for the rest.
fn group_size(out_blocks: usize, first: usize) -> usize {
    if out_blocks % 2 == 1 && out_blocks.is_multiple_of(3) {
        3
    } else {
        (out_blocks - first).min(2)
    }
}

/// What is done to the input on its way.
#[derive(Clone, Copy)]
pub enum Prologue<'a> {
    None,
    Elu,
    /// Per image `[2, in_blocks · 8]`: scale and shift
    NormElu(&'a [f32]),
}

/// output = conv(activation(input)) + bias + residual
#[allow(clippy::too_many_arguments)] // the operands of a convolution
pub fn conv(
    threads: &mut Threads,
    isa: Isa,
    shape: ConvShape,
    packed: &PackedConv,
    input: &[f32],
    prologue: Prologue<'_>,
    residual: Option<&[f32]>,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    pad(threads, isa, shape, input, prologue, scratch);
    let input: &[f32] = scratch;
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

/// Fills the zero-padded copy of the input, one task per image and block.
fn pad(threads: &mut Threads, isa: Isa, shape: ConvShape, input: &[f32], prologue: Prologue<'_>, scratch: &mut [f32]) {
    let (height, width) = shape.padded();
    let plane = shape.height * shape.width * BLOCK;
    threads.for_each(scratch, height * width * BLOCK, &|index, padded| {
        let source = &input[index * plane..(index + 1) * plane];
        let (image, block) = (index / shape.in_blocks, index % shape.in_blocks);
        let channels = shape.in_blocks * BLOCK;
        let coefficients = match prologue {
            Prologue::NormElu(all) => {
                let of_image = &all[image * 2 * channels..(image + 1) * 2 * channels];
                Some((&of_image[block * BLOCK..], &of_image[channels + block * BLOCK..]))
            }
            _ => None,
        };
        let activate = !matches!(prologue, Prologue::None);
        dispatch!(isa, pad_plane(shape: ConvShape, source: &[f32], coefficients: Option<(&[f32], &[f32])>, activate: bool, padded: &mut [f32]));
    });
}

#[inline(always)]
fn pad_plane<F: F32x8, D: F64x4>(
    shape: ConvShape,
    source: &[f32],
    coefficients: Option<(&[f32], &[f32])>,
    activate: bool,
    padded: &mut [f32],
) {
    let pad = shape.pad();
    let (_, width) = shape.padded();
    let row = shape.width * BLOCK;
    let margin = pad * BLOCK;
    let (top, rest) = padded.split_at_mut(pad * width * BLOCK);
    top.fill(0.0);
    let (middle, bottom) = rest.split_at_mut(shape.height * width * BLOCK);
    bottom.fill(0.0);
    let (scale, shift) = coefficients.map_or((F::splat(1.0), F::splat(0.0)), |(a, b)| (F::load(a), F::load(b)));
    for (from, to) in source.chunks_exact(row).zip(middle.chunks_exact_mut(width * BLOCK)) {
        to[..margin].fill(0.0);
        to[margin + row..].fill(0.0);
        let to = &mut to[margin..margin + row];
        if !activate {
            to.copy_from_slice(from);
        } else if coefficients.is_none() {
            for (from, to) in from.chunks_exact(BLOCK).zip(to.chunks_exact_mut(BLOCK)) {
                elu(F::load(from)).store(to);
            }
        } else {
            for (from, to) in from.chunks_exact(BLOCK).zip(to.chunks_exact_mut(BLOCK)) {
                elu(F::load(from).mul_add(scale, shift)).store(to);
            }
        }
    }
}

/// One task: some rows of one group of output channels of one image.
struct Work<'a> {
    shape: ConvShape,
    packed: &'a PackedConv,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: sums over input channels and taps in f64.
    fn plain(
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
        (inputs, outputs): (usize, usize),
        (height, width): (usize, usize),
        (kernel, dilation): (usize, usize),
    ) -> Vec<f64> {
        let mut y = vec![0.0; outputs * height * width];
        let pad = dilation * (kernel / 2);
        for (at, y) in y.iter_mut().enumerate() {
            let (o, row, column) = (at / (height * width), at / width % height, at % width);
            *y = f64::from(bias[o]);
            for i in 0..inputs {
                for tap in 0..kernel * kernel {
                    let (r, c) = (row + tap / kernel * dilation, column + tap % kernel * dilation);
                    if (pad..height + pad).contains(&r) && (pad..width + pad).contains(&c) {
                        let value = x[(i * height + r - pad) * width + c - pad];
                        *y += f64::from(value) * f64::from(weight[(o * inputs + i) * kernel * kernel + tap]);
                    }
                }
            }
        }
        y
    }

    fn block(x: &[f32], channels: usize, pixels: usize) -> Vec<f32> {
        let mut blocked = vec![0.0; channels.div_ceil(BLOCK) * BLOCK * pixels];
        for c in 0..channels {
            for p in 0..pixels {
                blocked[(c / BLOCK * pixels + p) * BLOCK + c % BLOCK] = x[c * pixels + p];
            }
        }
        blocked
    }

    fn random(len: usize, seed: usize) -> Vec<f32> {
        (0..len)
            .map(|i| ((i + seed) * 7919 % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    fn check(isa: Isa, channels: (usize, usize), size: (usize, usize), taps: (usize, usize), elu_first: bool) {
        let (inputs, outputs) = channels;
        let (pixels, taps_count) = (size.0 * size.1, taps.0 * taps.0);
        let x = random(inputs * pixels, 1);
        let weight = random(outputs * inputs * taps_count, 2);
        let bias = random(outputs, 3);
        let residual = random(outputs * pixels, 4);
        let activated: Vec<f32> = x
            .iter()
            .map(|&v| {
                if elu_first && v < 0.0 {
                    f64::from(v).exp_m1() as f32
                } else {
                    v
                }
            })
            .collect();
        let expected = plain(&activated, &weight, &bias, channels, size, taps);

        let shape = ConvShape {
            batch: 1,
            in_blocks: inputs.div_ceil(BLOCK),
            out_blocks: outputs.div_ceil(BLOCK),
            height: size.0,
            width: size.1,
            kernel: taps.0,
            dilation: taps.1,
        };
        let packed = PackedConv::new(&weight, Some(&bias), outputs, inputs, taps.0);
        let prologue = if elu_first { Prologue::Elu } else { Prologue::None };
        let mut scratch = vec![f32::NAN; shape.scratch_len()];
        let mut output = vec![f32::NAN; shape.out_blocks * BLOCK * pixels];
        let (input, added) = (block(&x, inputs, pixels), block(&residual, outputs, pixels));
        let mut threads = Threads::new(2);
        conv(
            &mut threads,
            isa,
            shape,
            &packed,
            &input,
            prologue,
            Some(&added),
            &mut scratch,
            &mut output,
        );

        let sum_of_terms = (inputs * taps_count + 2) as f64;
        for c in 0..shape.out_blocks * BLOCK {
            for p in 0..pixels {
                let value = f64::from(output[(c / BLOCK * pixels + p) * BLOCK + c % BLOCK]);
                let expected = match c < outputs {
                    true => expected[c * pixels + p] + f64::from(residual[c * pixels + p]),
                    false => 0.0,
                };
                // Each term is below 1 in size and is rounded once, as is each partial sum.
                assert!(
                    (value - expected).abs() < 1e-7 * sum_of_terms,
                    "{channels:?} {size:?} {taps:?} {c} {p}"
                );
            }
        }
    }

    #[test]
    fn every_shape_agrees_with_the_definition() {
        for isa in [Isa::detect(), Isa::Portable] {
            for channels in [(1, 8), (3, 16), (8, 24), (24, 24), (48, 40), (40, 1), (20, 3), (72, 17)] {
                check(isa, channels, (7, 13), (3, 1), true);
            }
            for size in [(1, 1), (2, 3), (14, 14), (5, 28), (3, 64), (4, 25)] {
                check(isa, (16, 24), size, (3, 1), false);
            }
            for taps in [(3, 1), (3, 2), (3, 4), (1, 1)] {
                check(isa, (12, 16), (6, 10), taps, true);
            }
        }
    }
}

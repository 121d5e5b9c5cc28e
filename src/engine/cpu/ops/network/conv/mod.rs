//! Convolution in the blocked layout.
//!
//! First the input is copied into a zero-padded plane, with its norm and ELU applied on the way. Then the layer is computed
//! directly, or by Winograd's algorithm where that is faster; the choice depends on the layer's shape only.

mod algorithm;
mod direct;
mod winograd;

use std::ops::Range;

/// Channels per block: one AVX2 register.
pub use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::conv::rounding::{Rounding, round};

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F32x16, F64x4, Floats, Isa, activate, dispatch_wide, elu};
use crate::engine::cpu::threads::Threads;
use crate::plan::{self, Contents, TensorId};
pub use algorithm::Algorithm;
use winograd::Tiling;

impl CpuSession<'_> {
    pub(super) fn conv(&mut self, op: &plan::Conv, scratch: Range<usize>) {
        let (at, plan) = (Operands::new(self.plan, &self.arena), self.plan);
        let prologue = Prologue {
            coefficients: op.activation.coefficients().map(|tensor| at.read(tensor)),
            function: op.activation.function(),
        };
        let channels = |id: TensorId| at.channels_and_pixels(id).0;
        let (inputs, outputs) = (channels(op.input), channels(op.output));
        let arithmetic = Arithmetic {
            isa: self.isa,
            rounding: self.precision.of_conv(inputs, outputs),
            bf16: self.precision.is_bf16(inputs, outputs),
        };
        conv(
            self.threads,
            arithmetic,
            ConvShape::new(plan.batch, op, |id| plan.tensor(id).contents),
            &self.convs[&op.weight],
            at.read(op.input),
            prologue,
            op.residual.map(|r| at.read(r)),
            at.scratch(scratch),
            at.write(op.output),
        );
    }
}

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
    pub algorithm: Algorithm,
}

impl ConvShape {
    /// The shape of a convolution of a plan, and how it is computed.
    pub fn new(batch: usize, op: &plan::Conv, contents: impl Fn(TensorId) -> Contents) -> Self {
        let (inputs, ..) = contents(op.input).feature();
        let (outputs, height, width) = contents(op.output).feature();
        let (in_blocks, out_blocks) = (inputs.div_ceil(BLOCK), outputs.div_ceil(BLOCK));
        Self {
            batch,
            in_blocks,
            out_blocks,
            height,
            width,
            kernel: op.kernel,
            dilation: op.dilation,
            algorithm: Algorithm::of(op.kernel, in_blocks, out_blocks),
        }
    }

    fn by_winograd(&self) -> bool {
        self.algorithm == Algorithm::Winograd
    }

    fn pad(&self) -> usize {
        self.dilation * (self.kernel / 2)
    }

    /// Height and width of the padded plane.
    fn padded(&self) -> (usize, usize) {
        if self.by_winograd() {
            Tiling::new(*self).padded()
        } else {
            (self.height + 2 * self.pad(), self.width + 2 * self.pad())
        }
    }

    /// Floats of the padded copy of the whole batch.
    fn padded_len(&self) -> usize {
        let (height, width) = self.padded();
        self.batch * self.in_blocks * height * width * BLOCK
    }

    /// Images that are computed at a time: no more than keep all threads busy, since each needs its padded copy.
    fn at_a_time(&self, threads: usize) -> usize {
        if self.by_winograd() {
            Tiling::new(*self).images_at_a_time(threads)
        } else {
            self.batch
        }
    }

    fn of_batch(&self, batch: usize) -> Self {
        Self { batch, ..*self }
    }

    /// Floats of working memory.
    pub fn scratch_len(&self, threads: usize) -> usize {
        let tiles = if self.by_winograd() {
            threads * Tiling::new(*self).task_scratch()
        } else {
            0
        };
        self.of_batch(self.at_a_time(threads)).padded_len() + tiles
    }

    /// Floats of packed weights and the bias.
    pub fn packed_len(&self) -> usize {
        if self.by_winograd() {
            return winograd::packed_len(self.in_blocks, self.out_blocks);
        }
        (self.kernel * self.kernel * self.in_blocks * BLOCK + 1) * self.out_blocks * BLOCK
    }
}

/// Output blocks that are computed together, and where their weights start.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    blocks: usize,
    weights: usize,
}

/// Three blocks at a time if that divides an odd number of blocks, two otherwise, one for the rest.
fn groups(out_blocks: usize) -> Vec<Group> {
    let size = if out_blocks % 2 == 1 && out_blocks.is_multiple_of(3) {
        3
    } else {
        2
    };
    let group = |first| Group {
        first,
        blocks: size.min(out_blocks - first),
        weights: 0,
    };
    (0..out_blocks).step_by(size).map(group).collect()
}

/// The weights of a layer, in the order in which its algorithm reads them.
pub enum PackedConv {
    Direct(direct::Packed),
    Winograd(winograd::Packed),
}

impl PackedConv {
    /// From `[out, in, k, k]` and `[out]`.
    pub fn new(shape: ConvShape, weight: &[f32], bias: Option<&[f32]>, outputs: usize, inputs: usize) -> Self {
        let mut padded_bias = vec![0.0; shape.out_blocks * BLOCK];
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        if shape.by_winograd() {
            Self::Winograd(winograd::Packed::new(weight, padded_bias, outputs, inputs))
        } else {
            Self::Direct(direct::Packed::new(weight, padded_bias, outputs, inputs, shape.kernel))
        }
    }
}

/// What is done to the input on its way.
#[derive(Clone, Copy)]
pub struct Prologue<'a> {
    /// Per image `[2, in_blocks · 8]`: scale and shift of its norm
    pub coefficients: Option<&'a [f32]>,
    pub function: Function,
}

impl Prologue<'_> {
    #[cfg(test)]
    const fn of(function: Function) -> Self {
        let coefficients = None;
        Self { coefficients, function }
    }
}

/// With what a layer is computed.
#[derive(Clone, Copy)]
struct Arithmetic {
    isa: Isa,
    /// What the activated input is rounded to, as tensor cores do.
    rounding: Option<Rounding>,
    /// Whether Winograd's products are of bf16.
    bf16: bool,
}

/// Floats that a task rounds.
const ROUNDED_AT_ONCE: usize = 1 << 14;

/// output = conv(activation(input)) + bias + residual
#[allow(clippy::too_many_arguments)] // the operands of a convolution
fn conv(
    threads: &mut Threads,
    arithmetic: Arithmetic,
    shape: ConvShape,
    packed: &PackedConv,
    input: &[f32],
    prologue: Prologue<'_>,
    residual: Option<&[f32]>,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let Arithmetic { isa, rounding, bf16 } = arithmetic;
    let images = shape.at_a_time(threads.count());
    let (padded, scratch) = scratch.split_at_mut(shape.of_batch(images).padded_len());
    let pixels = shape.height * shape.width;
    let (in_len, out_len) = (shape.in_blocks * BLOCK * pixels, shape.out_blocks * BLOCK * pixels);
    for first in (0..shape.batch).step_by(images) {
        let part = shape.of_batch(images.min(shape.batch - first));
        let range = |len: usize| first * len..(first + part.batch) * len;
        let prologue = Prologue {
            coefficients: prologue
                .coefficients
                .map(|all| &all[range(2 * shape.in_blocks * BLOCK)]),
            ..prologue
        };
        let residual = residual.map(|r| &r[range(out_len)]);
        let output = &mut output[range(out_len)];
        let padded = &mut padded[..part.padded_len()];
        pad(threads, isa, part, &input[range(in_len)], prologue, padded);
        if let Some(precision) = rounding {
            threads.for_each(padded, ROUNDED_AT_ONCE, &|_, values| {
                values.iter_mut().for_each(|v| *v = round(precision, *v));
            });
        }
        match packed {
            PackedConv::Direct(packed) => direct::conv(threads, isa, part, packed, padded, residual, output),
            PackedConv::Winograd(packed) => {
                let tiling = Tiling::new(part);
                winograd::conv(threads, isa, bf16, tiling, packed, padded, residual, scratch, output);
            }
        }
    }
}

/// Fills the zero-padded copy of the input, one task per image and block.
fn pad(threads: &mut Threads, isa: Isa, shape: ConvShape, input: &[f32], prologue: Prologue<'_>, scratch: &mut [f32]) {
    let (height, width) = shape.padded();
    let plane = shape.height * shape.width * BLOCK;
    threads.for_each(scratch, height * width * BLOCK, &|index, padded| {
        let source = &input[index * plane..(index + 1) * plane];
        let (image, block) = (index / shape.in_blocks, index % shape.in_blocks);
        let channels = shape.in_blocks * BLOCK;
        let coefficients = prologue.coefficients.map(|all| {
            let of_image = &all[image * 2 * channels..(image + 1) * 2 * channels];
            (&of_image[block * BLOCK..], &of_image[channels + block * BLOCK..])
        });
        let function = prologue.function;
        dispatch_wide!(isa, pad_plane(
            shape: ConvShape, source: &[f32], coefficients: Option<(&[f32], &[f32])>, function: Function, padded: &mut [f32]
        ));
    });
}

#[inline(always)]
fn pad_plane<F: F32x8, D: F64x4>(
    shape: ConvShape,
    source: &[f32],
    coefficients: Option<(&[f32], &[f32])>,
    function: Function,
    padded: &mut [f32],
) {
    let (scale, shift) = coefficients.map_or((F::splat(1.0), F::splat(0.0)), |(a, b)| (F::load(a), F::load(b)));
    match (function, coefficients) {
        (Function::Identity, None) => pad_with::<F, Copied>(shape, source, scale, shift, padded),
        (Function::Elu, None) => pad_with::<F, Elu>(shape, source, scale, shift, padded),
        (Function::Identity, Some(_)) => pad_with::<F, Normed>(shape, source, scale, shift, padded),
        (Function::Elu, Some(_)) => pad_with::<F, NormedElu>(shape, source, scale, shift, padded),
        (Function::Silu, _) => pad_with::<F, NormedSilu>(shape, source, scale, shift, padded),
        (Function::Relu, _) => pad_with::<F, NormedRelu>(shape, source, scale, shift, padded),
    }
}

/// What becomes of a value on its way.
trait Treatment {
    fn of<F: Floats>(x: F, scale: F, shift: F) -> F;
}

/// Structs, since a closure cannot be generic.
macro_rules! treatments {
    ($($name:ident = |$x:ident, $scale:pat_param, $shift:pat_param| $body:expr;)*) => {$(
        struct $name;
        impl Treatment for $name {
            #[inline(always)]
            fn of<F: Floats>($x: F, $scale: F, $shift: F) -> F {
                $body
            }
        }
    )*};
}

treatments! {
    Copied = |x, _, _| x;
    Elu = |x, _, _| elu(x);
    Normed = |x, scale, shift| x.mul_add(scale, shift);
    NormedElu = |x, scale, shift| elu(x.mul_add(scale, shift));
    NormedSilu = |x, scale, shift| activate(Function::Silu, x.mul_add(scale, shift));
    NormedRelu = |x, scale, shift| activate(Function::Relu, x.mul_add(scale, shift));
}

/// The padded copy of a plane, two pixels at a time.
#[inline(always)]
fn pad_with<F: F32x8, T: Treatment>(shape: ConvShape, source: &[f32], scale: F, shift: F, padded: &mut [f32]) {
    let pad = shape.pad();
    let (_, width) = shape.padded();
    let row = shape.width * BLOCK;
    let margin = pad * BLOCK;
    let (scales, shifts) = (F::Pair::of_halves([scale; 2]), F::Pair::of_halves([shift; 2]));
    let (top, rest) = padded.split_at_mut(pad * width * BLOCK);
    zero::<F>(top);
    let (middle, bottom) = rest.split_at_mut(shape.height * width * BLOCK);
    zero::<F>(bottom);
    for (from, to) in source.chunks_exact(row).zip(middle.chunks_exact_mut(width * BLOCK)) {
        zero::<F>(&mut to[..margin]);
        zero::<F>(&mut to[margin + row..]);
        let to = &mut to[margin..margin + row];
        let (from, mut to) = (from.chunks_exact(2 * BLOCK), to.chunks_exact_mut(2 * BLOCK));
        let last = from.remainder();
        for (from, to) in from.zip(&mut to) {
            T::of(F::Pair::load(from), scales, shifts).store(to);
        }
        if !last.is_empty() {
            T::of(F::load(last), scale, shift).store(to.into_remainder());
        }
    }
}

/// Margins are a few vectors long: too short for a call of memset.
#[inline(always)]
fn zero<F: F32x8>(margin: &mut [f32]) {
    for pixel in margin.chunks_exact_mut(BLOCK) {
        F::splat(0.0).store(pixel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qcs_kernels::network::conv::{Layer, activate as twin_of_activation, conv as twin};

    /// A feature map of these channels, its padding 0.
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
        check_algorithm(Algorithm::Direct, isa, channels, size, taps, elu_first);
        if taps.0 == 3 {
            check_algorithm(Algorithm::Winograd, isa, channels, size, taps, elu_first);
        }
    }

    fn check_algorithm(
        algorithm: Algorithm,
        isa: Isa,
        channels: (usize, usize),
        size: (usize, usize),
        taps: (usize, usize),
        elu_first: bool,
    ) {
        let (inputs, outputs) = channels;
        let (pixels, taps_count) = (size.0 * size.1, taps.0 * taps.0);
        let x = random(inputs * pixels, 1);
        let weight = random(outputs * inputs * taps_count, 2);
        let bias = random(outputs, 3);
        let residual = random(outputs * pixels, 4);
        let shape = ConvShape {
            batch: 1,
            in_blocks: inputs.div_ceil(BLOCK),
            out_blocks: outputs.div_ceil(BLOCK),
            height: size.0,
            width: size.1,
            kernel: taps.0,
            dilation: taps.1,
            algorithm,
        };
        let packed = PackedConv::new(shape, &weight, Some(&bias), outputs, inputs);
        let function = if elu_first { Function::Elu } else { Function::Identity };
        let prologue = Prologue::of(function);
        let (input, added) = (block(&x, inputs, pixels), block(&residual, outputs, pixels));
        let output = by_two_threads(isa, shape, &packed, &input, prologue, Some(&added));

        let layer = Layer {
            weight: &weight,
            bias: Some(&bias),
            outputs,
            inputs,
            taps: taps_count,
            dilation: taps.1,
        };
        let (mut activated, mut expected) = (input, vec![f32::NAN; output.len()]);
        twin_of_activation(&mut activated, None, pixels, function);
        twin(layer, &activated, size.0, size.1, Some(&added), &mut expected);
        let sum_of_terms = (inputs * taps_count + 2) as f32;
        // Each term is below 1 in size and is rounded once, as is each partial sum. Winograd's sums are of numbers up to some
        // ten times larger, which its last transform takes back: a digit is lost.
        let rounding = if shape.by_winograd() { 1e-6 } else { 1e-7 };
        for (at, (value, expected)) in output.iter().zip(&expected).enumerate() {
            assert!(
                (value - expected).abs() < rounding * sum_of_terms,
                "{channels:?} {size:?} {taps:?} {at}: {value} {expected}"
            );
        }
    }

    #[test]
    fn both_algorithms_agree_with_the_twin_for_every_shape() {
        for isa in [Isa::detect(), Isa::Portable] {
            for channels in [(1, 8), (3, 16), (8, 24), (24, 24), (48, 40), (40, 1), (20, 3), (72, 17)] {
                check(isa, channels, (7, 13), (3, 1), true);
            }
            for size in [(1, 1), (2, 3), (14, 14), (5, 28), (3, 64), (4, 25)] {
                check(isa, (16, 24), size, (3, 1), false);
            }
            for taps in [(3, 1), (3, 2), (3, 3), (3, 4), (1, 1)] {
                check(isa, (12, 16), (6, 10), taps, true);
            }
        }
    }

    fn by_two_threads(
        isa: Isa,
        shape: ConvShape,
        packed: &PackedConv,
        input: &[f32],
        prologue: Prologue<'_>,
        residual: Option<&[f32]>,
    ) -> Vec<f32> {
        let mut scratch = vec![f32::NAN; shape.scratch_len(2)];
        let mut output = vec![f32::NAN; shape.batch * shape.out_blocks * BLOCK * shape.height * shape.width];
        let threads = &mut Threads::new(2);
        conv(
            threads,
            Arithmetic {
                isa,
                rounding: None,
                bf16: false,
            },
            shape,
            packed,
            input,
            prologue,
            residual,
            &mut scratch,
            &mut output,
        );
        output
    }

    #[test]
    fn an_image_of_a_batch_that_is_computed_in_parts_has_the_bits_of_the_image_alone() {
        let shape = ConvShape {
            batch: 7,
            in_blocks: 2,
            out_blocks: 1,
            height: 64,
            width: 64,
            kernel: 3,
            dilation: 1,
            algorithm: Algorithm::Winograd,
        };
        let parts = shape.at_a_time(2);
        assert!(
            parts < shape.batch && !shape.batch.is_multiple_of(parts),
            "{parts} images at a time: the last part is smaller"
        );
        let (inputs, outputs) = (shape.in_blocks * BLOCK, shape.out_blocks * BLOCK);
        let (in_len, out_len) = (inputs * 64 * 64, outputs * 64 * 64);
        let packed = PackedConv::new(shape, &random(outputs * inputs * 9, 1), None, outputs, inputs);
        let (input, residual) = (random(shape.batch * in_len, 2), random(shape.batch * out_len, 3));
        let norms = random(shape.batch * 2 * inputs, 4);
        let run = |shape, input: &[f32], norms: &[f32], residual: &[f32]| {
            by_two_threads(
                Isa::detect(),
                shape,
                &packed,
                input,
                Prologue {
                    coefficients: Some(norms),
                    function: Function::Elu,
                },
                Some(residual),
            )
        };
        let whole = run(shape, &input, &norms, &residual);
        for image in 0..shape.batch {
            let of = |len: usize| image * len..(image + 1) * len;
            let (input, norms) = (&input[of(in_len)], &norms[of(2 * inputs)]);
            let alone = run(shape.of_batch(1), input, norms, &residual[of(out_len)]);
            assert!(
                alone
                    .iter()
                    .zip(&whole[of(out_len)])
                    .all(|(a, b)| a.to_bits() == b.to_bits())
            );
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx512_gives_the_bits_of_avx2() {
        if Isa::detect() != Isa::Avx512 {
            eprintln!("skipped: this machine has no AVX-512");
            return;
        }
        for (in_blocks, out_blocks) in [(2, 2), (3, 4), (16, 16), (6, 3), (5, 1)] {
            let shape = ConvShape {
                batch: 3,
                in_blocks,
                out_blocks,
                height: 14,
                width: 9,
                kernel: 3,
                dilation: 1,
                algorithm: Algorithm::Winograd,
            };
            let (inputs, outputs) = (in_blocks * BLOCK, out_blocks * BLOCK);
            let packed = PackedConv::new(shape, &random(outputs * inputs * 9, 1), None, outputs, inputs);
            let input = random(inputs * 3 * 14 * 9, 2);
            let [wide, narrow] = [Isa::Avx512, Isa::Avx2]
                .map(|isa| by_two_threads(isa, shape, &packed, &input, Prologue::of(Function::Elu), None));
            assert!(wide.iter().zip(&narrow).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    /// The measurement behind [`Algorithm::of`].
    #[test]
    #[ignore = "takes time and an idle machine"]
    fn direct_against_winograd() {
        let blocks = [1, 2, 3, 6, 16, 32];
        println!(
            "| |{}\n|---|{}",
            blocks.map(|b| format!(" {b} |")).concat(),
            "---|".repeat(blocks.len())
        );
        for in_blocks in blocks {
            let ratios = blocks.map(|out_blocks| {
                let [direct, winograd] = [Algorithm::Direct, Algorithm::Winograd].map(|algorithm| {
                    let shape = ConvShape {
                        batch: 8,
                        in_blocks,
                        out_blocks,
                        height: 14,
                        width: 14,
                        kernel: 3,
                        dilation: 1,
                        algorithm,
                    };
                    seconds(shape)
                });
                format!(" {:.2} |", direct / winograd)
            });
            println!("| {in_blocks} |{}", ratios.concat());
        }
    }

    /// The least time of several.
    fn seconds(shape: ConvShape) -> f64 {
        let (inputs, outputs) = (shape.in_blocks * BLOCK, shape.out_blocks * BLOCK);
        let pixels = shape.batch * shape.height * shape.width;
        let packed = PackedConv::new(shape, &random(outputs * inputs * 9, 1), None, outputs, inputs);
        let (input, mut output) = (random(inputs * pixels, 2), vec![0.0; outputs * pixels]);
        let mut threads = Threads::new(2);
        let mut scratch = vec![0.0; shape.scratch_len(threads.count())];
        let time = |_| {
            let start = std::time::Instant::now();
            let (scratch, output) = (&mut scratch, &mut output);
            conv(
                &mut threads,
                Arithmetic {
                    isa: Isa::detect(),
                    rounding: None,
                    bf16: false,
                },
                shape,
                &packed,
                &input,
                Prologue::of(Function::Elu),
                None,
                scratch,
                output,
            );
            start.elapsed().as_secs_f64()
        };
        (0..20).map(time).fold(f64::INFINITY, f64::min)
    }
}

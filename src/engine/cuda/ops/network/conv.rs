//! Convolutions: directly, by Winograd's algorithm or on tensor cores.

use std::ops::Range;

use qcs_kernels::divisor::Divisor;
use qcs_kernels::global::Global;
use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::conv::ConvArgs;
use qcs_kernels::network::conv::prepare::ConvPrepareArgs;
use qcs_kernels::network::conv::rounding::Rounding;
use qcs_kernels::network::conv::tensor::TensorConvArgs;
use qcs_kernels::network::conv::winograd::input::WinogradInputArgs;
use qcs_kernels::network::conv::winograd::output::WinogradOutputArgs;
use qcs_kernels::network::conv::winograd::{Product, Tiling, transformed_len};
use qcs_kernels::network::resample::{ResampleArgs, Resampling};

use crate::engine::cuda::algorithm::{Algorithm, Layer};
use crate::engine::cuda::ops::{Call, Caller};
use crate::plan::{Activation, Conv};

impl Caller<'_> {
    /// Where the algorithm's kernels do not know the activation, a pass over the map goes before them.
    pub(super) fn conv(&self, conv: &Conv, mut scratch: Range<usize>) -> Vec<Call> {
        let (inputs, height, width) = self.feature(conv.input);
        let layer = Layer::of(conv, |id| self.plan.tensor(id).contents);
        let mut function = conv.activation.function();
        let mut coefficients = self.tensor_or_none(conv.activation.coefficients());
        let mut input = self.tensor(conv.input);
        let mut calls = Vec::new();
        if layer.activates_first(self.precision) {
            let output = self.at(scratch.start);
            scratch.start += layer.activated_bytes(self.plan.batch);
            calls.push(Call::of(&ResampleArgs {
                input,
                coefficients,
                output,
                images: self.batch(),
                in_blocks: self.blocks(conv.input),
                out_blocks: self.blocks(conv.input),
                height,
                width,
                how: Resampling::Keep as u32,
                activation: function.code(),
                factor: 1.0,
            }));
            (input, coefficients, function) = (output, Global::NONE, Function::Identity);
        }
        let direct = ConvArgs {
            input,
            coefficients,
            weights: self.at(self.layout.param(conv.weight)),
            bias: conv.bias.map_or(Global::NONE, |bias| self.vector(bias)),
            residual: self.tensor_or_none(conv.residual),
            output: self.tensor(conv.output),
            statistics: self.tensor_or_none(conv.statistics),
            images: self.batch(),
            in_blocks: self.blocks(conv.input),
            out_blocks: self.blocks(conv.output),
            height,
            width,
            taps: (conv.kernel * conv.kernel) as u32,
            dilation: conv.dilation as u32,
            elu: function.code(),
            multiprocessors: self.multiprocessors,
            weights_per_image: 0,
        };
        calls.extend(match layer.algorithm(self.precision) {
            Algorithm::Direct => vec![Call::of(&direct)],
            Algorithm::Winograd(tiling) => self.winograd(&direct, tiling, scratch),
            Algorithm::Tensor(rounding) => {
                self.on_tensor_cores(conv, &direct, inputs as usize, rounding, scratch.start)
            }
        });
        calls
    }

    /// The convolution in three launches, for as many images at a time as the scratch memory has room for.
    fn winograd(&self, conv: &ConvArgs, tiling: Tiling, scratch: Range<usize>) -> Vec<Call> {
        let &ConvArgs {
            in_blocks, out_blocks, ..
        } = conv;
        let at_a_time = tiling.images_at_a_time(scratch.len(), in_blocks, out_blocks);
        let part = |first: u32| {
            let images = at_a_time.min(conv.images - first);
            // Of an array with so many elements for each image.
            let from = |array: Global<f32>, per_image: usize| match array.is_some() {
                true => array.from(first as usize * per_image),
                false => array,
            };
            let map = |blocks: u32| (blocks * conv.height * conv.width) as usize * BLOCK;
            let transformed: Global<f32> = self.at(scratch.start);
            let sums = transformed.from(transformed_len(&tiling, images, in_blocks));
            let input = WinogradInputArgs {
                input: from(conv.input, map(in_blocks)),
                coefficients: from(conv.coefficients, 2 * in_blocks as usize * BLOCK),
                output: transformed,
                images,
                in_blocks,
                activation: conv.elu,
                tiling,
            };
            let product = Product {
                transformed,
                weights: conv.weights,
                sums,
                tiles: images * tiling.per_image(),
                in_blocks,
                out_blocks,
                multiprocessors: conv.multiprocessors,
            };
            let output = WinogradOutputArgs {
                sums,
                bias: conv.bias,
                residual: from(conv.residual, map(out_blocks)),
                output: from(conv.output, map(out_blocks)),
                statistics: from(conv.statistics, conv.statistics_len() / conv.images as usize),
                images,
                out_blocks,
                unused: 0,
                tiling,
            };
            [Call::of(&input), Call::of(&product.args()), Call::of(&output)]
        };
        (0..conv.images).step_by(at_a_time as usize).flat_map(part).collect()
    }

    /// The convolution in two launches, of which the first activates and rounds; or in one, where the convolution before has done so.
    fn on_tensor_cores(
        &self,
        op: &Conv,
        conv: &ConvArgs,
        inputs: usize,
        rounding: Rounding,
        scratch: usize,
    ) -> Vec<Call> {
        let prepared = op.activated.map_or(self.at(scratch), |tensor| self.tensor(tensor));
        let prepare = ConvPrepareArgs {
            input: conv.input,
            coefficients: conv.coefficients,
            output: prepared,
            images: conv.images,
            in_blocks: conv.in_blocks,
            pixels: conv.height * conv.width,
            activation: conv.elu,
            precision: rounding.code(),
            unused: 0,
        };
        let product = TensorConvArgs {
            input: prepared,
            weights: conv.weights,
            bias: conv.bias,
            residual: conv.residual,
            output: conv.output,
            statistics: conv.statistics,
            prepared: self.tensor_or_none(op.leaves.map(|prepared| prepared.tensor)),
            images: conv.images,
            units: rounding.units(inputs) as u32,
            out_blocks: conv.out_blocks,
            height: conv.height,
            width: conv.width,
            taps: conv.taps,
            dilation: conv.dilation,
            precision: rounding.code(),
            tile: 0,
            prepared_elu: u32::from(op.leaves.is_some_and(|prepared| prepared.activation == Activation::Elu)),
            rows: Divisor::NONE,
            columns: Divisor::NONE,
            tiles: Divisor::NONE,
        }
        .tiled(self.generation, self.multiprocessors);
        match op.activated {
            Some(_) => vec![Call::of(&product)],
            None => vec![Call::of(&prepare), Call::of(&product)],
        }
    }
}

//! The score network.

use std::ops::Range;

use qcs_kernels::global::Global;
use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::attention::AttentionArgs;
use qcs_kernels::network::concat::ConcatArgs;
use qcs_kernels::network::conv::ConvArgs;
use qcs_kernels::network::conv::prepare::ConvPrepareArgs;
use qcs_kernels::network::conv::rounding::Rounding;
use qcs_kernels::network::conv::tensor::TensorConvArgs;
use qcs_kernels::network::conv::winograd::input::WinogradInputArgs;
use qcs_kernels::network::conv::winograd::output::WinogradOutputArgs;
use qcs_kernels::network::conv::winograd::{Product, Tiling, transformed_len};
use qcs_kernels::network::dense::DenseArgs;
use qcs_kernels::network::elu::EluArgs;
use qcs_kernels::network::embed::EmbedArgs;
use qcs_kernels::network::group_norm::GroupFinishArgs;
use qcs_kernels::network::load_image::LoadImageArgs;
use qcs_kernels::network::load_scaled::{LoadScaledArgs, TELLS};
use qcs_kernels::network::max_pool::MaxPoolArgs;
use qcs_kernels::network::mean_pool::MeanPoolArgs;
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMergeArgs, NormMomentsArgs};
use qcs_kernels::network::reflect::ReflectArgs;
use qcs_kernels::network::resample::{ResampleArgs, Resampling};
use qcs_kernels::network::resize_add::ResizeAddArgs;
use qcs_kernels::network::store_mixed::StoreMixedArgs;
use qcs_kernels::network::store_score::StoreScoreArgs;

use super::{Call, Caller};
use crate::engine::cuda::algorithm::{Algorithm, Layer};
use crate::plan::{Activation, Conv, GroupNorm, NetworkOp, TensorId};

impl Caller<'_> {
    pub(super) fn network(&self, op: &NetworkOp, scratch: Range<usize>) -> Vec<Call> {
        let (images, unused) = (self.batch(), 0);
        match *op {
            NetworkOp::Conv(conv) => self.conv(&conv, scratch),
            NetworkOp::Reflect {
                input,
                from: (height, width),
                to,
                output,
            } => vec![Call::of(&ReflectArgs {
                input: self.tensor(input),
                output: self.tensor(output),
                planes: images * self.len(input) / (height * width) as u32,
                height: height as u32,
                width: width as u32,
                to_height: to.0 as u32,
                to_width: to.1 as u32,
                unused,
            })],
            NetworkOp::LoadImage { x, output } => {
                let (channels, height, width) = self.feature(output);
                vec![Call::of(&LoadImageArgs {
                    x: self.tensor(x),
                    output: self.tensor(output),
                    states: images,
                    channels,
                    pixels: height * width,
                    unused,
                })]
            }
            NetworkOp::LoadScaled { x, level, kind, output } => {
                let (wide, height, width) = self.feature(output);
                let channels = self.len(x) / (height * width);
                vec![Call::of(&LoadScaledArgs {
                    level: self.tensor(level),
                    x: self.tensor(x),
                    output: self.tensor(output),
                    states: images,
                    channels,
                    pixels: height * width,
                    kind: kind.code() + (wide - channels) * TELLS,
                })]
            }
            NetworkOp::NormCoefficients {
                input,
                statistics,
                alpha,
                gamma,
                beta,
                output,
            } => {
                let (channels, ..) = self.feature(input);
                let moments = self.moments(input, statistics, self.tensor(output));
                let finish = NormFinishArgs {
                    alpha: self.vector(alpha),
                    gamma: self.vector(gamma),
                    beta: self.vector(beta),
                    output: self.tensor(output),
                    images,
                    channels,
                };
                vec![moments, Call::of(&finish)]
            }
            NetworkOp::GroupNorm(norm) => self.group_norm(&norm, scratch.start),
            NetworkOp::Resample {
                input,
                activation,
                how,
                factor,
                output,
            } => {
                let (_, height, width) = self.feature(output);
                vec![Call::of(&ResampleArgs {
                    input: self.tensor(input),
                    coefficients: self.tensor_or_none(activation.coefficients()),
                    output: self.tensor(output),
                    images,
                    in_blocks: self.blocks(input),
                    out_blocks: self.blocks(output),
                    height,
                    width,
                    how: how as u32,
                    activation: activation.function().code(),
                    factor,
                })]
            }
            NetworkOp::Concat { first, second, output } => {
                let len = |id: TensorId| (self.plan.tensor(id).bytes / 4 / self.plan.batch) as u32;
                vec![Call::of(&ConcatArgs {
                    first: self.tensor(first),
                    second: self.tensor(second),
                    output: self.tensor(output),
                    images,
                    first_len: len(first),
                    second_len: len(second),
                    unused,
                })]
            }
            NetworkOp::Attention { input, heads, output } => {
                let (_, height, width) = self.feature(output);
                vec![Call::of(&AttentionArgs {
                    input: self.tensor(input),
                    output: self.tensor(output),
                    images,
                    blocks: self.blocks(output),
                    heads: heads as u32,
                    pixels: height * width,
                })]
            }
            NetworkOp::Embed {
                level,
                told,
                cosines_first,
                frequencies,
                table,
                output,
            } => {
                let entries = |param| self.plan.param(param).shape[0] as u32 / 2;
                vec![Call::of(&EmbedArgs {
                    level: self.tensor(level),
                    frequencies: self.vector(frequencies),
                    table: table.map_or(Global::NONE, |table| self.vector(table)),
                    output: self.tensor(output),
                    states: images,
                    count: entries(frequencies),
                    entries: table.map_or(0, entries),
                    told: told as u32,
                    cosines_first: u32::from(cosines_first),
                    unused,
                })]
            }
            NetworkOp::Dense {
                input,
                weight,
                bias,
                silu,
                output,
            } => vec![Call::of(&DenseArgs {
                input: self.tensor(input),
                weights: self.vector(weight),
                bias: self.vector(bias),
                output: self.tensor(output),
                states: images,
                inputs: self.len(input),
                outputs: self.len(output),
                silu: u32::from(silu),
            })],
            NetworkOp::Elu { input, output } => vec![Call::of(&EluArgs {
                input: self.tensor(input),
                output: self.tensor(output),
                len: (self.plan.tensor(input).bytes / 4) as u64,
            })],
            NetworkOp::MaxPool { input, output } => {
                let (_, height, width) = self.feature(input);
                vec![Call::of(&MaxPoolArgs {
                    input: self.tensor(input),
                    output: self.tensor(output),
                    planes: images * self.blocks(input),
                    height,
                    width,
                    unused,
                })]
            }
            NetworkOp::MeanPool {
                input,
                residual,
                output,
            } => {
                let (_, height, width) = self.feature(output);
                vec![Call::of(&MeanPoolArgs {
                    input: self.tensor(input),
                    residual: self.tensor_or_none(residual),
                    output: self.tensor(output),
                    planes: images * self.blocks(output),
                    height,
                    width,
                    unused,
                })]
            }
            NetworkOp::ResizeAdd { input, addend, output } => {
                let (_, from_height, from_width) = self.feature(input);
                let (_, height, width) = self.feature(output);
                vec![Call::of(&ResizeAddArgs {
                    input: self.tensor(input),
                    addend: self.tensor_or_none(addend),
                    output: self.tensor(output),
                    planes: images * self.blocks(output),
                    from_height,
                    from_width,
                    height,
                    width,
                    unused,
                })]
            }
            NetworkOp::StoreScore { input, level, score } => {
                let (channels, height, width) = self.feature(input);
                vec![Call::of(&StoreScoreArgs {
                    level: self.tensor(level),
                    input: self.tensor(input),
                    score: self.tensor(score),
                    states: images,
                    channels,
                    pixels: height * width,
                    unused,
                })]
            }
            NetworkOp::CallOut { .. } => unreachable!("refused when a session is asked for"),
            NetworkOp::StoreMixed {
                x,
                input,
                level,
                kind,
                score,
            } => {
                let (channels, height, width) = self.feature(input);
                vec![Call::of(&StoreMixedArgs {
                    level: self.tensor(level),
                    x: self.tensor(x),
                    input: self.tensor(input),
                    score: self.tensor(score),
                    states: images,
                    channels,
                    pixels: height * width,
                    kind: kind.code(),
                })]
            }
        }
    }

    /// Means and variances of every channel of a map, from the map or from what the convolution that made it left of it.
    fn moments(&self, map: TensorId, statistics: Option<TensorId>, output: Global<f32>) -> Call {
        let (_, height, width) = self.feature(map);
        let (images, blocks, pixels) = (self.batch(), self.blocks(map), height * width);
        let (input, unused) = (self.tensor(map), 0);
        match statistics {
            Some(statistics) => Call::of(&NormMergeArgs {
                input,
                statistics: self.tensor(statistics),
                output,
                images,
                blocks,
                pixels,
                unused,
            }),
            None => Call::of(&NormMomentsArgs {
                input,
                output,
                images,
                blocks,
                pixels,
                unused,
            }),
        }
    }

    fn group_norm(&self, norm: &GroupNorm, scratch: usize) -> Vec<Call> {
        let (channels, ..) = self.feature(norm.input);
        let moments: Global<f32> = self.at(scratch);
        let terms = norm.terms.map(|terms| {
            let all: Global<f32> = self.tensor(terms.tensor);
            (all.from(terms.first), self.len(terms.tensor), terms.kind as u32)
        });
        let (terms, stride, kind) = terms.unwrap_or((Global::NONE, 0, 0));
        let finish = GroupFinishArgs {
            moments,
            gamma: self.vector(norm.gamma),
            beta: self.vector(norm.beta),
            terms,
            output: self.tensor(norm.output),
            epsilon: norm.epsilon,
            images: self.batch(),
            channels,
            of_group: channels / norm.groups as u32,
            stride,
            kind,
            unused: 0,
        };
        vec![self.moments(norm.input, norm.statistics, moments), Call::of(&finish)]
    }

    /// Where the algorithm's kernels do not know the activation, a pass over the map goes before them.
    fn conv(&self, conv: &Conv, mut scratch: Range<usize>) -> Vec<Call> {
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
        let prepared = op.prepared.map_or(self.at(scratch), |tensor| self.tensor(tensor));
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
            multiprocessors: conv.multiprocessors,
            prepared_elu: u32::from(op.leaves.is_some_and(|prepared| prepared.activation == Activation::Elu)),
        };
        match op.prepared {
            Some(_) => vec![Call::of(&product)],
            None => vec![Call::of(&prepare), Call::of(&product)],
        }
    }
}

//! The score network.

use qcs_kernels::global::Global;
use qcs_kernels::network::conv::ConvArgs;
use qcs_kernels::network::conv::prepare::ConvPrepareArgs;
use qcs_kernels::network::conv::tensor::TensorConvArgs;
use qcs_kernels::network::elu::EluArgs;
use qcs_kernels::network::load_image::LoadImageArgs;
use qcs_kernels::network::max_pool::MaxPoolArgs;
use qcs_kernels::network::mean_pool::MeanPoolArgs;
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMergeArgs, NormMomentsArgs};
use qcs_kernels::network::resize_add::ResizeAddArgs;
use qcs_kernels::network::store_score::StoreScoreArgs;

use super::{Call, Caller};
use crate::engine::cuda::layout::rounding;
use crate::plan::{Activation, Conv, NetworkOp};

impl Caller<'_> {
    pub(super) fn network(&self, op: &NetworkOp, scratch: usize) -> Vec<Call> {
        let (images, unused) = (self.batch(), 0);
        match *op {
            NetworkOp::Conv(conv) => self.conv(&conv, scratch),
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
            NetworkOp::NormCoefficients {
                input,
                statistics,
                alpha,
                gamma,
                beta,
                output,
            } => {
                let (channels, height, width) = self.feature(input);
                let (blocks, pixels) = (self.blocks(input), height * width);
                let (input, moments) = (self.tensor(input), self.tensor(output));
                let moments = match statistics {
                    Some(statistics) => Call::of(&NormMergeArgs {
                        input,
                        statistics: self.tensor(statistics),
                        output: moments,
                        images,
                        blocks,
                        pixels,
                        unused,
                    }),
                    None => Call::of(&NormMomentsArgs {
                        input,
                        output: moments,
                        images,
                        blocks,
                        pixels,
                        unused,
                    }),
                };
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
        }
    }

    fn conv(&self, conv: &Conv, scratch: usize) -> Vec<Call> {
        let (inputs, height, width) = self.feature(conv.input);
        let taps = (conv.kernel * conv.kernel) as u32;
        let (elu, coefficients) = match conv.activation {
            Activation::None => (0, Global::NONE),
            Activation::Elu => (1, Global::NONE),
            Activation::NormElu(coefficients) => (1, self.tensor(coefficients)),
        };
        let weights = self.at(self.layout.param(conv.weight));
        let bias = conv.bias.map_or(Global::NONE, |bias| self.vector(bias));
        let residual = self.tensor_or_none(conv.residual);
        let statistics = self.tensor_or_none(conv.statistics);
        let Some(rounding) = rounding(self.precision, conv, |id| self.plan.tensor(id).contents) else {
            return vec![Call::of(&ConvArgs {
                input: self.tensor(conv.input),
                coefficients,
                weights,
                bias,
                residual,
                output: self.tensor(conv.output),
                statistics,
                images: self.batch(),
                in_blocks: self.blocks(conv.input),
                out_blocks: self.blocks(conv.output),
                height,
                width,
                taps,
                dilation: conv.dilation as u32,
                elu,
                multiprocessors: self.multiprocessors,
                unused: 0,
            })];
        };
        let prepared = self.at(scratch);
        let prepare = ConvPrepareArgs {
            input: self.tensor(conv.input),
            coefficients,
            output: prepared,
            images: self.batch(),
            in_blocks: self.blocks(conv.input),
            pixels: height * width,
            elu,
            precision: rounding.code(),
            unused: 0,
        };
        let product = TensorConvArgs {
            input: prepared,
            weights,
            bias,
            residual,
            output: self.tensor(conv.output),
            statistics,
            images: self.batch(),
            units: rounding.units(inputs as usize) as u32,
            out_blocks: self.blocks(conv.output),
            height,
            width,
            taps,
            dilation: conv.dilation as u32,
            precision: rounding.code(),
            multiprocessors: self.multiprocessors,
            unused: 0,
        };
        vec![Call::of(&prepare), Call::of(&product)]
    }
}

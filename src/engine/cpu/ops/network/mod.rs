//! The score network in the blocked layout.

mod attention;
mod concat;
pub mod conv;
mod dense;
mod elu;
mod embed;
mod group_norm;
mod load_image;
mod load_scaled;
mod max_pool;
mod mean_pool;
mod norm_coefficients;
mod reflect;
mod resample;
mod resize_add;
mod store_mixed;
mod store_score;

use std::ops::Range;

use qcs_kernels::network::group_norm::GroupNorm;

use crate::Result;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::{Contents, Conv, NetworkOp, PlanBuilder, TensorId};
use attention::{AttentionShape, attention};
use concat::concat;
pub use conv::BLOCK;
use conv::{Algorithm, ConvShape, Prologue, conv};
use dense::dense;
use elu::elu_map;
use embed::embed;
use group_norm::{LevelTerms, group_norm};
use load_image::load_image;
use load_scaled::load_scaled;
use max_pool::max_pool;
use mean_pool::mean_pool;
use norm_coefficients::{NormParams, norm_coefficients};
use reflect::reflect;
use resample::{Resample, resample};
use resize_add::resize_add;
use store_mixed::store_mixed;
use store_score::store_score;

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn network(&mut self, op: &NetworkOp, scratch: Range<usize>) -> Result<()> {
        let (plan, isa) = (self.plan, self.isa);
        let at = Operands {
            plan,
            arena: &self.arena,
        };
        let size = |id: TensorId| {
            let (_, height, width) = plan.tensor(id).contents.feature();
            (height, width)
        };
        let pixels = |id: TensorId| size(id).0 * size(id).1;
        let channels = |id: TensorId| plan.tensor(id).contents.feature().0;
        match *op {
            NetworkOp::Reflect {
                input,
                from,
                to,
                output,
            } => {
                reflect(self.threads, at.read(input), from, to, at.write(output));
            }
            NetworkOp::LoadImage { x, output } => {
                let (channels, pixels) = (channels(output), pixels(output));
                load_image(self.threads, at.read(x), channels, pixels, at.write(output));
            }
            NetworkOp::LoadScaled { x, level, kind, output } => {
                let (wide, pixels) = (channels(output), pixels(output));
                let (x, level): (&[f32], _) = (at.read(x), at.read(level));
                let channels = (x.len() / plan.batch / pixels, wide);
                load_scaled(self.threads, kind, x, level, channels, pixels, at.write(output));
            }
            NetworkOp::Conv(op) => {
                let prologue = Prologue {
                    coefficients: op.activation.coefficients().map(|tensor| at.read(tensor)),
                    function: op.activation.function(),
                };
                conv(
                    self.threads,
                    isa,
                    conv_shape(plan.batch, &op, |id| plan.tensor(id).contents),
                    &self.convs[&op.weight],
                    at.read(op.input),
                    prologue,
                    self.precision.of_conv(channels(op.input), channels(op.output)),
                    op.residual.map(|r| at.read(r)),
                    at.scratch(scratch),
                    at.write(op.output),
                );
            }
            NetworkOp::NormCoefficients {
                input,
                alpha,
                gamma,
                beta,
                output,
                ..
            } => {
                let pixels = pixels(input);
                let params = NormParams {
                    alpha: self.param(alpha),
                    gamma: self.param(gamma),
                    beta: self.param(beta),
                };
                let (input, output) = (at.read(input), at.write(output));
                norm_coefficients(self.threads, isa, input, pixels, params, output);
            }
            NetworkOp::GroupNorm(op) => {
                let (gamma, beta) = (self.param(op.gamma), self.param(op.beta));
                let norm = GroupNorm {
                    gamma,
                    beta,
                    of_group: gamma.len() / op.groups,
                    epsilon: op.epsilon,
                };
                let terms = op.terms.map(|terms| LevelTerms {
                    kind: terms.kind,
                    values: at.read(terms.tensor),
                    first: terms.first,
                });
                let (pixels, moments) = (pixels(op.input), at.scratch(scratch));
                let (input, output) = (at.read(op.input), at.write(op.output));
                group_norm(self.threads, isa, input, pixels, norm, terms, moments, output);
            }
            NetworkOp::Resample {
                input,
                activation,
                how,
                factor,
                output,
            } => {
                let op = Resample {
                    how,
                    function: activation.function(),
                    factor,
                    coefficients: activation.coefficients().map(|tensor| at.read(tensor)),
                    blocks: channels(input).div_ceil(BLOCK),
                    size: size(input),
                };
                resample(self.threads, isa, op, at.read(input), at.write(output));
            }
            NetworkOp::Concat { first, second, output } => {
                let (first, second) = (at.read(first), at.read(second));
                concat(self.threads, first, second, plan.batch, at.write(output));
            }
            NetworkOp::Attention { input, heads, output } => {
                let shape = attention_shape(plan.batch, heads, plan.tensor(output).contents);
                let (input, scratch) = (at.read(input), at.scratch(scratch));
                attention(self.threads, isa, shape, input, scratch, at.write(output));
            }
            NetworkOp::Embed {
                level,
                told,
                cosines_first,
                frequencies,
                table,
                output,
            } => {
                let (level, frequencies) = (at.read(level), self.param(frequencies));
                let table = table.map_or(&[][..], |table| self.param(table));
                let output = at.write(output);
                embed(self.threads, told, cosines_first, level, frequencies, table, output);
            }
            NetworkOp::Dense {
                input,
                weight,
                bias,
                silu,
                output,
            } => {
                let (weights, bias) = (self.param(weight), self.param(bias));
                let (input, output) = (at.read(input), at.write(output));
                dense(self.threads, isa, input, weights, bias, silu, output);
            }
            NetworkOp::Elu { input, output } => {
                let plane = pixels(input) * BLOCK;
                elu_map(self.threads, isa, at.read(input), plane, at.write(output));
            }
            NetworkOp::MaxPool { input, output } => {
                let (size, scratch) = (size(input), at.scratch(scratch));
                max_pool(self.threads, isa, at.read(input), size, scratch, at.write(output));
            }
            NetworkOp::MeanPool {
                input,
                residual,
                output,
            } => {
                let (size, residual) = (size(input), residual.map(|r| at.read(r)));
                mean_pool(self.threads, isa, at.read(input), residual, size, at.write(output));
            }
            NetworkOp::ResizeAdd { input, addend, output } => {
                let addend = addend.map(|a| at.read(a));
                let (from, to) = (size(input), size(output));
                resize_add(self.threads, isa, at.read(input), from, addend, to, at.write(output));
            }
            NetworkOp::StoreScore { input, level, score } => {
                let (channels, pixels) = (channels(input), pixels(input));
                let (input, level) = (at.read(input), at.read(level));
                store_score(self.threads, input, channels, pixels, level, at.write(score));
            }
            NetworkOp::StoreMixed {
                x,
                input,
                level,
                kind,
                score,
            } => {
                let (channels, pixels) = (channels(input), pixels(input));
                let (x, input, level) = (at.read(x), at.read(input), at.read(level));
                store_mixed(self.threads, kind, x, input, channels, pixels, level, at.write(score));
            }
            NetworkOp::CallOut { x, level, score } => {
                let prior = self.constants.prior.expect("a plan with a network has a prior");
                prior.call(at.read(x), at.read(level), at.write(score))?;
            }
        }
        Ok(())
    }
}

fn attention_shape(batch: usize, heads: usize, output: Contents) -> AttentionShape {
    let (channels, height, width) = output.feature();
    AttentionShape {
        batch,
        blocks: channels / BLOCK,
        heads,
        pixels: height * width,
    }
}

/// Bytes of working memory of an op.
pub fn scratch_bytes(op: &NetworkOp, plan: &PlanBuilder, threads: usize) -> usize {
    let bytes = |id| plan.batch() * plan.contents(id).bytes(BLOCK);
    match *op {
        NetworkOp::Conv(conv) => {
            let shape = conv_shape(plan.batch(), &conv, |id| plan.contents(id));
            4 * shape.scratch_len(threads)
        }
        NetworkOp::MaxPool { input, .. } => bytes(input),
        NetworkOp::GroupNorm(norm) => bytes(norm.output),
        NetworkOp::Attention { heads, output, .. } => {
            4 * attention_shape(plan.batch(), heads, plan.contents(output)).scratch_len(threads)
        }
        _ => 0,
    }
}

/// The shape of a convolution of a plan, and how it is computed.
pub fn conv_shape(batch: usize, op: &Conv, contents: impl Fn(TensorId) -> Contents) -> ConvShape {
    let (inputs, ..) = contents(op.input).feature();
    let (outputs, height, width) = contents(op.output).feature();
    let (in_blocks, out_blocks) = (inputs.div_ceil(BLOCK), outputs.div_ceil(BLOCK));
    ConvShape {
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

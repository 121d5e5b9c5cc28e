//! The score network in the blocked layout.

pub mod conv;
mod elu;
mod load_image;
mod load_scaled;
mod max_pool;
mod mean_pool;
mod norm_coefficients;
mod resize_add;
mod store_mixed;
mod store_score;

use std::ops::Range;

use crate::Result;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::{Activation, Contents, Conv, NetworkOp, TensorId};
pub use conv::BLOCK;
use conv::{Algorithm, ConvShape, Prologue, conv};
use elu::elu_map;
use load_image::load_image;
use load_scaled::load_scaled;
use max_pool::max_pool;
use mean_pool::mean_pool;
use norm_coefficients::{NormParams, norm_coefficients};
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
            NetworkOp::LoadImage { x, output } => {
                let (channels, pixels) = (channels(output), pixels(output));
                load_image(self.threads, at.read(x), channels, pixels, at.write(output));
            }
            NetworkOp::LoadScaled { x, level, output } => {
                let (channels, pixels) = (channels(output) - 1, pixels(output));
                let (x, level) = (at.read(x), at.read(level));
                load_scaled(self.threads, x, level, channels, pixels, at.write(output));
            }
            NetworkOp::Conv(op) => {
                let prologue = match op.activation {
                    Activation::None => Prologue::None,
                    Activation::Elu => Prologue::Elu,
                    Activation::NormElu(coefficients) => Prologue::NormElu(at.read(coefficients)),
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
            NetworkOp::StoreMixed { x, input, level, score } => {
                let (channels, pixels) = (channels(input), pixels(input));
                let (x, input, level) = (at.read(x), at.read(input), at.read(level));
                store_mixed(self.threads, x, input, channels, pixels, level, at.write(score));
            }
            NetworkOp::CallOut { x, level, score } => {
                let prior = self.constants.prior.expect("a plan with a network has a prior");
                prior.call(at.read(x), at.read(level), at.write(score))?;
            }
        }
        Ok(())
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

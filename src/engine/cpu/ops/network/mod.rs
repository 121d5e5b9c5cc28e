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

use crate::Result;
use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::{NetworkOp, PlanBuilder, TensorId};
use attention::AttentionShape;
pub use conv::BLOCK;
use conv::ConvShape;

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn network(&mut self, op: &NetworkOp, scratch: Range<usize>) -> Result<()> {
        match *op {
            NetworkOp::Reflect {
                input,
                from,
                to,
                output,
            } => self.reflect(input, from, to, output),
            NetworkOp::LoadImage { x, output } => self.load_image(x, output),
            NetworkOp::LoadScaled { x, level, kind, output } => self.load_scaled(x, level, kind, output),
            NetworkOp::Conv(op) => self.conv(&op, scratch),
            NetworkOp::NormCoefficients {
                input,
                alpha,
                gamma,
                beta,
                output,
                ..
            } => self.norm_coefficients(input, [alpha, gamma, beta], output),
            NetworkOp::GroupNorm(op) => self.group_norm(op, scratch),
            NetworkOp::Resample {
                input,
                activation,
                how,
                factor,
                output,
            } => self.resample(input, activation, (how, factor), output),
            NetworkOp::Concat { first, second, output } => self.concat(first, second, output),
            NetworkOp::Attention { input, heads, output } => self.attention(input, heads, scratch, output),
            NetworkOp::Embed(op) => self.embed(op),
            NetworkOp::Dense {
                input,
                weight,
                bias,
                silu,
                output,
            } => self.dense(input, (weight, bias), silu, output),
            NetworkOp::Elu { input, output } => self.elu(input, output),
            NetworkOp::MaxPool { input, output } => self.max_pool(input, scratch, output),
            NetworkOp::MeanPool {
                input,
                residual,
                output,
            } => self.mean_pool(input, residual, output),
            NetworkOp::ResizeAdd { input, addend, output } => self.resize_add(input, addend, output),
            NetworkOp::StoreScore { input, level, score } => self.store_score(input, level, score),
            NetworkOp::StoreMixed {
                x,
                input,
                level,
                kind,
                score,
            } => self.store_mixed(x, input, level, kind, score),
            NetworkOp::CallOut { x, level, score } => return self.call_out(x, level, score),
        }
        Ok(())
    }

    fn call_out(&self, x: TensorId, level: TensorId, score: TensorId) -> Result<()> {
        let at = Operands::new(self.plan, &self.arena);
        let prior = self.constants.prior.expect("a plan with a network has a prior");
        prior.call(at.read(x), at.read(level), at.write(score))
    }
}

/// Bytes of working memory of an op.
pub fn scratch_bytes(op: &NetworkOp, plan: &PlanBuilder, threads: usize) -> usize {
    let (batch, contents) = (plan.batch(), |id| plan.contents(id));
    let bytes = |id| batch * plan.contents(id).bytes(BLOCK);
    match *op {
        NetworkOp::Conv(conv) => 4 * ConvShape::new(batch, &conv, contents).scratch_len(threads),
        NetworkOp::MaxPool { input, .. } => bytes(input),
        NetworkOp::GroupNorm(norm) => bytes(norm.output),
        NetworkOp::Attention { heads, output, .. } => {
            4 * AttentionShape::new(batch, heads, contents(output)).scratch_len(threads)
        }
        _ => 0,
    }
}

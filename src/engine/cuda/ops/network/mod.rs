//! The score network.

mod conv;
mod edge;
mod map;
mod norm;
mod vector;

use std::ops::Range;

use super::{Call, Caller};
use crate::plan::NetworkOp;

impl Caller<'_> {
    pub(super) fn network(&self, op: &NetworkOp, scratch: Range<usize>) -> Vec<Call> {
        vec![match *op {
            NetworkOp::Reflect {
                input,
                from,
                to,
                output,
            } => self.reflect(input, from, to, output),
            NetworkOp::LoadImage { x, output } => self.load_image(x, output),
            NetworkOp::LoadScaled { x, level, kind, output } => self.load_scaled(x, level, kind, output),
            NetworkOp::Conv(conv) => return self.conv(&conv, scratch),
            NetworkOp::NormCoefficients {
                input,
                statistics,
                alpha,
                gamma,
                beta,
                output,
            } => {
                let params = [alpha, gamma, beta];
                return self.norm_coefficients(input, statistics, params, output).into();
            }
            NetworkOp::GroupNorm(norm) => return self.group_norm(&norm, scratch.start).into(),
            NetworkOp::Resample {
                input,
                activation,
                how,
                factor,
                output,
            } => self.resample(input, activation, (how, factor), output),
            NetworkOp::Concat { first, second, output } => self.concat(first, second, output),
            NetworkOp::Attention { input, heads, output } => self.attention(input, heads, output),
            NetworkOp::Embed(op) => self.embed(op),
            NetworkOp::Dense {
                input,
                weight,
                bias,
                silu,
                output,
            } => self.dense(input, (weight, bias), silu, output),
            NetworkOp::Elu { input, output } => self.elu(input, output),
            NetworkOp::MaxPool { input, output } => self.max_pool(input, output),
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
            NetworkOp::CallOut { .. } => unreachable!("refused when a session is asked for"),
        }]
    }
}

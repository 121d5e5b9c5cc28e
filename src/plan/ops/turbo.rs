//! Turbo: the steps between EP and the denoiser. What a state is, the kernels' `turbo` room says.

use super::{Operands, Packing, Sites};
use crate::plan::{ParamId, Plan, TensorId};

/// States without a step behind them begin: mu is the mean of the data, nu its variance, EP has no sites
#[derive(Clone, Copy, Debug)]
pub struct TurboStart {
    pub mean: ParamId,
    /// Standard deviation of the data about their mean
    pub deviation: f64,
    pub steps: TensorId,
    pub mu: TensorId,
    pub level: TensorId,
    pub sites: Sites,
    pub scalars: TensorId,
    pub done: TensorId,
}

/// The measurements as a linear filter, in the eigenbasis: output = input/tau^G/(nu·lambda + w); q, max h and the
/// extrinsic standard deviation
#[derive(Clone, Copy, Debug)]
pub struct TurboFilter {
    pub level: TensorId,
    pub input: TensorId,
    pub tau_g: TensorId,
    pub output: TensorId,
    pub filter: TensorId,
    /// N
    pub pixels: usize,
}

/// The scale of an image that signs leave open: z = A·mu, mu and r times one factor to each state
#[derive(Clone, Copy, Debug)]
pub struct TurboScale {
    pub steps: TensorId,
    pub done: TensorId,
    pub level: TensorId,
    pub d: TensorId,
    pub z: TensorId,
    pub mu: TensorId,
    pub r: TensorId,
    pub scalars: TensorId,
    /// Mean and spread of ln of an image's brightest value
    pub peak: (f64, f64),
}

/// A damped step of (r, s) with momentum towards the extrinsic message
#[derive(Clone, Copy, Debug)]
pub struct TurboStep {
    pub steps: TensorId,
    pub done: TensorId,
    pub mu: TensorId,
    pub score: TensorId,
    pub filter: TensorId,
    pub r: TensorId,
    pub s: TensorId,
    pub velocity: TensorId,
    pub f: TensorId,
    pub scalars: TensorId,
    /// The least s and the largest
    pub bounds: (f64, f64),
}

/// d = r + s²·prior, the message (mu, nu) that it becomes, and whether the state is done
#[derive(Clone, Copy, Debug)]
pub struct TurboDenoise {
    pub log_levels: ParamId,
    pub log_ratios: ParamId,
    pub entries: usize,
    pub r: TensorId,
    pub s: TensorId,
    pub prior: TensorId,
    pub d: TensorId,
    pub mu: TensorId,
    pub level: TensorId,
    pub scalars: TensorId,
    pub steps: TensorId,
    pub done: TensorId,
    pub tolerance: f64,
    pub most: u32,
}

/// x is r with so much fresh noise that its level is spread·s
#[derive(Clone, Copy, Debug)]
pub struct TurboDrawStart {
    pub r: TensorId,
    pub s: TensorId,
    pub x: TensorId,
    pub level: TensorId,
    pub ratio: TensorId,
    pub done: TensorId,
    pub spread: f64,
    pub end: f64,
    pub count: u32,
}

/// A step of the reverse SDE from x's level to the next
#[derive(Clone, Copy, Debug)]
pub struct TurboDraw {
    pub prior: TensorId,
    pub ratio: TensorId,
    pub x: TensorId,
    pub level: TensorId,
    pub count: u32,
}

/// An op of turbo.
#[derive(Clone, Copy, Debug)]
pub enum TurboOp {
    Start(TurboStart),
    Filter(TurboFilter),
    Scale(TurboScale),
    Step(TurboStep),
    Denoise(TurboDenoise),
    DrawStart(TurboDrawStart),
    Draw(TurboDraw),
}

impl TurboOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "turbo_start",
            Self::Filter(_) => "turbo_filter",
            Self::Scale(_) => "turbo_scale",
            Self::Step(_) => "turbo_step",
            Self::Denoise(_) => "turbo_denoise",
            Self::DrawStart(_) => "turbo_draw_start",
            Self::Draw(_) => "turbo_draw",
        }
    }

    /// Whether the op reads the eigenvalues of A·Aᵀ.
    pub fn needs_spectrum(&self) -> bool {
        matches!(self, Self::Filter(_))
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::Start(TurboStart {
                steps,
                mu,
                level,
                sites,
                scalars,
                done,
                ..
            }) => Operands::new(
                [steps],
                [mu, level, sites.z, sites.h_g, sites.tau_g, sites.count, scalars, done],
            ),
            Self::Filter(TurboFilter {
                level,
                input,
                tau_g,
                output,
                filter,
                ..
            }) => Operands::new([level, input, tau_g], [output, filter]),
            Self::Scale(TurboScale {
                steps,
                done,
                level,
                d,
                z,
                mu,
                r,
                scalars,
                ..
            }) => Operands::new([steps, done, level, d], [z, mu, r, scalars]),
            Self::Step(TurboStep {
                steps,
                done,
                mu,
                score,
                filter,
                r,
                s,
                velocity,
                f,
                scalars,
                ..
            }) => Operands::new([steps, done, mu, score, filter], [r, s, velocity, f, scalars]),
            Self::Denoise(TurboDenoise {
                r,
                s,
                prior,
                d,
                mu,
                level,
                scalars,
                steps,
                done,
                ..
            }) => Operands::new([r, s, prior], [d, mu, level, scalars, steps, done]),
            Self::DrawStart(TurboDrawStart {
                r,
                s,
                x,
                level,
                ratio,
                done,
                ..
            }) => Operands::new([r, s], [x, level, ratio, done]),
            Self::Draw(TurboDraw {
                prior, ratio, x, level, ..
            }) => Operands::new([prior, ratio], [x, level]),
        }
    }

    pub fn params(&self) -> Vec<(ParamId, Packing)> {
        match *self {
            Self::Start(TurboStart { mean, .. }) => vec![(mean, Packing::Channels)],
            Self::Denoise(TurboDenoise {
                log_levels, log_ratios, ..
            }) => vec![(log_levels, Packing::Channels), (log_ratios, Packing::Channels)],
            Self::Filter(_) | Self::Scale(_) | Self::Step(_) | Self::DrawStart(_) | Self::Draw(_) => Vec::new(),
        }
    }

    pub fn flops(&self, _: &Plan) -> u64 {
        0
    }
}

//! Turbo: the steps between EP and the denoiser. What a state is, the kernels' `turbo` room says.

use super::{Operands, Packing};
use crate::plan::{ParamId, Plan, TensorId};

/// An op of turbo.
#[derive(Clone, Copy, Debug)]
pub enum TurboOp {
    /// States without a step behind them begin: mu is the mean of the data, nu its variance, EP has no sites
    Start {
        mean: ParamId,
        /// Standard deviation of the data about their mean
        deviation: f64,
        steps: TensorId,
        mu: TensorId,
        level: TensorId,
        sites: Sites,
        scalars: TensorId,
        done: TensorId,
    },
    /// The measurements as a linear filter, in the eigenbasis: output = input/tau^G/(nu·lambda + w); q, max h and the
    /// extrinsic standard deviation
    Filter {
        level: TensorId,
        input: TensorId,
        tau_g: TensorId,
        output: TensorId,
        filter: TensorId,
        /// N
        pixels: usize,
    },
    /// A damped step of (r, s) with momentum towards the extrinsic message
    Step {
        steps: TensorId,
        done: TensorId,
        mu: TensorId,
        score: TensorId,
        filter: TensorId,
        r: TensorId,
        s: TensorId,
        velocity: TensorId,
        f: TensorId,
        scalars: TensorId,
        /// The least s and the largest
        bounds: (f64, f64),
    },
    /// d = r + s²·prior, the message (mu, nu) that it becomes, and whether the state is done
    Denoise {
        log_levels: ParamId,
        log_ratios: ParamId,
        entries: usize,
        r: TensorId,
        s: TensorId,
        prior: TensorId,
        d: TensorId,
        mu: TensorId,
        level: TensorId,
        scalars: TensorId,
        steps: TensorId,
        done: TensorId,
        tolerance: f64,
        most: u32,
    },
    /// x is r with so much fresh noise that its level is spread·s
    DrawStart {
        r: TensorId,
        s: TensorId,
        x: TensorId,
        level: TensorId,
        ratio: TensorId,
        done: TensorId,
        spread: f64,
        end: f64,
        count: u32,
    },
    /// A step of the reverse SDE from x's level to the next
    Draw {
        prior: TensorId,
        ratio: TensorId,
        x: TensorId,
        level: TensorId,
        count: u32,
    },
}

/// EP's sites, carried from one round to the next, and the count of its iterations.
#[derive(Clone, Copy, Debug)]
pub struct Sites {
    /// The A·x that the sites were made at, `[M]`
    pub z: TensorId,
    /// `[M]`
    pub h_g: TensorId,
    pub tau_g: TensorId,
    pub count: TensorId,
}

impl TurboOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "turbo_start",
            Self::Filter { .. } => "turbo_filter",
            Self::Step { .. } => "turbo_step",
            Self::Denoise { .. } => "turbo_denoise",
            Self::DrawStart { .. } => "turbo_draw_start",
            Self::Draw { .. } => "turbo_draw",
        }
    }

    /// Whether the op reads the eigenvalues of A·Aᵀ.
    pub fn needs_spectrum(&self) -> bool {
        matches!(self, Self::Filter { .. })
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::Start {
                steps,
                mu,
                level,
                sites,
                scalars,
                done,
                ..
            } => Operands::new(
                [steps],
                [mu, level, sites.z, sites.h_g, sites.tau_g, sites.count, scalars, done],
            ),
            Self::Filter {
                level,
                input,
                tau_g,
                output,
                filter,
                ..
            } => Operands::new([level, input, tau_g], [output, filter]),
            Self::Step {
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
            } => Operands::new([steps, done, mu, score, filter], [r, s, velocity, f, scalars]),
            Self::Denoise {
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
            } => Operands::new([r, s, prior], [d, mu, level, scalars, steps, done]),
            Self::DrawStart {
                r,
                s,
                x,
                level,
                ratio,
                done,
                ..
            } => Operands::new([r, s], [x, level, ratio, done]),
            Self::Draw {
                prior, ratio, x, level, ..
            } => Operands::new([prior, ratio], [x, level]),
        }
    }

    pub fn params(&self) -> Vec<(ParamId, Packing)> {
        match *self {
            Self::Start { mean, .. } => vec![(mean, Packing::Channels)],
            Self::Denoise {
                log_levels, log_ratios, ..
            } => vec![(log_levels, Packing::Channels), (log_ratios, Packing::Channels)],
            Self::Filter { .. } | Self::Step { .. } | Self::DrawStart { .. } | Self::Draw { .. } => Vec::new(),
        }
    }

    pub fn flops(&self, _: &Plan) -> u64 {
        0
    }
}

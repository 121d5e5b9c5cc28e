//! Annealed Langevin dynamics: the state, its noise level, its update.

use super::Operands;
use crate::plan::{Plan, Step, TensorId};

/// What a step of Langevin dynamics computes with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LangevinNumbers {
    /// The noise level that [`SamplerOp::SetLevel`] gives every state
    pub beta: f64,
    /// The step size alpha_t
    pub alpha: f64,
    /// Standard deviation of the noise that the step adds
    pub noise: f64,
    /// The share of the previous step's movement that this one repeats; where it is 0, none is looked at.
    pub momentum: f64,
}

impl Step {
    /// A step of the paper's: without momentum, noise of variance 2·alpha.
    pub fn plain(beta: f64, alpha: f64, index: u32) -> Self {
        let langevin = LangevinNumbers {
            beta,
            alpha,
            noise: (2.0 * alpha).sqrt(),
            momentum: 0.0,
        };
        Self {
            langevin,
            index,
            stage: 1,
        }
    }
}

/// The factor of the likelihood score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GammaRule {
    /// gamma = xi·‖prior score‖/‖likelihood score‖ (27), per state and step; bounded where the measurements are satisfied
    Adaptive { xi: f64 },
    /// The same factor throughout
    Constant { gamma: f64 },
}

impl GammaRule {
    /// xi, or gamma itself.
    pub fn factor(self) -> f64 {
        match self {
            Self::Adaptive { xi: factor } | Self::Constant { gamma: factor } => factor,
        }
    }

    /// Whether gamma follows the norms.
    pub fn is_adaptive(self) -> bool {
        matches!(self, Self::Adaptive { .. })
    }
}

/// x += momentum·velocity + alpha·(prior + gamma·likelihood) + noise·z, z normal; a state that would become
/// non-finite is frozen
#[derive(Clone, Copy, Debug)]
pub struct Langevin {
    pub x: TensorId,
    pub prior: TensorId,
    /// The score and its gamma
    pub likelihood: Option<(TensorId, TensorId)>,
    /// What the step added to x, for the next one to repeat a part of it
    pub velocity: Option<TensorId>,
    pub frozen: TensorId,
}

/// An op of the sampler.
#[derive(Clone, Copy, Debug)]
pub enum SamplerOp {
    /// x ~ U(0, 1), and no state is frozen
    StartState {
        x: TensorId,
        frozen: TensorId,
    },
    /// The noise level of every state is the step's
    SetLevel {
        level: TensorId,
    },
    /// gamma = xi·‖prior‖/‖likelihood‖ per state, bounded, or a constant; 0 where the likelihood score vanishes
    Gamma {
        prior: TensorId,
        likelihood: TensorId,
        rule: GammaRule,
        gamma: TensorId,
    },
    Langevin(Langevin),
    /// x += level²·prior
    Denoise {
        x: TensorId,
        level: TensorId,
        prior: TensorId,
        frozen: TensorId,
    },
}

impl SamplerOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::StartState { .. } => "start_state",
            Self::SetLevel { .. } => "set_level",
            Self::Gamma { .. } => "gamma",
            Self::Langevin(_) => "langevin",
            Self::Denoise { .. } => "denoise",
        }
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::StartState { x, frozen } => Operands::new([], [x, frozen]),
            Self::SetLevel { level } => Operands::new([], [level]),
            Self::Gamma {
                prior,
                likelihood,
                gamma,
                ..
            } => Operands::new([prior, likelihood], [gamma]),
            Self::Langevin(Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            }) => {
                let (score, gamma) = likelihood.unzip();
                let reads = [Some(prior), score, gamma, Some(frozen)];
                let writes = [Some(x), Some(frozen), velocity];
                Operands::new(reads.into_iter().flatten(), writes.into_iter().flatten())
            }
            Self::Denoise {
                x,
                level,
                prior,
                frozen,
            } => Operands::new([level, prior, frozen], [x]),
        }
    }

    pub fn flops(&self, _: &Plan) -> u64 {
        0
    }
}

//! The measurements: expectation propagation and its diagonal forerunner. `level` is the noise level beta of each state,
//! C_t⁻¹ = sigma²·I + beta²·A·Aᵀ the covariance that it gives the measurements.

use super::Operands;
use crate::plan::{Plan, TensorId};

/// The first message of EP, h^F = 0 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EpStart {
    /// tau^F = 1, as in the paper's code
    #[default]
    Unit,
    /// tau^F = 1/mean diag(C_t⁻¹): the variance that the factorised Gaussian will end near
    Matched,
}

/// An op of the likelihood.
#[derive(Clone, Copy, Debug)]
pub enum LikelihoodOp {
    /// h^F = 0 and tau^F as the settings say
    EpStart {
        level: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        start: EpStart,
    },
    /// Moments of the cells under N(h^F/tau^F, 1/tau^F): h^G = m^a/chi^a − h^F, tau^G = 1/chi^a − tau^F
    EpMoments {
        z: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        h_g: TensorId,
        tau_g: TensorId,
    },
    /// In the eigenbasis: output = (w/chi^b − 1)∘input, w = 1/(tau^G + D), and the new tau^F
    EpSeparate {
        level: TensorId,
        input: TensorId,
        tau_g: TensorId,
        output: TensorId,
        tau_f: TensorId,
    },
    /// g_m of the paper's pseudo-likelihood score, under N(h^F/tau^F, 1/tau^F)
    EpGradient {
        z: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        g: TensorId,
    },
    /// g_m with the diagonal of C_t⁻¹: QCS-SGM
    DiagGradient { level: TensorId, z: TensorId, g: TensorId },
}

impl LikelihoodOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::EpStart { .. } => "ep_start",
            Self::EpMoments { .. } => "ep_moments",
            Self::EpSeparate { .. } => "ep_separate",
            Self::EpGradient { .. } => "ep_gradient",
            Self::DiagGradient { .. } => "diag_gradient",
        }
    }

    /// Whether the op reads the eigenvalues of A·Aᵀ.
    pub fn needs_spectrum(&self) -> bool {
        matches!(self, Self::EpSeparate { .. })
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::EpStart { level, h_f, tau_f, .. } => Operands::new([level], [h_f, tau_f]),
            Self::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
            } => Operands::new([z, h_f, tau_f], [h_g, tau_g]),
            Self::EpSeparate {
                level,
                input,
                tau_g,
                output,
                tau_f,
            } => Operands::new([level, input, tau_g], [output, tau_f]),
            Self::EpGradient { z, h_f, tau_f, g } => Operands::new([z, h_f, tau_f], [g]),
            Self::DiagGradient { level, z, g } => Operands::new([level, z], [g]),
        }
    }

    pub fn flops(&self, _: &Plan) -> u64 {
        0
    }
}

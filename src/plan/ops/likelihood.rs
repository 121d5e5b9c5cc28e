//! The measurements: expectation propagation and its diagonal forerunner. `level` is the noise level beta of each state,
//! C_t⁻¹ = sigma²·I + beta²·A·Aᵀ the covariance that it gives the measurements.

use super::{Operands, Sites};
use crate::plan::{Plan, TensorId};

/// The first message of EP, h^F = 0 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpStart {
    /// tau^F = 1, as in the paper's code
    #[default]
    Unit,
    /// tau^F = 1/mean diag(C_t⁻¹): the variance that the factorised Gaussian will end near
    Matched,
}

impl std::str::FromStr for EpStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unit" => Ok(Self::Unit),
            "matched" => Ok(Self::Matched),
            _ => Err("unit or matched is needed".to_owned()),
        }
    }
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
        /// Only states where it is not 0 are computed
        live: Option<TensorId>,
    },
    /// Sites that say nothing yet
    EpReset { sites: Sites },
    /// EP goes on from the sites of an earlier round at another z, for the states whose flag `resting` is 0
    EpCarry {
        resting: TensorId,
        z: TensorId,
        sites: Sites,
        live: TensorId,
        /// `[2]`: the damping, and the change of the last iteration
        pace: TensorId,
    },
    /// h^G and tau^G of live states are mixed with new ones, by the damping
    EpDamp {
        live: TensorId,
        pace: TensorId,
        new_h_g: TensorId,
        new_tau_g: TensorId,
        sites: Sites,
    },
    /// h^F and tau^F of live states are taken over; those that moved less than the tolerance live no longer
    EpSettle {
        new_h_f: TensorId,
        new_tau_f: TensorId,
        sites: Sites,
        h_f: TensorId,
        tau_f: TensorId,
        pace: TensorId,
        live: TensorId,
        tolerance: f64,
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
            Self::EpReset { .. } => "ep_reset",
            Self::EpCarry { .. } => "ep_carry",
            Self::EpDamp { .. } => "ep_damp",
            Self::EpSettle { .. } => "ep_settle",
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
                live,
            } => Operands::new(
                [Some(z), Some(h_f), Some(tau_f), live].into_iter().flatten(),
                [h_g, tau_g],
            ),
            Self::EpReset { sites } => Operands::new([], [sites.z, sites.h_g, sites.tau_g, sites.count]),
            Self::EpCarry {
                resting,
                z,
                sites,
                live,
                pace,
            } => Operands::new([resting, z, sites.tau_g], [sites.z, sites.h_g, live, pace]),
            Self::EpDamp {
                live,
                pace,
                new_h_g,
                new_tau_g,
                sites,
            } => Operands::new([live, pace, new_h_g, new_tau_g], [sites.h_g, sites.tau_g]),
            Self::EpSettle {
                new_h_f,
                new_tau_f,
                sites,
                h_f,
                tau_f,
                pace,
                live,
                ..
            } => Operands::new([new_h_f, new_tau_f, sites.h_g], [h_f, tau_f, pace, live, sites.count]),
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

//! The measurements: expectation propagation and its diagonal forerunner. `level` is the noise level beta of each state,
//! C_t⁻¹ = sigma²·I + beta²·A·Aᵀ the covariance that it gives the measurements.

use super::Operands;
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

/// Moments of the cells under N(h^F/tau^F, 1/tau^F): h^G = m^a/chi^a − h^F, tau^G = 1/chi^a − tau^F
#[derive(Clone, Copy, Debug)]
pub struct EpMoments {
    pub z: TensorId,
    pub h_f: TensorId,
    pub tau_f: TensorId,
    pub h_g: TensorId,
    pub tau_g: TensorId,
    /// Only states where it is not 0 are computed
    pub live: Option<TensorId>,
}

/// EP goes on from the sites of an earlier round at another z, for the states whose flag `resting` is 0
#[derive(Clone, Copy, Debug)]
pub struct EpCarry {
    pub resting: TensorId,
    pub z: TensorId,
    pub sites: Sites,
    pub live: TensorId,
    /// `[2]`: the damping, and the change of the last iteration
    pub pace: TensorId,
}

/// h^G and tau^G of live states are mixed with new ones, by the damping
#[derive(Clone, Copy, Debug)]
pub struct EpDamp {
    pub live: TensorId,
    pub pace: TensorId,
    pub new_h_g: TensorId,
    pub new_tau_g: TensorId,
    pub sites: Sites,
}

/// h^F and tau^F of live states are taken over; those that moved less than the tolerance live no longer
#[derive(Clone, Copy, Debug)]
pub struct EpSettle {
    pub new_h_f: TensorId,
    pub new_tau_f: TensorId,
    pub sites: Sites,
    pub h_f: TensorId,
    pub tau_f: TensorId,
    pub pace: TensorId,
    pub live: TensorId,
    pub tolerance: f64,
}

/// In the eigenbasis: output = (w/chi^b − 1)∘input, w = 1/(tau^G + D), and the new tau^F
#[derive(Clone, Copy, Debug)]
pub struct EpSeparate {
    pub level: TensorId,
    pub input: TensorId,
    pub tau_g: TensorId,
    pub output: TensorId,
    pub tau_f: TensorId,
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
    EpMoments(EpMoments),
    /// Sites that say nothing yet
    EpReset {
        sites: Sites,
    },
    EpCarry(EpCarry),
    EpDamp(EpDamp),
    EpSettle(EpSettle),
    EpSeparate(EpSeparate),
    /// g_m of the paper's pseudo-likelihood score, under N(h^F/tau^F, 1/tau^F)
    EpGradient {
        z: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        g: TensorId,
    },
    /// g_m with the diagonal of C_t⁻¹: QCS-SGM
    DiagGradient {
        level: TensorId,
        z: TensorId,
        g: TensorId,
    },
}

impl LikelihoodOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::EpStart { .. } => "ep_start",
            Self::EpMoments(_) => "ep_moments",
            Self::EpReset { .. } => "ep_reset",
            Self::EpCarry(_) => "ep_carry",
            Self::EpDamp(_) => "ep_damp",
            Self::EpSettle(_) => "ep_settle",
            Self::EpSeparate(_) => "ep_separate",
            Self::EpGradient { .. } => "ep_gradient",
            Self::DiagGradient { .. } => "diag_gradient",
        }
    }

    /// Whether the op reads the eigenvalues of A·Aᵀ.
    pub fn needs_spectrum(&self) -> bool {
        matches!(self, Self::EpSeparate(_))
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::EpStart { level, h_f, tau_f, .. } => Operands::new([level], [h_f, tau_f]),
            Self::EpMoments(EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live,
            }) => Operands::new(
                [Some(z), Some(h_f), Some(tau_f), live].into_iter().flatten(),
                [h_g, tau_g],
            ),
            Self::EpReset { sites } => Operands::new([], [sites.z, sites.h_g, sites.tau_g, sites.count]),
            Self::EpCarry(EpCarry {
                resting,
                z,
                sites,
                live,
                pace,
            }) => Operands::new([resting, z, sites.tau_g], [sites.z, sites.h_g, live, pace]),
            Self::EpDamp(EpDamp {
                live,
                pace,
                new_h_g,
                new_tau_g,
                sites,
            }) => Operands::new([live, pace, new_h_g, new_tau_g], [sites.h_g, sites.tau_g]),
            Self::EpSettle(EpSettle {
                new_h_f,
                new_tau_f,
                sites,
                h_f,
                tau_f,
                pace,
                live,
                ..
            }) => Operands::new([new_h_f, new_tau_f, sites.h_g], [h_f, tau_f, pace, live, sites.count]),
            Self::EpSeparate(EpSeparate {
                level,
                input,
                tau_g,
                output,
                tau_f,
            }) => Operands::new([level, input, tau_g], [output, tau_f]),
            Self::EpGradient { z, h_f, tau_f, g } => Operands::new([z, h_f, tau_f], [g]),
            Self::DiagGradient { level, z, g } => Operands::new([level, z], [g]),
        }
    }

    pub fn flops(&self, _: &Plan) -> u64 {
        0
    }
}

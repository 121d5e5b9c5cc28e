//! The likelihood score: expectation propagation (QCS-SGM+) and its diagonal forerunner (QCS-SGM), as ops of a plan.
//!
//! With C_t⁻¹ = sigma²·I + beta²·A·Aᵀ the noise that the state adds to the measurements, EP finds a factorised Gaussian
//! N(h^F/tau^F, 1/tau^F) in its place by passing messages between the cells (node a) and the covariance (node b). One
//! eigendecomposition A·Aᵀ = U·diag(lambda)·Uᵀ serves every level; an iteration costs two products with U.

mod score;

use crate::plan::{Contents, Op, Plan, PlanBuilder, Program, Target, TensorId};
use crate::problem::Problem;

/// How the likelihood score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// QCS-SGM+: expectation propagation
    Ep,
    /// QCS-SGM: the diagonal of C_t⁻¹
    Diag,
}

impl Method {
    /// The name in the paper.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ep => "QCS-SGM+",
            Self::Diag => "QCS-SGM",
        }
    }

    /// The name on the command line and in file names.
    pub fn key(self) -> &'static str {
        match self {
            Self::Ep => "ep",
            Self::Diag => "diag",
        }
    }
}

/// The first message of EP, h^F = 0 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpStart {
    /// tau^F = 1
    Unit,
    /// tau^F = 1/mean diag(C_t⁻¹): the variance that the factorised Gaussian will end near
    Matched,
}

/// The likelihood's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likelihood {
    pub method: Method,
    /// IterEP of the paper.
    pub ep_iterations: usize,
    pub ep_start: EpStart,
}

impl Default for Likelihood {
    fn default() -> Self {
        Self {
            method: Method::Ep,
            ep_iterations: 5,
            ep_start: EpStart::Unit,
        }
    }
}

impl Likelihood {
    /// Appends the likelihood score of `x`; returns the tensor that holds it, `[N]` per state.
    pub fn push(&self, plan: &mut PlanBuilder, problem: &Problem, x: TensorId) -> TensorId {
        let (m, n) = (problem.a().rows(), problem.a().cols());
        let z = plan.temporary(Contents::F64(m));
        plan.push(Op::Project { x, z });
        let g = plan.temporary(Contents::F64(m));
        match self.method {
            Method::Diag => plan.push(Op::DiagGradient { z, g }),
            Method::Ep => self.push_ep(plan, z, g, m, problem.is_rotated()),
        }
        let score = plan.temporary(Contents::F32(n));
        plan.push(Op::BackProject { g, score });
        score
    }

    fn push_ep(&self, plan: &mut PlanBuilder, z: TensorId, g: TensorId, m: usize, rotated: bool) {
        let h_f = plan.temporary(Contents::F64(m));
        let tau_f = plan.temporary(Contents::F64(1));
        let h_g = plan.temporary(Contents::F64(m));
        let tau_g = plan.temporary(Contents::F64(1));
        let start = self.ep_start;
        plan.push(Op::EpStart { h_f, tau_f, start });
        for _ in 0..self.ep_iterations {
            plan.push(Op::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
            });
            // Where U is the identity, the eigenbasis is the one we are in.
            let (input, output) = if rotated {
                let input = plan.temporary(Contents::F64(m));
                plan.push(Op::RotateIn {
                    input: h_g,
                    output: input,
                });
                (input, plan.temporary(Contents::F64(m)))
            } else {
                (h_g, h_f)
            };
            plan.push(Op::EpSeparate {
                input,
                tau_g,
                output,
                tau_f,
            });
            if rotated {
                plan.push(Op::RotateOut {
                    input: output,
                    output: h_f,
                });
            }
        }
        plan.push(Op::EpGradient { z, h_f, tau_f, g });
    }
}

/// A plan that only evaluates the likelihood score, and where its input and output lie.
pub struct LikelihoodPlan {
    pub plan: Plan,
    pub x: TensorId,
    pub score: TensorId,
}

impl LikelihoodPlan {
    pub fn new(likelihood: &Likelihood, problem: &Problem, batch: usize, target: &dyn Target) -> Self {
        let mut plan = PlanBuilder::new(batch, target);
        let x = plan.persistent(Contents::F32(problem.a().cols()));
        plan.begin(Program::Likelihood);
        let score = likelihood.push(&mut plan, problem, x);
        plan.keep(score);
        Self {
            plan: plan.finish(target),
            x,
            score,
        }
    }
}

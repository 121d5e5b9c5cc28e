//! The likelihood score, as ops of a plan: expectation propagation (QCS-SGM+) and its diagonal forerunner (QCS-SGM).
//!
//! With C_t⁻¹ = sigma²·I + beta²·A·Aᵀ the covariance that a state's noise level gives the measurements.

mod diag;
mod ep;
mod settled;

pub use crate::plan::EpStart;
pub use diag::Diag;
pub use ep::Ep;
pub use settled::SettledEp;

use crate::plan::{Contents, PlanBuilder, ProductOp, TensorId};
use crate::problem::Problem;

/// How the likelihood score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likelihood {
    Ep(Ep),
    Diag(Diag),
}

impl Default for Likelihood {
    fn default() -> Self {
        Self::Ep(Ep::default())
    }
}

impl Likelihood {
    /// Appends the likelihood score of `x`, `[N]` per state, at the noise level of each state; returns the tensor that
    /// holds it, `[N]` per state.
    pub fn push(&self, plan: &mut PlanBuilder, problem: &Problem, x: TensorId, level: TensorId) -> TensorId {
        let (m, n) = (problem.a().rows(), problem.a().cols());
        let z = plan.temporary(Contents::F64(m));
        plan.push(ProductOp::Project { x, z });
        let g = plan.temporary(Contents::F64(m));
        match self {
            Self::Ep(ep) => ep.push(plan, problem, level, z, g),
            Self::Diag(diag) => diag.push(plan, level, z, g),
        }
        let score = plan.temporary(Contents::F32(n));
        plan.push(ProductOp::BackProject { g, score });
        score
    }
}

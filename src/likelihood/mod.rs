//! The likelihood score, as ops of a plan: expectation propagation (QCS-SGM+) and its diagonal forerunner (QCS-SGM).
//!
//! C_t⁻¹ = sigma²·I + beta²·A·Aᵀ is the covariance that a state's noise level gives the measurements, equations (5) and (6) of
//! the paper. Numbers in parentheses are its equations; `docs/notation.md` has them all.

mod diag;
mod ep;
mod settled;

pub use crate::plan::EpStart;
pub use diag::Diag;
pub use ep::Ep;
pub use settled::SettledEp;

use crate::plan::{Contents, LikelihoodOp, PlanBuilder, Sites, TensorId};
use crate::problem::Problem;

/// Appends `push` between products with Uᵀ and U: it is given the rotated `input` and what will be rotated to `output`, both
/// `[M]` per state. Where U is the identity, the eigenbasis is the one we are in, and nothing is multiplied.
pub fn in_eigenbasis(
    plan: &mut PlanBuilder,
    problem: &Problem,
    input: TensorId,
    output: TensorId,
    push: impl FnOnce(&mut PlanBuilder, TensorId, TensorId),
) {
    if !problem.rotates() {
        return push(plan, input, output);
    }
    let [rotated, result] = [(); 2].map(|()| plan.temporary(Contents::F64(problem.a().rows())));
    problem.a().push_rotation(plan, input, rotated);
    push(plan, rotated, result);
    problem.a().push_rotation_back(plan, result, output);
}

/// How the likelihood score is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likelihood {
    Ep(Ep),
    /// EP that carries its sites from step to step
    Settled(SettledEp),
    Diag(Diag),
}

/// What EP has from earlier steps, and the flag of each state that is other than 0 where it rests.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub sites: Sites,
    pub resting: TensorId,
}

impl Default for Likelihood {
    fn default() -> Self {
        Self::Ep(Ep::default())
    }
}

impl Likelihood {
    /// Whether it has something from earlier steps.
    pub fn carries(&self) -> bool {
        matches!(self, Self::Settled(_))
    }

    /// Appends the likelihood score of `x`, `[N]` per state, at the noise level of each state; returns the tensor that
    /// holds it, `[N]` per state.
    ///
    /// A likelihood that [carries](Likelihood::carries) something needs `carried`, its sites [emptied](LikelihoodOp::EpReset)
    /// before the first step.
    pub fn push(
        &self,
        plan: &mut PlanBuilder,
        problem: &Problem,
        x: TensorId,
        level: TensorId,
        carried: Option<Carried>,
    ) -> TensorId {
        let (m, n) = (problem.a().rows(), problem.a().cols());
        let z = plan.temporary(Contents::F64(m));
        problem.a().push(plan, x, z);
        let g = plan.temporary(Contents::F64(m));
        match self {
            Self::Ep(ep) => ep.push(plan, problem, level, z, g),
            Self::Settled(ep) => {
                let Carried { sites, resting } = carried.expect("settled EP carries sites");
                let (h_f, tau_f) = ep.push(plan, problem, resting, level, z, sites);
                plan.push(LikelihoodOp::EpGradient { z, h_f, tau_f, g });
            }
            Self::Diag(diag) => diag.push(plan, level, z, g),
        }
        // (23): the score with respect to x is Aᵀ·g.
        let score = plan.temporary(Contents::F32(n));
        problem.a().push_adjoint(plan, g, score);
        score
    }
}

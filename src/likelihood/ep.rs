//! QCS-SGM+: expectation propagation finds a factorised Gaussian N(h^F/tau^F, 1/tau^F) in the place of N(0, C_t⁻¹) (8a), by
//! passing messages between the cells (node a) and the covariance (node b) until their moments agree (18), (19). One
//! eigendecomposition A·Aᵀ = U·diag(lambda)·Uᵀ serves every level; an iteration costs two products with U.

use super::in_eigenbasis;
use crate::plan::{Contents, EpMoments, EpSeparate, EpStart, LikelihoodOp, PlanBuilder, TensorId};
use crate::problem::Problem;

/// EP's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ep {
    /// IterEP of the paper
    pub iterations: usize,
    pub start: EpStart,
}

impl Default for Ep {
    fn default() -> Self {
        Self {
            iterations: 5,
            start: EpStart::Unit,
        }
    }
}

impl Ep {
    /// Appends the gradient `g` with respect to `z` = A·x, both `[M]` per state.
    pub fn push(&self, plan: &mut PlanBuilder, problem: &Problem, level: TensorId, z: TensorId, g: TensorId) {
        let m = problem.a().rows();
        let h_f = plan.temporary(Contents::F64(m));
        let tau_f = plan.temporary(Contents::F64(1));
        let h_g = plan.temporary(Contents::F64(m));
        let tau_g = plan.temporary(Contents::F64(1));
        plan.push(LikelihoodOp::EpStart {
            level,
            h_f,
            tau_f,
            start: self.start,
        });
        for _ in 0..self.iterations {
            // (9), (10), then h^G = m^a/chi^a − h^F and tau^G = 1/chi^a − tau^F (Algorithm 1).
            plan.push(EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live: None,
            });
            // (25), (26), then h^F = m^b/chi^b − h^G and tau^F = 1/chi^b − tau^G.
            in_eigenbasis(plan, problem, h_g, h_f, |plan, input, output| {
                plan.push(EpSeparate {
                    level,
                    input,
                    tau_g,
                    output,
                    tau_f,
                });
            });
        }
        // (24).
        plan.push(LikelihoodOp::EpGradient { z, h_f, tau_f, g });
    }
}

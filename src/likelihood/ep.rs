//! QCS-SGM+: expectation propagation finds a factorised Gaussian N(h^F/tau^F, 1/tau^F) in the place of N(0, C_t⁻¹), by
//! passing messages between the cells (node a) and the covariance (node b). One eigendecomposition
//! A·Aᵀ = U·diag(lambda)·Uᵀ serves every level; an iteration costs two products with U.

use crate::plan::{Contents, EpStart, LikelihoodOp, PlanBuilder, ProductOp, TensorId};
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
        // Where U is the identity, the eigenbasis is the one we are in.
        let rotated = problem.is_rotated();
        let (input, output) = if rotated {
            (plan.temporary(Contents::F64(m)), plan.temporary(Contents::F64(m)))
        } else {
            (h_g, h_f)
        };
        for _ in 0..self.iterations {
            plan.push(LikelihoodOp::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live: None,
            });
            if rotated {
                plan.push(ProductOp::RotateIn {
                    input: h_g,
                    output: input,
                });
            }
            plan.push(LikelihoodOp::EpSeparate {
                level,
                input,
                tau_g,
                output,
                tau_f,
            });
            if rotated {
                plan.push(ProductOp::RotateOut {
                    input: output,
                    output: h_f,
                });
            }
        }
        plan.push(LikelihoodOp::EpGradient { z, h_f, tau_f, g });
    }
}

//! QCS-SGM: the diagonal of C_t⁻¹ in its place. The gradient is (24) with h^F = 0 and, for each measurement, 1/tau^F its
//! diagonal entry.

use crate::plan::{LikelihoodOp, PlanBuilder, TensorId};

/// The diagonal likelihood: nothing to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diag;

impl Diag {
    /// Appends the gradient `g` with respect to `z` = A·x, both `[M]` per state.
    pub fn push(&self, plan: &mut PlanBuilder, level: TensorId, z: TensorId, g: TensorId) {
        plan.push(LikelihoodOp::DiagGradient { level, z, g });
    }
}

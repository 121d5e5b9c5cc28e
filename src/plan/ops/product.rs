//! Products of a batch of vectors with the problem's matrices.

use super::{Operands, length};
use crate::plan::{Plan, TensorId};

/// A product, in f64 whatever the matrix is stored in.
#[derive(Clone, Copy, Debug)]
pub enum ProductOp {
    /// z = A·x
    Project { x: TensorId, z: TensorId },
    /// The likelihood score Aᵀ·g
    BackProject { g: TensorId, score: TensorId },
    /// Uᵀ·input
    RotateIn { input: TensorId, output: TensorId },
    /// U·input
    RotateOut { input: TensorId, output: TensorId },
}

impl ProductOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Project { .. } => "project",
            Self::BackProject { .. } => "back_project",
            Self::RotateIn { .. } => "rotate_in",
            Self::RotateOut { .. } => "rotate_out",
        }
    }

    /// What is multiplied, and where the product goes.
    pub fn ends(&self) -> (TensorId, TensorId) {
        match *self {
            Self::Project { x, z } => (x, z),
            Self::BackProject { g, score } => (g, score),
            Self::RotateIn { input, output } | Self::RotateOut { input, output } => (input, output),
        }
    }

    /// Whether the matrix is U.
    pub fn rotates(&self) -> bool {
        matches!(self, Self::RotateIn { .. } | Self::RotateOut { .. })
    }

    pub fn operands(&self) -> Operands {
        let (input, output) = self.ends();
        Operands::new([input], [output])
    }

    pub fn flops(&self, plan: &Plan) -> u64 {
        let (input, output) = self.ends();
        2 * length(plan, input) * length(plan, output)
    }
}

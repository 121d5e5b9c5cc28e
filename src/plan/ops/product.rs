//! Products of a batch of vectors with the problem's matrices, or with the parts of an operator that has none.

use qcs_kernels::product::along::Axis;

use super::{Operands, length};
use crate::plan::{ArrayId, Plan, TensorId};

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
    /// signs∘x in f64: where a structured operator begins
    Widen {
        x: TensorId,
        output: TensorId,
        signs: Option<ArrayId>,
    },
    /// signs∘input in f32: where its transpose ends
    Narrow {
        input: TensorId,
        x: TensorId,
        signs: Option<ArrayId>,
    },
    /// A small matrix along one axis
    Along {
        matrix: ArrayId,
        /// The same, transposed: what neighbouring columns are read from
        transposed: ArrayId,
        axis: Axis,
        input: TensorId,
        output: TensorId,
    },
    /// The Walsh–Hadamard transform along one axis, `inner` elements before the next
    Butterflies {
        length: usize,
        inner: usize,
        input: TensorId,
        output: TensorId,
    },
    /// output_i = input_(index_i), or 0
    Pick {
        index: ArrayId,
        input: TensorId,
        output: TensorId,
    },
}

impl ProductOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Project { .. } => "project",
            Self::BackProject { .. } => "back_project",
            Self::RotateIn { .. } => "rotate_in",
            Self::RotateOut { .. } => "rotate_out",
            Self::Widen { .. } => "widen",
            Self::Narrow { .. } => "narrow",
            Self::Along { .. } => "along",
            Self::Butterflies { .. } => "butterflies",
            Self::Pick { .. } => "pick",
        }
    }

    /// What is multiplied, and where the product goes.
    pub fn ends(&self) -> (TensorId, TensorId) {
        match *self {
            Self::Project { x, z } => (x, z),
            Self::BackProject { g, score } => (g, score),
            Self::Widen { x, output, .. } => (x, output),
            Self::Narrow { input, x, .. } => (input, x),
            Self::RotateIn { input, output }
            | Self::RotateOut { input, output }
            | Self::Along { input, output, .. }
            | Self::Butterflies { input, output, .. }
            | Self::Pick { input, output, .. } => (input, output),
        }
    }

    /// Whether the matrix is U, as one.
    pub fn rotates(&self) -> bool {
        matches!(self, Self::RotateIn { .. } | Self::RotateOut { .. })
    }

    pub fn operands(&self) -> Operands {
        let (input, output) = self.ends();
        Operands::new([input], [output])
    }

    pub fn flops(&self, plan: &Plan) -> u64 {
        let (input, output) = self.ends();
        match *self {
            Self::Along { axis, .. } => 2 * axis.columns as u64 * length(plan, output),
            // Additions, counted as the multiply-adds are that take as long.
            Self::Butterflies { length: n, .. } => 2 * u64::from(n.ilog2()) * length(plan, output),
            Self::Widen { .. } | Self::Narrow { .. } | Self::Pick { .. } => 0,
            _ => 2 * length(plan, input) * length(plan, output),
        }
    }
}

//! A, as a description: what it makes of a vector, on the host and as ops of a plan. Nobody outside asks for its entries.
//!
//! A plan needs five things of A: z = A·x, the score Aᵀ·g, products with Uᵀ and U where A·Aᵀ = U·diag(lambda)·Uᵀ, and the
//! eigenvalues lambda, which are the [`Spectrum`](super::Spectrum)'s.

use super::{Matrix, Values};
use crate::plan::{PlanBuilder, ProductOp, TensorId};

/// The operator A of y = Q(Ax + n), M×N.
///
/// A matrix is one: every function that wants an operator takes a [`Matrix`] too.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Dense(Matrix),
}

/// Numbers that the ops of an operator compute with: what an engine holds beside its plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Array<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl Array<'_> {
    /// As it lies in memory.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F64(values) => bytemuck::cast_slice(values),
        }
    }
}

impl From<Matrix> for Operator {
    fn from(matrix: Matrix) -> Self {
        Self {
            kind: Kind::Dense(matrix),
        }
    }
}

impl Operator {
    /// M, the measurements of an image.
    pub fn rows(&self) -> usize {
        match &self.kind {
            Kind::Dense(matrix) => matrix.rows(),
        }
    }

    /// N, the pixels of an image.
    pub fn cols(&self) -> usize {
        match &self.kind {
            Kind::Dense(matrix) => matrix.cols(),
        }
    }

    /// A·x in f64, length M; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `x` has not N entries.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.times(x),
        }
    }

    /// Aᵀ·z in f64, length N; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `z` has not M entries.
    pub fn transpose_times(&self, z: &[f64]) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.transpose_times(z),
        }
    }

    /// diag(A·Aᵀ), the squared norm of each row, length M.
    pub fn diag(&self) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.diag(),
        }
    }

    /// The matrix, where A is one and its A·Aᵀ must be factorised.
    pub fn matrix(&self) -> Option<&Matrix> {
        match &self.kind {
            Kind::Dense(matrix) => Some(matrix),
        }
    }

    /// What its ops compute with, in the order that they number it by; a matrix is the only one of its own.
    pub fn arrays(&self) -> Vec<Array<'_>> {
        match &self.kind {
            Kind::Dense(matrix) => vec![match matrix.values() {
                Values::F32(values) => Array::F32(values),
                Values::F64(values) => Array::F64(values),
            }],
        }
    }

    /// Appends z = A·x: `x` is f32, `[N]` per state, `z` f64, `[M]`.
    pub fn push(&self, plan: &mut PlanBuilder, x: TensorId, z: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::Project { x, z }),
        }
    }

    /// Appends the score Aᵀ·g: `g` is f64, `[M]` per state, `score` f32, `[N]`.
    pub fn push_adjoint(&self, plan: &mut PlanBuilder, g: TensorId, score: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::BackProject { g, score }),
        }
    }

    /// Appends `output` = Uᵀ·`input`, both f64, `[M]` per state. Only for a problem that
    /// [rotates](super::Problem::rotates).
    pub fn push_rotation(&self, plan: &mut PlanBuilder, input: TensorId, output: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::RotateIn { input, output }),
        }
    }

    /// Appends `output` = U·`input`, the way back.
    pub fn push_rotation_back(&self, plan: &mut PlanBuilder, input: TensorId, output: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::RotateOut { input, output }),
        }
    }
}

//! A, as a description: what it makes of a vector, on the host and as ops of a plan. Nobody outside asks for its entries.
//!
//! A plan needs five things of A: z = A·x, the score Aᵀ·g, products with Uᵀ and U where A·Aᵀ = U·diag(lambda)·Uᵀ, and the
//! eigenvalues lambda, which are the [`Spectrum`](super::Spectrum)'s.

mod factor;
mod file;
mod law;
mod structured;

use qcs_kernels::product::along::Axis;

pub use factor::Factor;
pub(super) use file::KEY;
pub use law::{Measurements, Structure};
pub use structured::Parts;
use structured::Structured;

use super::{Matrix, Values};
use crate::error::Result;
use crate::plan::{ArrayId, Contents, PlanBuilder, ProductOp, TensorId};

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
    Structured(Box<Structured>),
}

/// What a structured operator does one after the other, between signs and f64 at one end and measurements at the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Along {
        matrix: ArrayId,
        transposed: ArrayId,
        axis: Axis,
    },
    Butterflies {
        length: usize,
        inner: usize,
    },
    /// `to` elements by their places
    Pick {
        index: ArrayId,
        to: usize,
    },
}

/// Numbers that the ops of an operator compute with: what an engine holds beside its plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Array<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    U32(&'a [u32]),
}

impl<'a> Array<'a> {
    /// # Panics
    /// If it holds something else; so for those below.
    pub fn f32s(self) -> &'a [f32] {
        match self {
            Self::F32(values) => values,
            _ => panic!("an array of other numbers stands where f32 are needed"),
        }
    }

    pub fn f64s(self) -> &'a [f64] {
        match self {
            Self::F64(values) => values,
            _ => panic!("an array of other numbers stands where f64 are needed"),
        }
    }

    pub fn u32s(self) -> &'a [u32] {
        match self {
            Self::U32(values) => values,
            _ => panic!("an array of other numbers stands where u32 are needed"),
        }
    }

    /// As it lies in memory.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F64(values) => bytemuck::cast_slice(values),
            Self::U32(values) => bytemuck::cast_slice(values),
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
    /// A = S·(F₁ ⊗ F₂ ⊗ …)·P·D of its parts, without a matrix.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if the parts do not fit each other.
    pub fn structured(parts: Parts) -> Result<Self> {
        let kind = Kind::Structured(Box::new(Structured::new(parts)?));
        Ok(Self { kind })
    }

    /// The parts of a structured operator.
    pub fn parts(&self) -> Option<&Parts> {
        match &self.kind {
            Kind::Dense(_) => None,
            Kind::Structured(operator) => Some(operator.parts()),
        }
    }

    /// The eigenvalues of A·Aᵀ, where the operator knows them.
    pub fn eigenvalues(&self) -> Option<&[f64]> {
        match &self.kind {
            Kind::Dense(_) => None,
            Kind::Structured(operator) => Some(operator.eigenvalues()),
        }
    }

    /// Whether its eigenbasis is another than the one of the measurements, where the operator knows; true where it does not.
    pub fn rotates(&self) -> bool {
        match &self.kind {
            Kind::Dense(_) => true,
            Kind::Structured(operator) => !operator.rotation().is_empty(),
        }
    }

    /// What it is, for people: "hadamard: dct along 3, hadamard along 256, signs, 98304 of 196608 rows".
    pub fn describe(&self) -> String {
        let Some(parts) = self.parts() else {
            return format!("a matrix of {} by {}", self.rows(), self.cols());
        };
        let mut words: Vec<String> = Vec::new();
        for factor in &parts.factors {
            let axis = match factor {
                Factor::Identity(_) => continue,
                Factor::Matrix(matrix) => format!("a matrix of {} by {}", matrix.rows(), matrix.cols()),
                _ => format!("{} along {}", factor.name(), factor.cols()),
            };
            // Said once for both sides of a square.
            if words.last() != Some(&axis) {
                words.push(axis);
            }
        }
        words.extend(parts.signs.as_ref().map(|_| "signs".to_owned()));
        let whole: usize = parts.factors.iter().map(Factor::rows).product();
        words.extend(
            parts
                .rows
                .as_ref()
                .map(|rows| format!("{} of {whole} rows", rows.len())),
        );
        match words.len() {
            0 => parts.label.clone(),
            _ => format!("{}: {}", parts.label, words.join(", ")),
        }
    }

    /// Bytes of what it computes with.
    pub fn bytes(&self) -> usize {
        self.arrays().iter().map(|array| array.bytes().len()).sum()
    }

    /// M, the measurements of an image.
    pub fn rows(&self) -> usize {
        match &self.kind {
            Kind::Dense(matrix) => matrix.rows(),
            Kind::Structured(operator) => operator.rows(),
        }
    }

    /// N, the pixels of an image.
    pub fn cols(&self) -> usize {
        match &self.kind {
            Kind::Dense(matrix) => matrix.cols(),
            Kind::Structured(operator) => operator.cols(),
        }
    }

    /// A·x in f64, length M; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `x` has not N entries.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.times(x),
            Kind::Structured(operator) => operator.times(x),
        }
    }

    /// Aᵀ·z in f64, length N; the same bits for any number of threads.
    ///
    /// # Panics
    /// If `z` has not M entries.
    pub fn transpose_times(&self, z: &[f64]) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.transpose_times(z),
            Kind::Structured(operator) => operator.transpose_times(z),
        }
    }

    /// Uᵀ·v in f64, both of length M, of an operator that knows its rotation.
    ///
    /// # Panics
    /// If A is a matrix, whose U its problem's [`Spectrum`](super::Spectrum) has; so for the way back.
    pub fn rotated(&self, v: &[f64]) -> Vec<f64> {
        let operator = self.known_rotation();
        operator.apply(operator.rotation(), v.to_vec())
    }

    /// U·v, the way back.
    pub fn rotated_back(&self, v: &[f64]) -> Vec<f64> {
        let operator = self.known_rotation();
        operator.apply(operator.rotation_back(), v.to_vec())
    }

    fn known_rotation(&self) -> &Structured {
        match &self.kind {
            Kind::Dense(_) => panic!("the rotation of a matrix belongs to its spectrum"),
            Kind::Structured(operator) => operator,
        }
    }

    /// diag(A·Aᵀ), the squared norm of each row, length M.
    pub fn diag(&self) -> Vec<f64> {
        match &self.kind {
            Kind::Dense(matrix) => matrix.diag(),
            Kind::Structured(operator) => operator.diag(),
        }
    }

    /// The matrix, where A is one and its A·Aᵀ must be factorised.
    pub fn matrix(&self) -> Option<&Matrix> {
        match &self.kind {
            Kind::Dense(matrix) => Some(matrix),
            Kind::Structured(_) => None,
        }
    }

    /// What its ops compute with, in the order that they number it by; a matrix is the only one of its own.
    pub fn arrays(&self) -> Vec<Array<'_>> {
        match &self.kind {
            Kind::Dense(matrix) => vec![match matrix.values() {
                Values::F32(values) => Array::F32(values),
                Values::F64(values) => Array::F64(values),
            }],
            Kind::Structured(operator) => operator.arrays(),
        }
    }

    /// Appends z = A·x: `x` is f32, `[N]` per state, `z` f64, `[M]`.
    pub fn push(&self, plan: &mut PlanBuilder, x: TensorId, z: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::Project { x, z }),
            Kind::Structured(operator) => {
                let (signs, stages) = (operator.signs(), operator.forward());
                let output = if stages.is_empty() {
                    z
                } else {
                    plan.temporary(Contents::F64(self.cols()))
                };
                plan.push(ProductOp::Widen { x, output, signs });
                push_stages(plan, stages, output, z);
            }
        }
    }

    /// Appends the score Aᵀ·g: `g` is f64, `[M]` per state, `score` f32, `[N]`.
    pub fn push_adjoint(&self, plan: &mut PlanBuilder, g: TensorId, score: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::BackProject { g, score }),
            Kind::Structured(operator) => {
                let (signs, stages) = (operator.signs(), operator.adjoint());
                let input = if stages.is_empty() {
                    g
                } else {
                    plan.temporary(Contents::F64(self.cols()))
                };
                push_stages(plan, stages, g, input);
                plan.push(ProductOp::Narrow { input, x: score, signs });
            }
        }
    }

    /// Appends `output` = Uᵀ·`input`, both f64, `[M]` per state. Only for a problem that
    /// [rotates](super::Problem::rotates).
    pub fn push_rotation(&self, plan: &mut PlanBuilder, input: TensorId, output: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::RotateIn { input, output }),
            Kind::Structured(operator) => push_stages(plan, operator.rotation(), input, output),
        }
    }

    /// Appends `output` = U·`input`, the way back.
    pub fn push_rotation_back(&self, plan: &mut PlanBuilder, input: TensorId, output: TensorId) {
        match &self.kind {
            Kind::Dense(_) => plan.push(ProductOp::RotateOut { input, output }),
            Kind::Structured(operator) => push_stages(plan, operator.rotation_back(), input, output),
        }
    }
}

/// Appends the stages, one after the other, from `input` to `output`.
fn push_stages(plan: &mut PlanBuilder, stages: &[Stage], mut input: TensorId, output: TensorId) {
    let elements = |plan: &PlanBuilder, id: TensorId| match plan.contents(id) {
        Contents::F64(len) => len,
        _ => unreachable!("stages are in f64"),
    };
    for (at, stage) in stages.iter().enumerate() {
        let len = match *stage {
            Stage::Along { axis, .. } => axis.outer * axis.rows * axis.inner,
            Stage::Butterflies { .. } => elements(plan, input),
            Stage::Pick { to, .. } => to,
        };
        let to = if at + 1 == stages.len() {
            output
        } else {
            plan.temporary(Contents::F64(len))
        };
        plan.push(match *stage {
            Stage::Along {
                matrix,
                transposed,
                axis,
            } => ProductOp::Along {
                matrix,
                transposed,
                axis,
                input,
                output: to,
            },
            Stage::Butterflies { length, inner } => ProductOp::Butterflies {
                length,
                inner,
                input,
                output: to,
            },
            Stage::Pick { index, .. } => ProductOp::Pick {
                index,
                input,
                output: to,
            },
        });
        input = to;
    }
}

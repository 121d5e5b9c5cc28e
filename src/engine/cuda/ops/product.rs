//! Products with A and U, by our kernels or by cuBLAS.

use qcs_kernels::launch::Arguments;
use qcs_kernels::product::matrix_times::MatrixTimesArgs;
use qcs_kernels::product::transposed_times::TransposedTimesArgs;

use super::{Call, Caller};
use crate::Result;
use crate::engine::cuda::blas::{Blas, Shape};
use crate::plan::{Op, ProductOp, TensorId};
use crate::problem::Array;

/// A product with U by cuBLAS, or with Uᵀ.
pub struct Product {
    shape: Shape,
    pub transposed: bool,
    matrix: u64,
    input: u64,
    output: u64,
}

impl Product {
    pub fn launch(&self, blas: &Blas) -> Result<()> {
        // SAFETY: `Caller` took the addresses from tensors of the session's memory, which is alive; the planner keeps
        // what is read and what is written apart.
        unsafe {
            if self.transposed {
                blas.transposed_times::<f64>(self.shape, self.matrix, self.input, self.output)
            } else {
                blas.matrix_times::<f64>(self.shape, self.matrix, self.input, self.output)
            }
        }
    }
}

impl Caller<'_> {
    pub(super) fn product(&self, op: &ProductOp) -> Call {
        let single = matches!(self.problem().a().arrays()[..], [Array::F32(_)]);
        let (a, u) = (self.layout.arrays[0], self.layout.u);
        match *op {
            ProductOp::Project { x, z } if single => self.matrix_times::<f32, f32>(a, x, z),
            ProductOp::Project { x, z } => self.matrix_times::<f64, f32>(a, x, z),
            ProductOp::BackProject { g, score } if single => self.transposed_times::<f32, f32>(a, g, score),
            ProductOp::BackProject { g, score } => self.transposed_times::<f64, f32>(a, g, score),
            ProductOp::RotateIn { input, output } => self.transposed_times::<f64, f64>(u, input, output),
            ProductOp::RotateOut { input, output } => self.matrix_times::<f64, f64>(u, input, output),
        }
    }

    /// y = matrix·x
    fn matrix_times<E, X>(&self, matrix: usize, x: TensorId, y: TensorId) -> Call
    where
        MatrixTimesArgs<E, X>: Arguments,
    {
        Call::of(&MatrixTimesArgs::<E, X> {
            matrix: self.at(matrix),
            x: self.tensor(x),
            y: self.tensor(y),
            rows: self.len(y),
            columns: self.len(x),
            states: self.batch(),
            unused: 0,
        })
    }

    /// y = matrixᵀ·g
    fn transposed_times<E, Y>(&self, matrix: usize, g: TensorId, y: TensorId) -> Call
    where
        TransposedTimesArgs<E, Y>: Arguments,
    {
        Call::of(&TransposedTimesArgs::<E, Y> {
            matrix: self.at(matrix),
            g: self.tensor(g),
            y: self.tensor(y),
            rows: self.len(g),
            columns: self.len(y),
            states: self.batch(),
            unused: 0,
        })
    }

    /// The same for cuBLAS, if the op is a product with U. Those with A mix f32 and f64, which cuBLAS does not.
    pub fn rotation(&self, op: &Op) -> Option<Product> {
        let (input, output, transposed) = match *op {
            Op::Product(ProductOp::RotateIn { input, output }) => (input, output, true),
            Op::Product(ProductOp::RotateOut { input, output }) => (input, output, false),
            _ => return None,
        };
        let m = self.problem().a().rows();
        Some(Product {
            shape: Shape {
                rows: m,
                columns: m,
                states: self.plan.batch,
            },
            transposed,
            matrix: self.at::<f64>(self.layout.u).address(),
            input: self.tensor::<f64>(input).address(),
            output: self.tensor::<f64>(output).address(),
        })
    }
}

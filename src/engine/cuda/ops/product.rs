//! Products with A and U, by our kernels or by cuBLAS.

use qcs_kernels::global::Global;
use qcs_kernels::launch::Arguments;
use qcs_kernels::product::along::{AlongArgs, Axis};
use qcs_kernels::product::butterflies::{ButterfliesArgs, scale};
use qcs_kernels::product::matrix_times::MatrixTimesArgs;
use qcs_kernels::product::pick::PickArgs;
use qcs_kernels::product::signed::SignedArgs;
use qcs_kernels::product::transposed_times::TransposedTimesArgs;

use super::{Call, Caller};
use crate::Result;
use crate::engine::cuda::blas::{Blas, Shape};
use crate::plan::{ArrayId, Op, ProductOp, TensorId};
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
    pub(super) fn product(&self, op: &ProductOp) -> Vec<Call> {
        let single = || matches!(self.problem().a().arrays()[..], [Array::F32(_)]);
        let (a, u) = (|| self.layout.arrays[0], self.layout.u);
        vec![match *op {
            ProductOp::Project { x, z } if single() => self.matrix_times::<f32, f32>(a(), x, z),
            ProductOp::Project { x, z } => self.matrix_times::<f64, f32>(a(), x, z),
            ProductOp::BackProject { g, score } if single() => self.transposed_times::<f32, f32>(a(), g, score),
            ProductOp::BackProject { g, score } => self.transposed_times::<f64, f32>(a(), g, score),
            ProductOp::RotateIn { input, output } => self.transposed_times::<f64, f64>(u, input, output),
            ProductOp::RotateOut { input, output } => self.matrix_times::<f64, f64>(u, input, output),
            ProductOp::Widen { x, output, signs } => self.widen(x, output, signs),
            ProductOp::Narrow { input, x, signs } => self.narrow(input, x, signs),
            ProductOp::Along {
                matrix,
                transposed,
                axis,
                input,
                output,
            } => self.along((matrix, transposed), axis, input, output),
            ProductOp::Butterflies {
                length,
                inner,
                input,
                output,
            } => return self.butterflies(length, inner, input, output),
            ProductOp::Pick { index, input, output } => self.pick(index, input, output),
        }]
    }

    fn widen(&self, x: TensorId, output: TensorId, signs: Option<ArrayId>) -> Call {
        Call::of(&SignedArgs::<f32, f64> {
            input: self.tensor(x),
            signs: signs.map_or(Global::NONE, |id| self.array(id)),
            output: self.tensor(output),
            states: self.batch(),
            len: self.len(x),
        })
    }

    fn narrow(&self, input: TensorId, x: TensorId, signs: Option<ArrayId>) -> Call {
        Call::of(&SignedArgs::<f64, f32> {
            input: self.tensor(input),
            signs: signs.map_or(Global::NONE, |id| self.array(id)),
            output: self.tensor(x),
            states: self.batch(),
            len: self.len(x),
        })
    }

    fn along(&self, (matrix, transposed): (ArrayId, ArrayId), axis: Axis, input: TensorId, output: TensorId) -> Call {
        let (matrix, transposed) = (self.array(matrix), self.array(transposed));
        let (input, output) = (self.tensor(input), self.tensor(output));
        Call::of(&AlongArgs::new(matrix, transposed, axis, self.batch(), input, output))
    }

    fn pick(&self, index: ArrayId, input: TensorId, output: TensorId) -> Call {
        Call::of(&PickArgs {
            input: self.tensor(input),
            index: self.array(index),
            output: self.tensor(output),
            states: self.batch(),
            from: self.len(input),
            to: self.len(output),
            unused: 0,
        })
    }

    /// Passes of radix 16 while there are four stages left, then of radix 2; behind the first they are in place.
    fn butterflies(&self, length: usize, inner: usize, input: TensorId, output: TensorId) -> Vec<Call> {
        let (elements, end) = (self.batch() * self.len(output), length * inner);
        let (mut calls, mut stride) = (Vec::new(), inner);
        while stride < end {
            let from = if calls.is_empty() { input } else { output };
            let radix = if 16 * stride <= end { 16 } else { 2 };
            let last = radix * stride == end;
            calls.push(if radix == 16 {
                Call::of(&self.pass::<16>(elements, stride, from, output, last, length))
            } else {
                Call::of(&self.pass::<2>(elements, stride, from, output, last, length))
            });
            stride *= radix;
        }
        calls
    }

    fn pass<const R: usize>(
        &self,
        elements: u32,
        stride: usize,
        input: TensorId,
        output: TensorId,
        last: bool,
        length: usize,
    ) -> ButterfliesArgs<R> {
        ButterfliesArgs {
            input: self.tensor(input),
            output: self.tensor(output),
            scale: if last { scale(length) } else { 1.0 },
            threads: elements / R as u32,
            stride: stride as u32,
        }
    }

    fn array<T>(&self, id: ArrayId) -> Global<T> {
        self.at(self.layout.arrays[id.index()])
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

//! Products of A or of U with a batch of vectors, in f64: of matrices, and the parts of an operator without one.

mod along;
mod matrix;

use std::ops::Range;

use qcs_kernels::product::along::Axis;
use qcs_kernels::product::butterflies::butterflies;
use qcs_kernels::product::pick::pick;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, dispatch};
use crate::plan::{ArrayId, ProductOp, TensorId};
use crate::problem::Array;
use matrix::{matrix_times, transpose, transposed_times, untile};

impl<'a> CpuSession<'a> {
    pub(in crate::engine::cpu) fn product(&mut self, op: &ProductOp, scratch: Range<usize>) {
        match *op {
            ProductOp::Project { x, z } => self.project(x, z, scratch),
            ProductOp::BackProject { g, score } => self.back_project(g, score, scratch),
            ProductOp::RotateIn { input, output } => self.rotate_in(input, output, scratch),
            ProductOp::RotateOut { input, output } => self.rotate_out(input, output, scratch),
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
            } => self.butterflies(length, inner, input, output),
            ProductOp::Pick { index, input, output } => self.pick(index, input, output),
        }
    }

    fn array(&self, id: ArrayId) -> Array<'a> {
        self.arrays[id.index()]
    }

    /// Pixels of a state.
    fn pixels(&self) -> usize {
        self.problem().a().cols()
    }

    fn project(&mut self, x: TensorId, z: TensorId, scratch: Range<usize>) {
        let (at, batch, n) = (Operands::new(self.plan, &self.arena), self.plan.batch, self.pixels());
        let (wide, transposed) = at.scratch::<f64>(scratch).split_at_mut(batch * n);
        for (wide, &x) in wide.iter_mut().zip(at.read::<f32>(x)) {
            *wide = f64::from(x);
        }
        let a = self.matrix();
        matrix_times(self.threads, self.isa, a, n, wide, transposed);
        transpose(self.threads, transposed, batch, at.write(z));
    }

    fn back_project(&mut self, g: TensorId, score: TensorId, scratch: Range<usize>) {
        let (at, batch, n) = (Operands::new(self.plan, &self.arena), self.plan.batch, self.pixels());
        let (a, sums) = (self.matrix(), at.scratch(scratch));
        transposed_times(self.threads, self.isa, a, n, at.read(g), sums);
        untile(self.threads, sums, batch, |v| v as f32, at.write::<f32>(score));
    }

    fn rotate_in(&mut self, input: TensorId, output: TensorId, scratch: Range<usize>) {
        let (at, batch) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (u, m, sums) = (self.u(), self.problem().a().rows(), at.scratch(scratch));
        transposed_times(self.threads, self.isa, u, m, at.read(input), sums);
        untile(self.threads, sums, batch, |v| v, at.write(output));
    }

    fn rotate_out(&mut self, input: TensorId, output: TensorId, scratch: Range<usize>) {
        let (at, batch) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (u, m, transposed) = (self.u(), self.problem().a().rows(), at.scratch(scratch));
        matrix_times(self.threads, self.isa, u, m, at.read(input), transposed);
        transpose(self.threads, transposed, batch, at.write(output));
    }

    fn widen(&mut self, x: TensorId, output: TensorId, signs: Option<ArrayId>) {
        let (at, n) = (Operands::new(self.plan, &self.arena), self.pixels());
        let (x, signs) = (at.read::<f32>(x), signs.map(|id| self.array(id).f32s()));
        self.threads
            .for_each(at.write(output), n, &|state, output: &mut [f64]| {
                for (i, (to, &x)) in output.iter_mut().zip(&x[state * n..]).enumerate() {
                    *to = f64::from(x) * signs.map_or(1.0, |signs| f64::from(signs[i]));
                }
            });
    }

    fn narrow(&mut self, input: TensorId, x: TensorId, signs: Option<ArrayId>) {
        let (at, n) = (Operands::new(self.plan, &self.arena), self.pixels());
        let (input, signs) = (at.read::<f64>(input), signs.map(|id| self.array(id).f32s()));
        self.threads.for_each(at.write(x), n, &|state, x: &mut [f32]| {
            for (i, (to, &value)) in x.iter_mut().zip(&input[state * n..]).enumerate() {
                *to = (value * signs.map_or(1.0, |signs| f64::from(signs[i]))) as f32;
            }
        });
    }

    fn along(&mut self, (matrix, transposed): (ArrayId, ArrayId), axis: Axis, input: TensorId, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let matrices = (self.array(matrix).f64s(), self.array(transposed).f64s());
        along::along(self.threads, self.isa, matrices, axis, at.read(input), at.write(output));
    }

    fn butterflies(&mut self, length: usize, inner: usize, input: TensorId, output: TensorId) {
        let (at, isa, block) = (Operands::new(self.plan, &self.arena), self.isa, length * inner);
        let input = at.read::<f64>(input);
        self.threads
            .for_each(at.write(output), block, &|slice, output: &mut [f64]| {
                output.copy_from_slice(&input[slice * block..][..block]);
                dispatch!(isa, transform(length: usize, inner: usize, output: &mut [f64]));
            });
    }

    fn pick(&mut self, index: ArrayId, input: TensorId, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (index, input) = (self.array(index).u32s(), at.read::<f64>(input));
        let from = input.len() / self.plan.batch;
        let output = at.write(output);
        self.threads
            .for_each(output, index.len(), &|state, output: &mut [f64]| {
                pick(&input[state * from..][..from], index, output);
            });
    }
}

/// The twin, compiled for the machine's registers.
#[inline(always)]
fn transform<F: F32x8, D: F64x4>(length: usize, inner: usize, values: &mut [f64]) {
    butterflies(length, inner, values);
}

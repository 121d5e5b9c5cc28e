//! A dense layer on a vector per state. A task takes some rows of the matrix for all states, so that each weight is read once.

use qcs_kernels::network::activation::Function;

use super::BLOCK;
use crate::engine::cpu::memory::{Operands, Parts};
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, activate, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::{ParamId, TensorId};

impl CpuSession<'_> {
    pub(super) fn dense(&mut self, input: TensorId, (weight, bias): (ParamId, ParamId), silu: bool, output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (weights, bias) = (self.param(weight), self.param(bias));
        dense(
            self.threads,
            self.isa,
            at.read(input),
            weights,
            bias,
            silu,
            at.write(output),
        );
    }
}

/// Rows of a task.
const ROWS: usize = 64;

fn dense(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    weights: &[f32],
    bias: &[f32],
    with_silu: bool,
    output: &mut [f32],
) {
    let outputs = bias.len();
    let (inputs, states) = (weights.len() / outputs, output.len() / outputs);
    let output = Parts::new(output);
    threads.run(outputs.div_ceil(ROWS), &|task| {
        let rows = task * ROWS..((task + 1) * ROWS).min(outputs);
        for state in 0..states {
            let x = &input[state * inputs..][..inputs];
            let matrix = &weights[rows.start * inputs..rows.end * inputs];
            let bias = &bias[rows.clone()];
            // SAFETY: this task alone writes these rows of every state.
            let y = unsafe { output.part(state * outputs + rows.start..state * outputs + rows.end) };
            dispatch!(isa, some_rows(x: &[f32], matrix: &[f32], bias: &[f32], with_silu: bool, y: &mut [f32]));
        }
    });
}

#[inline(always)]
fn some_rows<F: F32x8, D: F64x4>(x: &[f32], matrix: &[f32], bias: &[f32], with_silu: bool, y: &mut [f32]) {
    let whole = x.len() / BLOCK * BLOCK;
    for ((y, row), &bias) in y.iter_mut().zip(matrix.chunks_exact(x.len())).zip(bias) {
        let mut sum = F::splat(0.0);
        for (w, x) in row[..whole].chunks_exact(BLOCK).zip(x.chunks_exact(BLOCK)) {
            sum = F::load(w).mul_add(F::load(x), sum);
        }
        let mut lanes = [0f32; BLOCK];
        sum.store(&mut lanes);
        let rest = row[whole..].iter().zip(&x[whole..]);
        let total: f64 = lanes.iter().map(|&lane| f64::from(lane)).sum();
        let total = rest.fold(total, |total, (&w, &x)| total + f64::from(w) * f64::from(x));
        *y = (total + f64::from(bias)) as f32;
    }
    if with_silu {
        // In whole vectors, whatever the number of rows: a row's result depends on the row alone.
        for values in y.chunks_mut(BLOCK) {
            let mut vector = [0f32; BLOCK];
            vector[..values.len()].copy_from_slice(values);
            let activated = activate(Function::Silu, F::load(&vector));
            activated.store(&mut vector);
            values.copy_from_slice(&vector[..values.len()]);
        }
    }
}

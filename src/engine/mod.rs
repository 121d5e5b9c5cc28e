//! Engines execute plans. The CPU engine is the default everywhere.

pub mod cpu;
pub mod cuda;

use std::time::Duration;

use crate::Result;
use crate::plan::{Op, Plan, Program, Target, TensorId};
use crate::prior::Prior;
use crate::problem::Problem;

/// What the ops of one execution read beside their tensors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// The noise level beta_t
    pub beta: f64,
    /// The step size alpha_t
    pub alpha: f64,
    /// Number of the Langevin step since the start of the run; it keys the noise.
    pub index: u32,
}

/// One state of a batch: a chain of an image of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub image: usize,
    pub chain: usize,
}

/// What a plan computes with: the weights its params name, the matrix and the cells its likelihood uses.
#[derive(Clone, Copy, Default)]
pub struct Constants<'a> {
    pub prior: Option<&'a Prior>,
    pub problem: Option<&'a Problem>,
    /// Keys all noise.
    pub seed: u64,
}

/// A device and its way of executing plans.
pub trait Engine {
    /// What it is, for people: "CPU, 2 threads, AVX2+FMA".
    fn describe(&self) -> String;

    /// What the planner must know.
    fn target(&self) -> &dyn Target;

    /// Prepares a plan for execution: everything is allocated, packed and uploaded here.
    ///
    /// # Errors
    /// If the device cannot hold the plan.
    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>>;
}

/// A plan on a device. Executing allocates nothing.
pub trait Session {
    /// Says which states the batch holds.
    ///
    /// # Panics
    /// If there are more states than the plan's batch, or an image is not in the problem. With fewer, the rest of the
    /// batch repeats the last state, and its results mean nothing.
    fn bind(&mut self, states: &[State]);

    /// Runs one program of the plan.
    fn execute(&mut self, program: Program, step: Step);

    /// Runs one program and reports how long each op took.
    fn execute_timed(&mut self, program: Program, step: Step, report: &mut dyn FnMut(&Op, Duration));

    /// Overwrites a persistent f32 tensor for the whole batch.
    fn write_f32(&mut self, tensor: TensorId, values: &[f32]);

    /// Reads a persistent f32 tensor for the whole batch.
    fn read_f32(&mut self, tensor: TensorId, values: &mut [f32]);

    /// Overwrites a persistent u32 tensor for the whole batch.
    fn write_u32(&mut self, tensor: TensorId, values: &[u32]);

    /// Reads a persistent u32 tensor for the whole batch.
    fn read_u32(&mut self, tensor: TensorId, values: &mut [u32]);
}

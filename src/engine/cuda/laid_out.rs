//! A plan as a device executes it: bytes at offsets of one allocation, and kernels with their arguments. Tests put it on the
//! emulator without a driver between, where they can see every launch and break a kernel on purpose.

use super::CudaTarget;
use super::layout::{Layout, Write};
use super::ops::{Call, Caller};
use crate::Result;
use crate::engine::{Constants, Precision, State};
use crate::plan::{Plan, Program, Target};

/// Of a V100
const MULTIPROCESSORS: u32 = 80;

/// What the planner must know of a GPU that computes in this precision.
pub fn target(precision: Precision) -> Box<dyn Target> {
    Box::new(CudaTarget { precision })
}

/// A plan for a GPU whose products are all by our kernels.
pub struct LaidOut<'a> {
    plan: &'a Plan,
    constants: Constants<'a>,
    precision: Precision,
    layout: Layout,
}

impl<'a> LaidOut<'a> {
    pub fn new(plan: &'a Plan, constants: Constants<'a>, precision: Precision) -> Self {
        Self {
            plan,
            constants,
            precision,
            layout: Layout::new(plan, constants, precision, false),
        }
    }

    /// Of the allocation.
    pub fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Where the number of the step lies that runs next, a u32.
    pub fn cursor(&self) -> usize {
        self.layout.cursor
    }

    /// Writes what does not change from batch to batch.
    ///
    /// # Errors
    /// Those of `write`, and of factorising A.
    pub fn upload(&self, write: &mut Write<'_>) -> Result<()> {
        let spectrum = match self.constants.problem {
            Some(problem) if self.plan.needs_spectrum() => Some(problem.spectrum()?),
            _ => None,
        };
        self.layout
            .upload(write, self.plan, self.constants, self.precision, spectrum)
    }

    /// Writes what belongs to the states.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn bind(&self, states: &[State], write: &mut Write<'_>) -> Result<()> {
        self.layout.bind(write, self.plan.batch, self.constants, states)
    }

    /// The kernels of a program, for an allocation at this address; those of a step end with the one that moves on to the next.
    pub fn calls(&self, program: Program, base: u64) -> Vec<Call> {
        let caller = Caller {
            plan: self.plan,
            constants: self.constants,
            layout: &self.layout,
            precision: self.precision,
            multiprocessors: MULTIPROCESSORS,
            base,
        };
        let ops = self.plan.program(program).iter();
        let mut calls: Vec<Call> = ops.flat_map(|instruction| caller.calls(instruction)).collect();
        if program == Program::Step {
            calls.push(caller.advance());
        }
        calls
    }
}

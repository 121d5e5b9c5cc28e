//! Engines execute plans. The CPU engine is the default everywhere.

pub mod cases;
mod choice;
pub mod cpu;
pub mod cuda;
mod precision;
mod several;

pub use choice::{Device, Opened, open};
pub use precision::Precision;
pub use several::SeveralEngines;

use std::ops::RangeInclusive;
use std::time::Duration;

use qcs_kernels::sampler::StateKey;
use qcs_kernels::sampler::step::StepRecord;

use crate::Result;
use crate::plan::{LangevinNumbers, Op, Plan, Program, Step, Target, TensorId};
use crate::prior::Prior;
use crate::problem::Problem;

/// One state of a batch: a chain of an image of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub image: usize,
    pub chain: usize,
}

impl State {
    /// Which noise is its own.
    fn key(self) -> StateKey {
        StateKey {
            image: self.image as u32,
            chain: self.chain as u32,
        }
    }
}

/// A step as the ops read it.
fn step_record(step: Step) -> StepRecord {
    let LangevinNumbers {
        beta,
        alpha,
        noise,
        momentum,
    } = step.langevin;
    StepRecord {
        beta,
        alpha,
        noise,
        momentum,
        index: u64::from(step.index),
    }
}

/// What a plan computes with: the weights its params name, the matrix and the cells its ops use, the steps.
#[derive(Clone, Copy, Default)]
pub struct Constants<'a> {
    pub prior: Option<&'a Prior>,
    pub problem: Option<&'a Problem>,
    /// Every step that will be executed, in order: a device holds them all and is told only to go on.
    pub steps: &'a [Step],
    /// What a [stage](Step::stage) is, for a profiler: "level"
    pub stage: &'static str,
    /// Keys all noise.
    pub seed: u64,
}

/// Who computes products with U, the largest matrix of EP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// A library where there is one and U is large, else our own code
    #[default]
    Auto,
    /// Our own code, whose sums have an order that does not depend on the batch
    Own,
    /// A library
    Library,
}

/// A device and its way of executing plans.
pub trait Engine {
    /// What it is, for people: "CPU, 2 threads, AVX2+FMA".
    fn describe(&self) -> String;

    /// In which precision the network multiplies.
    fn precision(&self) -> Precision;

    /// Where its kernels come from, for people, if it has kernels that are loaded.
    fn kernels(&self) -> Option<String> {
        None
    }

    /// What the planner must know.
    fn target(&self) -> &dyn Target;

    /// Has a profiler record these [stages](Step::stage), op by op, of every session to come.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) where no profiler knows of the engine.
    fn profile(&mut self, _stages: RangeInclusive<u32>) -> Result<()> {
        Err(crate::Error::setting(
            "profile",
            "is for a GPU and its profilers; the benchmark `step` shows where the CPU spends its time",
        ))
    }

    /// Says who computes products with U in every session to come. False if there is no library to do it.
    fn choose_products(&mut self, by: Products) -> bool {
        by != Products::Library
    }

    /// Bytes of device memory that a session of the plan takes, known before anything is allocated.
    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize;

    /// What tells its rounding from that of other devices and instruction sets: results of one name are the same bits.
    fn rounds_as(&self) -> &'static str;

    /// Makes sure that the spectrum of A is known, by whatever computes it best. Returns notes for the user.
    ///
    /// # Errors
    /// As [`Problem::spectrum`].
    fn factorise(&mut self, problem: &Problem) -> Result<Vec<String>> {
        problem.spectrum().map(|_| Vec::new())
    }

    /// Bytes of device memory that a session should take at most, where that is known: what is free, less a margin.
    fn free_bytes(&self) -> Option<usize>;

    /// Whether the engine's arithmetic of addresses reaches all of the plan's tensors: a session of one that it does not
    /// is refused.
    fn can_index(&self, _plan: &Plan) -> bool {
        true
    }

    /// What a step of the plan would take with another batch, in a unit of its own, where the size of a batch decides how well the
    /// device is filled.
    fn effort(&self, _plan: &Plan, _batch: usize) -> Option<u64> {
        None
    }

    /// The most floating-point operations in a second that the device can do in the engine's precision, in GFLOP/s: by
    /// its data sheet where it tells enough, measured on a CPU.
    fn peak_gflops(&self) -> Option<f64>;

    /// Prepares a plan for execution: everything is allocated, packed and uploaded here.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device cannot hold the plan.
    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>>;
}

/// A plan on a device. Executing allocates nothing.
///
/// Execution may go on behind the caller's back: an error of the device can reach any later call, and reading waits.
///
/// # Errors
/// Every method: [`Error::Device`](crate::Error::Device) if the device failed. The CPU does not.
pub trait Session {
    /// Says which states the batch holds.
    ///
    /// # Panics
    /// If there are more states than the plan's batch, or an image is not in the problem. With fewer, the rest of the
    /// batch repeats the last state, and its results mean nothing.
    fn bind(&mut self, states: &[State]) -> Result<()>;

    /// Runs one program of the plan at a step of [`Constants::steps`].
    fn execute(&mut self, program: Program, step: usize) -> Result<()>;

    /// Runs one program and reports how long each op took.
    fn execute_timed(&mut self, program: Program, step: usize, report: &mut dyn FnMut(&Op, Duration)) -> Result<()>;

    /// How many states of the batch have raised their flag: a u32 each, 0 or not.
    fn raised(&mut self, flags: TensorId, wait: Wait) -> Result<usize>;

    /// What there is to tell of how the plan was prepared.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Waits until everything that was executed is done.
    fn wait(&mut self) -> Result<()>;

    /// Overwrites a persistent tensor for the whole batch.
    fn write(&mut self, tensor: TensorId, bytes: &[u8]) -> Result<()>;

    /// Reads a persistent tensor for the whole batch.
    fn read(&mut self, tensor: TensorId, bytes: &mut [u8]) -> Result<()>;
}

/// Which moment a flag that is read tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The last such call; 0 at the first one after a [`bind`](Session::bind). The host waits only for what was executed before
    /// that call, so a device always has work while its host learns how far it is
    Behind,
    /// Now: the host waits for everything
    Now,
}

impl dyn Session + '_ {
    /// Overwrites a persistent tensor of this element type for the whole batch.
    ///
    /// # Errors
    /// As every method.
    pub fn write_values<T: bytemuck::NoUninit>(&mut self, tensor: TensorId, values: &[T]) -> Result<()> {
        self.write(tensor, bytemuck::cast_slice(values))
    }

    /// Reads a persistent tensor of this element type for the whole batch.
    ///
    /// # Errors
    /// As every method.
    pub fn read_values<T: bytemuck::Pod>(&mut self, tensor: TensorId, values: &mut [T]) -> Result<()> {
        self.read(tensor, bytemuck::cast_slice_mut(values))
    }
}

//! A plan on the CPU: the op loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qcs_kernels::network::conv::rounding::round;

use super::memory::{Arena, Operands};
use super::ops::network::conv::{ConvShape, PackedConv};
use super::simd::Isa;
use super::threads::Threads;
use crate::engine::{Constants, Precision, Session, State, Wait};
use crate::plan::{Conv, Instruction, Op, ParamId, Plan, Program, Step, TensorId};
use crate::prior::Prior;
use crate::problem::{Array, Problem, Spectrum};
use crate::{Error, Result};

pub struct CpuSession<'a> {
    pub(super) threads: &'a mut Threads,
    pub(super) isa: Isa,
    pub(super) precision: Precision,
    pub(super) plan: &'a Plan,
    pub(super) arena: Arena,
    /// Packed weights by the id of the weight they come from.
    pub(super) convs: HashMap<ParamId, Arc<PackedConv>>,
    pub(super) constants: Constants<'a>,
    spectrum: Option<&'a Spectrum>,
    /// What the ops of A compute with
    pub(super) arrays: Vec<Array<'a>>,
    pub(super) states: Vec<State>,
    /// Cells of the bound states, `[batch, M]`.
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
}

impl<'a> CpuSession<'a> {
    pub fn new(
        threads: &'a mut Threads,
        isa: Isa,
        precision: Precision,
        plan: &'a Plan,
        constants: Constants<'a>,
    ) -> Result<Self> {
        let needs_prior = !plan.params().is_empty();
        if needs_prior && constants.prior.is_none() {
            return Err(Error::Failed("the plan has a network but there is no prior".into()));
        }
        let spectrum = match constants.problem {
            Some(problem) if plan.needs_spectrum() => Some(problem.spectrum()?),
            _ => None,
        };
        let measurements = constants.problem.map_or(0, |p| p.a().rows());
        Ok(Self {
            threads,
            isa,
            precision,
            plan,
            arena: Arena::new(plan.arena_bytes)?,
            convs: constants
                .prior
                .map_or_else(HashMap::new, |prior| pack(plan, prior, precision)),
            constants,
            spectrum,
            arrays: constants.problem.map_or_else(Vec::new, |p| p.a().arrays()),
            states: vec![State { image: 0, chain: 0 }; plan.batch],
            lower: vec![0.0; plan.batch * measurements],
            upper: vec![0.0; plan.batch * measurements],
        })
    }

    pub(super) fn param(&self, id: ParamId) -> &'a [f32] {
        let prior = self.constants.prior.expect("checked when the session was made");
        prior.weight(&self.plan.params()[id.0 as usize].name)
    }

    pub(super) fn problem(&self) -> &'a Problem {
        self.constants
            .problem
            .expect("a plan with a likelihood is made from a problem")
    }

    /// Of A·Aᵀ
    pub(super) fn eigenvalues(&self) -> &'a [f64] {
        let spectrum = self.spectrum.expect("a plan that reads it has it computed");
        &spectrum.eigenvalues
    }

    /// A, where it is a matrix
    pub(super) fn matrix(&self) -> Array<'a> {
        self.arrays[0]
    }

    pub(super) fn u(&self) -> Array<'a> {
        let u = self.spectrum.and_then(|s| s.u.as_deref());
        Array::F64(u.expect("rotations are planned only where U is not the identity"))
    }

    fn run(&mut self, instruction: &Instruction, step: Step) -> Result<()> {
        let scratch = instruction.scratch.clone();
        match &instruction.op {
            Op::Network(op) => self.network(op, scratch)?,
            Op::Product(op) => self.product(op, scratch),
            Op::Likelihood(op) => self.likelihood(op),
            Op::Sampler(op) => self.sampler(op, scratch, step),
            Op::Turbo(op) => self.turbo(op, step),
        }
        Ok(())
    }
}

impl Session for CpuSession<'_> {
    fn bind(&mut self, states: &[State]) -> Result<()> {
        assert!(!states.is_empty() && states.len() <= self.plan.batch);
        for slot in 0..self.plan.batch {
            let state = states[slot.min(states.len() - 1)];
            self.states[slot] = state;
            if let Some(problem) = self.constants.problem {
                let (lower, upper) = problem.cells().image(state.image);
                let at = slot * lower.len()..(slot + 1) * lower.len();
                self.lower[at.clone()].copy_from_slice(lower);
                self.upper[at].copy_from_slice(upper);
            }
        }
        Ok(())
    }

    fn execute(&mut self, program: Program, step: usize) -> Result<()> {
        let step = self.constants.steps[step];
        for instruction in self.plan.program(program) {
            self.run(instruction, step)?;
        }
        Ok(())
    }

    fn execute_timed(&mut self, program: Program, step: usize, report: &mut dyn FnMut(&Op, Duration)) -> Result<()> {
        let step = self.constants.steps[step];
        for instruction in self.plan.program(program) {
            let start = Instant::now();
            self.run(instruction, step)?;
            report(&instruction.op, start.elapsed());
        }
        Ok(())
    }

    fn raised(&mut self, flags: TensorId, _: Wait) -> Result<usize> {
        let flags: &[u32] = self.operands().read(flags);
        Ok(flags.iter().filter(|&&flag| flag != 0).count())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, tensor: TensorId, bytes: &[u8]) -> Result<()> {
        self.operands().write(tensor).copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, tensor: TensorId, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(self.operands().read(tensor));
        Ok(())
    }
}

impl CpuSession<'_> {
    fn operands(&mut self) -> Operands<'_> {
        Operands::new(self.plan, &self.arena)
    }
}

/// Packs the weights of every convolution of the plan, once each.
fn pack(plan: &Plan, prior: &Prior, precision: Precision) -> HashMap<ParamId, Arc<PackedConv>> {
    let weight = |id: ParamId| prior.weight(&plan.params()[id.0 as usize].name);
    let pack = |conv: Conv| {
        let dims = &plan.params()[conv.weight.0 as usize].shape;
        let shape = ConvShape::new(plan.batch, &conv, |id| plan.tensor(id).contents);
        let rounding = precision.of_conv(dims[1], dims[0]);
        let name = &plan.params()[conv.weight.0 as usize].name;
        let name = format!("cpu {name} {:?} {rounding:?}", shape.algorithm);
        prior.packed(name, || {
            let mut values = weight(conv.weight).to_vec();
            if let Some(rounding) = rounding {
                values.iter_mut().for_each(|v| *v = round(rounding, *v));
            }
            PackedConv::new(shape, &values, conv.bias.map(weight), dims[0], dims[1])
        })
    };
    plan.convs().into_iter().map(|conv| (conv.weight, pack(conv))).collect()
}

/// The arena, the packed weights and the cells of the batch.
pub fn bytes(plan: &Plan, constants: Constants<'_>) -> usize {
    let packed = |conv: &Conv| 4 * ConvShape::new(plan.batch, conv, |id| plan.tensor(id).contents).packed_len();
    let m = constants.problem.map_or(0, |p| p.a().rows());
    plan.arena_bytes + plan.convs().iter().map(packed).sum::<usize>() + 16 * plan.batch * m
}

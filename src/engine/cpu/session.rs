//! A plan on the CPU: the op loop.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use qcs_kernels::network::conv::precision::round;

use super::conv::{BLOCK, PackedConv, Prologue, conv};
use super::conv_shape;
use super::ep::{self, CellsRef, Covariance};
use super::features::{self, NormParams};
use super::langevin::{self, Moving, Update};
use super::memory::{Arena, Operands};
use super::products::{self, MatrixRef};
use super::simd::Isa;
use super::threads::Threads;
use crate::engine::{Constants, Precision, Session, State, Step};
use crate::plan::{Activation, Conv, Op, ParamId, Plan, Program, TensorId};
use crate::prior::Prior;
use crate::problem::{Problem, Spectrum, Values};
use crate::{Error, Result};

pub struct CpuSession<'a> {
    threads: &'a mut Threads,
    isa: Isa,
    precision: Precision,
    plan: &'a Plan,
    arena: Arena,
    /// Packed weights by the id of the weight they come from.
    convs: HashMap<ParamId, PackedConv>,
    constants: Constants<'a>,
    spectrum: Option<&'a Spectrum>,
    states: Vec<State>,
    /// Cells of the bound states, `[batch, M]`.
    lower: Vec<f64>,
    upper: Vec<f64>,
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
            states: vec![State { image: 0, chain: 0 }; plan.batch],
            lower: vec![0.0; plan.batch * measurements],
            upper: vec![0.0; plan.batch * measurements],
        })
    }

    fn param(&self, id: ParamId) -> &'a [f32] {
        let prior = self.constants.prior.expect("checked when the session was made");
        prior.weight(&self.plan.params()[id.0 as usize].name)
    }

    fn problem(&self) -> &'a Problem {
        self.constants
            .problem
            .expect("a plan with a likelihood is made from a problem")
    }

    fn covariance(&self, step: Step) -> Covariance<'a> {
        Covariance {
            sigma2: self.problem().sigma2_floored(),
            beta2: step.beta * step.beta,
            eigenvalues: self.spectrum.map_or(&[], |s| &s.eigenvalues),
            diag: self.problem().diag(),
        }
    }

    fn matrix(&self) -> MatrixRef<'a> {
        match self.problem().a().values() {
            Values::F32(values) => MatrixRef::F32(values),
            Values::F64(values) => MatrixRef::F64(values),
        }
    }

    fn u(&self) -> MatrixRef<'a> {
        let u = self.spectrum.and_then(|s| s.u.as_deref());
        MatrixRef::F64(u.expect("rotations are planned only where U is not the identity"))
    }

    fn run(&mut self, op: &Op, scratch: Range<usize>, step: Step) {
        match *op {
            Op::LoadImage { .. }
            | Op::Conv(_)
            | Op::NormCoefficients { .. }
            | Op::Elu { .. }
            | Op::MaxPool { .. }
            | Op::MeanPool { .. }
            | Op::ResizeAdd { .. }
            | Op::StoreScore { .. } => self.run_network(op, scratch, step),
            Op::Project { .. } | Op::BackProject { .. } | Op::RotateIn { .. } | Op::RotateOut { .. } => {
                self.run_product(op, scratch)
            }
            Op::EpStart { .. }
            | Op::EpMoments { .. }
            | Op::EpSeparate { .. }
            | Op::EpGradient { .. }
            | Op::DiagGradient { .. } => self.run_likelihood(op, step),
            Op::StartState { .. } | Op::Gamma { .. } | Op::Langevin { .. } | Op::Denoise { .. } => {
                self.run_sampler(op, scratch, step)
            }
        }
    }

    fn run_network(&mut self, op: &Op, scratch: Range<usize>, step: Step) {
        let (plan, isa) = (self.plan, self.isa);
        let arena = &self.arena;
        let at = Operands { plan, arena };
        let size = |id: TensorId| {
            let (_, height, width) = plan.tensor(id).contents.feature();
            (height, width)
        };
        let channels = |id: TensorId| plan.tensor(id).contents.feature().0;
        match *op {
            Op::LoadImage { x, output } => {
                let (height, width) = size(output);
                features::load_image(
                    self.threads,
                    at.read(x),
                    channels(output),
                    height * width,
                    at.write(output),
                );
            }
            Op::Conv(op) => {
                let prologue = match op.activation {
                    Activation::None => Prologue::None,
                    Activation::Elu => Prologue::Elu,
                    Activation::NormElu(coefficients) => Prologue::NormElu(at.read(coefficients)),
                };
                let residual = op.residual.map(|r| at.read(r));
                let (input, output) = (at.read(op.input), at.write(op.output));
                let packed = &self.convs[&op.weight];
                let shape = conv_shape(plan.batch, &op, |id| plan.tensor(id).contents);
                let scratch = at.scratch(scratch);
                let rounding = self.precision.of_conv(channels(op.input), channels(op.output));
                conv(
                    self.threads,
                    isa,
                    shape,
                    packed,
                    input,
                    prologue,
                    rounding,
                    residual,
                    scratch,
                    output,
                );
            }
            Op::NormCoefficients {
                input,
                alpha,
                gamma,
                beta,
                output,
                ..
            } => {
                let (height, width) = size(input);
                let params = NormParams {
                    alpha: self.param(alpha),
                    gamma: self.param(gamma),
                    beta: self.param(beta),
                };
                let (input, output) = (at.read(input), at.write(output));
                features::norm_coefficients(self.threads, isa, input, height * width, params, output);
            }
            Op::Elu { input, output } => {
                let (height, width) = size(input);
                features::elu_map(
                    self.threads,
                    isa,
                    at.read(input),
                    height * width * BLOCK,
                    at.write(output),
                );
            }
            Op::MaxPool { input, output } => {
                let scratch = at.scratch(scratch);
                features::max_pool(
                    self.threads,
                    isa,
                    at.read(input),
                    size(input),
                    scratch,
                    at.write(output),
                );
            }
            Op::MeanPool {
                input,
                residual,
                output,
            } => {
                let residual = residual.map(|r| at.read(r));
                features::mean_pool(
                    self.threads,
                    isa,
                    at.read(input),
                    residual,
                    size(input),
                    at.write(output),
                );
            }
            Op::ResizeAdd { input, addend, output } => {
                let addend = addend.map(|a| at.read(a));
                let (from, to) = (size(input), size(output));
                features::resize_add(self.threads, isa, at.read(input), from, addend, to, at.write(output));
            }
            Op::StoreScore { input, score } => {
                let (height, width) = size(input);
                let (pixels, beta) = (height * width, step.beta as f32);
                let (channels, input) = (channels(input), at.read(input));
                features::store_score(self.threads, input, channels, pixels, beta, at.write(score));
            }
            _ => unreachable!("not an op of the network"),
        }
    }

    fn run_product(&mut self, op: &Op, scratch: Range<usize>) {
        let (plan, isa, batch) = (self.plan, self.isa, self.plan.batch);
        let arena = &self.arena;
        let at = Operands { plan, arena };
        let scratch = at.scratch::<f64>(scratch);
        match *op {
            Op::Project { x, z } => {
                let (matrix, columns) = (self.matrix(), self.problem().a().cols());
                let (wide, transposed) = scratch.split_at_mut(batch * columns);
                for (wide, &x) in wide.iter_mut().zip(at.read::<f32>(x)) {
                    *wide = f64::from(x);
                }
                products::matrix_times(self.threads, isa, matrix, columns, wide, transposed);
                products::transpose(self.threads, transposed, batch, at.write(z));
            }
            Op::BackProject { g, score } => {
                let (matrix, columns) = (self.matrix(), self.problem().a().cols());
                products::transposed_times(self.threads, isa, matrix, columns, at.read(g), scratch);
                products::untile(self.threads, scratch, batch, |v| v as f32, at.write::<f32>(score));
            }
            Op::RotateIn { input, output } => {
                let (u, m) = (self.u(), self.problem().a().rows());
                products::transposed_times(self.threads, isa, u, m, at.read(input), scratch);
                products::untile(self.threads, scratch, batch, |v| v, at.write(output));
            }
            Op::RotateOut { input, output } => {
                let (u, m) = (self.u(), self.problem().a().rows());
                products::matrix_times(self.threads, isa, u, m, at.read(input), scratch);
                products::transpose(self.threads, scratch, batch, at.write(output));
            }
            _ => unreachable!("not a product"),
        }
    }

    fn run_likelihood(&mut self, op: &Op, step: Step) {
        let (plan, isa, covariance) = (self.plan, self.isa, self.covariance(step));
        let arena = &self.arena;
        let at = Operands { plan, arena };
        let cells = CellsRef {
            lower: &self.lower,
            upper: &self.upper,
        };
        match *op {
            Op::EpStart { h_f, tau_f, start } => ep::start(at.write(h_f), at.write(tau_f), start, covariance),
            Op::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
            } => {
                let (z, h_f, tau_f) = (at.read(z), at.read(h_f), at.read(tau_f));
                ep::moments(self.threads, isa, cells, z, h_f, tau_f, at.write(h_g), at.write(tau_g));
            }
            Op::EpSeparate {
                input,
                tau_g,
                output,
                tau_f,
            } => {
                let (input, tau_g) = (at.read(input), at.read(tau_g));
                ep::separate(
                    self.threads,
                    covariance,
                    input,
                    tau_g,
                    at.write(output),
                    at.write(tau_f),
                );
            }
            Op::EpGradient { z, h_f, tau_f, g } => {
                let (z, h_f, tau_f) = (at.read(z), at.read(h_f), at.read(tau_f));
                ep::gradient(self.threads, isa, cells, z, h_f, tau_f, at.write(g));
            }
            Op::DiagGradient { z, g } => {
                ep::diag_gradient(self.threads, isa, cells, covariance, at.read(z), at.write(g));
            }
            _ => unreachable!("not an op of the likelihood"),
        }
    }

    fn run_sampler(&mut self, op: &Op, scratch: Range<usize>, step: Step) {
        let (plan, isa, seed) = (self.plan, self.isa, self.constants.seed);
        let arena = &self.arena;
        let at = Operands { plan, arena };
        match *op {
            Op::StartState { x, frozen } => {
                langevin::start_state(self.threads, seed, &self.states, at.write(x), at.write(frozen));
            }
            Op::Gamma {
                prior,
                likelihood,
                rule,
                gamma,
            } => langevin::gamma(self.threads, rule, at.read(prior), at.read(likelihood), at.write(gamma)),
            Op::Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            } => {
                let update = Update {
                    seed,
                    states: &self.states,
                    step,
                    prior: at.read(prior),
                    likelihood: likelihood.map(|(score, gamma)| (at.read(score), at.read(gamma))),
                };
                let moving = Moving {
                    x: at.write(x),
                    velocity: velocity.map(|velocity| at.write(velocity)),
                    frozen: at.write(frozen),
                };
                update.apply(self.threads, isa, at.scratch(scratch), moving);
            }
            Op::Denoise { x, prior, frozen } => {
                langevin::denoise(self.threads, step.beta, at.read(prior), at.read(frozen), at.write(x));
            }
            _ => unreachable!("not an op of the sampler"),
        }
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
            self.run(&instruction.op, instruction.scratch.clone(), step);
        }
        Ok(())
    }

    fn execute_timed(&mut self, program: Program, step: usize, report: &mut dyn FnMut(&Op, Duration)) -> Result<()> {
        let step = self.constants.steps[step];
        for instruction in self.plan.program(program) {
            let start = Instant::now();
            self.run(&instruction.op, instruction.scratch.clone(), step);
            report(&instruction.op, start.elapsed());
        }
        Ok(())
    }

    fn end_level(&mut self, frozen: TensorId) -> Result<usize> {
        let flags: &[u32] = self.operands().read(frozen);
        Ok(flags.iter().filter(|&&flag| flag != 0).count())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn write_f32(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        self.operands().write(tensor).copy_from_slice(values);
        Ok(())
    }

    fn read_f32(&mut self, tensor: TensorId, values: &mut [f32]) -> Result<()> {
        values.copy_from_slice(self.operands().read(tensor));
        Ok(())
    }

    fn write_u32(&mut self, tensor: TensorId, values: &[u32]) -> Result<()> {
        self.operands().write(tensor).copy_from_slice(values);
        Ok(())
    }

    fn read_u32(&mut self, tensor: TensorId, values: &mut [u32]) -> Result<()> {
        values.copy_from_slice(self.operands().read(tensor));
        Ok(())
    }
}

impl CpuSession<'_> {
    fn operands(&mut self) -> Operands<'_> {
        Operands {
            plan: self.plan,
            arena: &self.arena,
        }
    }
}

/// Packs the weights of every convolution of the plan, once each.
fn pack(plan: &Plan, prior: &Prior, precision: Precision) -> HashMap<ParamId, PackedConv> {
    let weight = |id: ParamId| prior.weight(&plan.params()[id.0 as usize].name);
    let pack = |conv: Conv| {
        let dims = &plan.params()[conv.weight.0 as usize].shape;
        let shape = conv_shape(plan.batch, &conv, |id| plan.tensor(id).contents);
        let mut values = weight(conv.weight).to_vec();
        if let Some(rounding) = precision.of_conv(dims[1], dims[0]) {
            values.iter_mut().for_each(|v| *v = round(rounding, *v));
        }
        PackedConv::new(shape, &values, conv.bias.map(weight), dims[0], dims[1])
    };
    plan.convs().into_iter().map(|conv| (conv.weight, pack(conv))).collect()
}

/// The arena, the packed weights and the cells of the batch.
pub fn bytes(plan: &Plan, constants: Constants<'_>) -> usize {
    let packed = |conv: &Conv| 4 * conv_shape(plan.batch, conv, |id| plan.tensor(id).contents).packed_len();
    let m = constants.problem.map_or(0, |p| p.a().rows());
    plan.arena_bytes + plan.convs().iter().map(packed).sum::<usize>() + 16 * plan.batch * m
}

//! A plan on a GPU: uploaded once, one Langevin step captured as a graph and relaunched.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use cudarc::driver::sys::CUfunction;

use super::blas::Blas;
use super::calls::{Call, Caller, Product};
use super::driver::{Device, Event, Graph, Memory, Pinned};
use super::layout::Layout;
use super::trace;
use crate::engine::{Constants, Precision, Session, State, Step};
use crate::plan::{Op, ParamId, Plan, Program, TensorId};
use crate::{Error, Result};

pub struct CudaSession<'a> {
    // Dropped in this order: the graph and the levels' copies use the memory.
    graph: Option<Graph>,
    levels: Levels,
    memory: Memory,
    device: Rc<Device>,
    blas: Option<&'a Blas>,
    plan: &'a Plan,
    constants: Constants<'a>,
    layout: Layout,
    programs: Vec<Vec<Prepared>>,
    /// Ends a step
    advance: Ready,
    profile: Profile,
    /// The step that the device's cursor points at once all work is done
    cursor: Option<usize>,
}

/// An op and the launches that compute it.
struct Prepared {
    op: Op,
    /// What a profiler shows
    label: String,
    launches: Vec<Ready>,
}

/// Work that only needs to be started.
enum Ready {
    Kernel { function: CUfunction, call: Call },
    Product(Product),
}

impl Ready {
    fn new(device: &Device, call: Call) -> Result<Self> {
        let function = device.function(call.kernel)?;
        Ok(Self::Kernel { function, call })
    }

    fn launch(&self, device: &Device, blas: Option<&Blas>) -> Result<()> {
        match self {
            // SAFETY: `Caller` made the argument for this kernel from tensors of the session's memory, which is alive.
            Self::Kernel { function, call } => unsafe { device.launch(*function, call.launch, &call.argument) },
            Self::Product(product) => product.launch(blas.expect("products are made only for cuBLAS")),
        }
    }
}

/// The flags of frozen states on their way to the host: two levels may be under way.
struct Levels {
    flags: [Pinned; 2],
    done: [Event; 2],
    /// Levels that have been ended
    count: usize,
}

/// The ranges that a profiler shows, and the levels that it records: those op by op, because a graph is one thing to it.
struct Profile {
    /// The noise level of each step, counted from 1
    level_of: Vec<usize>,
    profiled: Option<RangeInclusive<usize>>,
    recording: Option<trace::Recording>,
    /// The level that was entered last
    level: Option<usize>,
}

impl Profile {
    fn new(steps: &[Step], profiled: Option<RangeInclusive<usize>>) -> Self {
        let mut level = 0;
        let mut beta = f64::NAN;
        let level_of = steps.iter().map(|step| {
            level += usize::from(step.beta != beta);
            beta = step.beta;
            level
        });
        Self {
            level_of: level_of.collect(),
            profiled,
            recording: None,
            level: None,
        }
    }

    /// A step begins, perhaps of another level than the one before.
    fn enter(&mut self, step: usize, device: &Device) -> Result<()> {
        let level = self.level_of[step];
        if self.level.replace(level) == Some(level) {
            return Ok(());
        }
        let wanted = self.profiled.as_ref().is_some_and(|levels| levels.contains(&level));
        if wanted != self.recording.is_some() {
            // What was launched before belongs to its own side.
            device.wait()?;
            self.recording = wanted.then(trace::Recording::start).transpose()?;
        }
        trace::enter_level(level);
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        trace::leave_level();
    }
}

/// "conv res1.0.conv1", "ep_moments"
fn label(plan: &Plan, op: &Op) -> String {
    let of = |param: ParamId| {
        let name = &plan.params()[param.0 as usize].name;
        name.rsplit_once('.')
            .map_or(name.as_str(), |(layer, _)| layer)
            .to_owned()
    };
    match op {
        Op::Conv(conv) => format!("conv {}", of(conv.weight)),
        Op::NormCoefficients { gamma, .. } => format!("norm_coefficients {}", of(*gamma)),
        _ => op.name().to_owned(),
    }
}

impl<'a> CudaSession<'a> {
    pub fn new(
        device: &Rc<Device>,
        blas: Option<&'a Blas>,
        precision: Precision,
        profiled: Option<RangeInclusive<usize>>,
        plan: &'a Plan,
        constants: Constants<'a>,
    ) -> Result<Self> {
        if !plan.params().is_empty() && constants.prior.is_none() {
            return Err(Error::Failed("the plan has a network but there is no prior".into()));
        }
        let layout = Layout::new(plan, constants, precision, blas.is_some());
        let memory = device.allocate(layout.bytes)?;
        let spectrum = match constants.problem {
            Some(problem) if plan.needs_spectrum() => Some(problem.spectrum()?),
            _ => None,
        };
        layout.upload(&memory, plan, constants, precision, spectrum)?;
        // What no kernel has written yet may be read where its value does not matter: the padding of a vector.
        memory.clear(0, plan.arena_bytes)?;

        if let Some(blas) = blas {
            // SAFETY: so much is reserved there, and lives as long as the session, which alone computes products.
            unsafe { blas.set_workspace(memory.address() + layout.workspace as u64)? };
        }

        let caller = Caller {
            plan,
            constants,
            layout: &layout,
            precision,
            base: memory.address(),
        };
        let prepare = |program: Program| {
            let prepared = plan.program(program).iter().map(|instruction| {
                let product = blas.and_then(|_| caller.rotation(&instruction.op));
                let launches = match product {
                    Some(product) => vec![Ready::Product(product)],
                    None => {
                        let calls = caller.calls(instruction).into_iter();
                        calls.map(|call| Ready::new(device, call)).collect::<Result<_>>()?
                    }
                };
                Ok(Prepared {
                    op: instruction.op,
                    label: label(plan, &instruction.op),
                    launches,
                })
            });
            prepared.collect::<Result<Vec<_>>>()
        };
        let programs = Program::ALL.into_iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let advance = Ready::new(device, caller.advance())?;
        let flags = || device.pinned(plan.batch);
        let levels = Levels {
            flags: [flags()?, flags()?],
            done: [device.event(false)?, device.event(false)?],
            count: 0,
        };
        let mut session = Self {
            graph: None,
            levels,
            memory,
            device: Rc::clone(device),
            blas,
            plan,
            constants,
            layout,
            programs,
            advance,
            profile: Profile::new(constants.steps, profiled),
            cursor: None,
        };
        if !plan.program(Program::Step).is_empty() {
            session.graph = Some(device.capture(|| {
                session.launch_ops(Program::Step)?;
                session.advance.launch(&session.device, None)
            })?);
        }
        // The host's packed weights may go, and what went wrong so far is known.
        device.wait()?;
        Ok(session)
    }

    fn launch_ops(&self, program: Program) -> Result<()> {
        let launches = self.programs[program as usize].iter().flat_map(|op| &op.launches);
        launches
            .into_iter()
            .try_for_each(|ready| ready.launch(&self.device, self.blas))
    }

    /// Points the device at a step, if it is not there already.
    fn seek(&mut self, step: usize) -> Result<()> {
        assert!(step < self.constants.steps.len(), "a step that was not announced");
        if self.cursor != Some(step) {
            self.memory.set_word(self.layout.cursor, step as u32)?;
            self.cursor = Some(step);
        }
        Ok(())
    }

    fn offset(&self, tensor: TensorId, bytes: usize) -> usize {
        let tensor = self.plan.tensor(tensor);
        assert_eq!(tensor.bytes, bytes, "a tensor is copied whole");
        tensor.offset
    }
}

impl Session for CudaSession<'_> {
    fn bind(&mut self, states: &[State]) -> Result<()> {
        assert!(!states.is_empty() && states.len() <= self.plan.batch);
        let bound = |slot: usize| states[slot.min(states.len() - 1)];
        let bound: Vec<State> = (0..self.plan.batch).map(bound).collect();
        let keys: Vec<u32> = bound.iter().flat_map(|s| [s.image as u32, s.chain as u32]).collect();
        self.memory.write(self.layout.keys, &keys)?;
        if let Some(problem) = self.constants.problem {
            let cells = |upper: bool| {
                let of = |s: &State| {
                    let (lower_bounds, upper_bounds) = problem.cells().image(s.image);
                    if upper { upper_bounds } else { lower_bounds }
                };
                bound.iter().flat_map(|s| of(s).iter().copied()).collect::<Vec<f64>>()
            };
            self.memory.write(self.layout.lower, &cells(false))?;
            self.memory.write(self.layout.upper, &cells(true))?;
        }
        Ok(())
    }

    fn execute(&mut self, program: Program, step: usize) -> Result<()> {
        self.device.current()?;
        self.seek(step)?;
        let Some(graph) = self.graph.as_ref().filter(|_| program == Program::Step) else {
            return self.launch_ops(program);
        };
        self.profile.enter(step, &self.device)?;
        let _step = trace::range(format_args!("step {}", step + 1));
        if self.profile.recording.is_some() {
            for op in &self.programs[program as usize] {
                let _op = trace::range(format_args!("{}", op.label));
                op.launches
                    .iter()
                    .try_for_each(|ready| ready.launch(&self.device, self.blas))?;
            }
            self.advance.launch(&self.device, None)?;
        } else {
            graph.launch()?;
        }
        self.cursor = Some(step + 1);
        Ok(())
    }

    fn execute_timed(&mut self, program: Program, step: usize, report: &mut dyn FnMut(&Op, Duration)) -> Result<()> {
        self.device.current()?;
        self.seek(step)?;
        let ops = &self.programs[program as usize];
        let marks: Vec<Event> = (0..=ops.len())
            .map(|_| self.device.event(true))
            .collect::<Result<_>>()?;
        marks[0].record()?;
        for (op, mark) in ops.iter().zip(&marks[1..]) {
            op.launches
                .iter()
                .try_for_each(|ready| ready.launch(&self.device, self.blas))?;
            mark.record()?;
        }
        self.device.wait()?;
        for (op, marks) in ops.iter().zip(marks.windows(2)) {
            report(&op.op, Duration::from_secs_f64(marks[1].since(&marks[0])?));
        }
        Ok(())
    }

    fn end_level(&mut self, frozen: TensorId) -> Result<usize> {
        let offset = self.offset(frozen, 4 * self.plan.batch);
        let Levels { flags, done, count } = &mut self.levels;
        let (now, before) = (*count % 2, (*count + 1) % 2);
        self.memory.fetch(offset, &mut flags[now])?;
        done[now].record()?;
        *count += 1;
        if *count == 1 {
            return Ok(0);
        }
        done[before].wait()?;
        Ok(flags[before].words().iter().filter(|&&flag| flag != 0).count())
    }

    fn wait(&mut self) -> Result<()> {
        self.device.wait()
    }

    fn write_f32(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        self.memory.write(self.offset(tensor, size_of_val(values)), values)
    }

    fn read_f32(&mut self, tensor: TensorId, values: &mut [f32]) -> Result<()> {
        self.memory.read(self.offset(tensor, size_of_val(values)), values)
    }

    fn write_u32(&mut self, tensor: TensorId, values: &[u32]) -> Result<()> {
        self.memory.write(self.offset(tensor, size_of_val(values)), values)
    }

    fn read_u32(&mut self, tensor: TensorId, values: &mut [u32]) -> Result<()> {
        self.memory.read(self.offset(tensor, size_of_val(values)), values)
    }
}

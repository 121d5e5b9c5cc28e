//! A plan on a GPU: uploaded once, one Langevin step captured as a graph and relaunched.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use cudarc::driver::sys::CUfunction;
use qcs_kernels::network::conv::tensor::Generation;

use super::blas::Blas;
use super::driver::{Device, Event, Graph, Lane, Memory, Pinned};
use super::layout::Layout;
use super::ops::{Call, Caller, Product};
use super::trace;
use crate::engine::{Constants, Precision, Session, State, Wait};
use crate::plan::{Fork, Instruction, Op, Plan, Program, Step, TensorId};
use crate::{Error, Result};

pub struct CudaSession<'a> {
    // Dropped in this order: the graph and the flags' copies use the memory.
    graph: Option<Graph>,
    flags: Flags,
    memory: Memory,
    device: Rc<Device>,
    blas: Option<&'a Blas>,
    plan: &'a Plan,
    constants: Constants<'a>,
    layout: Layout,
    programs: Vec<Vec<OpLaunches>>,
    /// Ends a step
    advance: Ready,
    profile: Profile,
    /// The step that the device's cursor points at once all work is done
    cursor: Option<usize>,
    /// Why cuBLAS does not multiply although it should
    without_blas: Option<String>,
}

/// An op and the launches that compute it.
struct OpLaunches {
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

    /// Starts a kernel on a lane; a product where cuBLAS is.
    fn launch(&self, device: &Device, blas: Option<&Blas>, lane: Lane) -> Result<()> {
        match self {
            // SAFETY: `Caller` made the argument for this kernel from tensors of the session's memory, which is alive.
            Self::Kernel { function, call } => unsafe { device.launch(*function, call.launch, &call.argument, lane) },
            Self::Product(product) => product.launch(blas.expect("products are made only for cuBLAS")),
        }
    }
}

/// Flags of the states on their way to the host: those of two calls may be under way.
struct Flags {
    words: [Pinned; 2],
    done: [Event; 2],
    /// Calls since the states were bound
    count: usize,
}

/// The ranges that a profiler shows, and the stages that it records: those op by op, because a graph is one thing to it.
struct Profile {
    profiled: Option<RangeInclusive<u32>>,
    recording: Option<trace::Recording>,
    /// The stage that was entered last
    stage: Option<u32>,
}

impl Profile {
    /// A step begins, perhaps of another stage than the one before.
    fn enter(&mut self, step: Step, name: &str, device: &Device) -> Result<()> {
        if self.stage.replace(step.stage) == Some(step.stage) {
            return Ok(());
        }
        let wanted = self
            .profiled
            .as_ref()
            .is_some_and(|stages| stages.contains(&step.stage));
        if wanted != self.recording.is_some() {
            // What was launched before belongs to its own side.
            device.wait()?;
            self.recording = wanted.then(trace::Recording::start).transpose()?;
        }
        trace::enter_stage(name, step.stage);
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        trace::leave_stage();
    }
}

/// "conv res1.0.conv1", "ep_moments"
fn label(plan: &Plan, op: &Op) -> String {
    match op.params().first() {
        Some((param, _)) => {
            let name = &plan.param(*param).name;
            let layer = name.rsplit_once('.').map_or(name.as_str(), |(layer, _)| layer);
            format!("{} {layer}", op.name())
        }
        None => op.name().to_owned(),
    }
}

/// The launches of every program.
fn launches_of(device: &Device, caller: &Caller<'_>, with_blas: bool) -> Result<Vec<Vec<OpLaunches>>> {
    let launches = |instruction: &Instruction| {
        let product = if with_blas {
            caller.rotation(&instruction.op)
        } else {
            None
        };
        let launches = match product {
            Some(product) => vec![Ready::Product(product)],
            None => {
                let calls = caller.calls(instruction).into_iter();
                calls.map(|call| Ready::new(device, call)).collect::<Result<_>>()?
            }
        };
        Ok(OpLaunches {
            op: instruction.op,
            label: label(caller.plan, &instruction.op),
            launches,
        })
    };
    let program = |program| caller.plan.program(program).iter().map(launches).collect();
    Program::ALL.into_iter().map(program).collect()
}

/// Where a step multiplies by U. A library works on one lane at a time: none where both branches would need it.
fn lane_of_products(plan: &Plan) -> Option<Lane> {
    let side = &plan.fork().side;
    let rotates = |(at, i): (usize, &Instruction)| match i.op {
        Op::Product(op) => op.rotates().then(|| side.contains(&at)),
        _ => None,
    };
    let mut aside = plan.program(Program::Step).iter().enumerate().filter_map(rotates);
    match aside.next() {
        Some(first) if aside.any(|other| other != first) => None,
        Some(true) => Some(Lane::Side),
        Some(false) | None => Some(Lane::Main),
    }
}

/// Multiplies once by each way that cuBLAS will multiply inside of a graph, and waits: a library loads its kernels when they
/// are first launched, which drivers before CUDA 12.3 refuse while a stream is being captured. The tensors are zeros, and
/// stay so.
fn rehearse(device: &Device, blas: &Blas, lane: Lane, programs: &[Vec<OpLaunches>]) -> Result<()> {
    let launches = programs.iter().flatten().flat_map(|op| &op.launches);
    let mut done: Vec<bool> = Vec::new();
    for launch in launches {
        // All products of a plan have one shape.
        if let Ready::Product(product) = launch
            && !done.contains(&product.transposed)
        {
            product.launch(blas)?;
            done.push(product.transposed);
        }
    }
    device.wait_for(lane)
}

impl<'a> CudaSession<'a> {
    pub fn new(
        device: &Rc<Device>,
        blas: Option<&'a Blas>,
        precision: Precision,
        profiled: Option<RangeInclusive<u32>>,
        plan: &'a Plan,
        constants: Constants<'a>,
    ) -> Result<Self> {
        if !plan.params().is_empty() && constants.prior.is_none() {
            return Err(Error::Failed("the plan has a network but there is no prior".into()));
        }
        let blas = blas.filter(|_| lane_of_products(plan).is_some());
        let layout = Layout::new(plan, constants, precision, blas.is_some());
        let memory = device.allocate(layout.bytes)?;
        let spectrum = match constants.problem {
            Some(problem) if plan.needs_spectrum() => Some(problem.spectrum()?),
            _ => None,
        };
        let mut write = |offset: usize, bytes: &[u8]| memory.write(offset, bytes);
        let generation = Generation::of(device.properties.capability);
        layout.upload(&mut write, plan, constants, precision, generation, spectrum)?;
        // What no kernel has written yet may be read where its value does not matter: the padding of a vector.
        memory.clear(0, plan.arena_bytes)?;

        let caller = Caller {
            plan,
            constants,
            layout: &layout,
            precision,
            generation,
            multiprocessors: device.properties.multiprocessors,
            base: memory.address(),
        };
        let mut blas = blas;
        let mut programs = launches_of(device, &caller, blas.is_some())?;
        let (mut lent, mut without_blas) = (None, None);
        if let Some(library) = blas {
            let lane = lane_of_products(plan).expect("else there is no library here");
            let workspace = memory.address() + layout.workspace as u64;
            // SAFETY: so much is reserved there, and the graph goes before it; the session alone computes products.
            lent = Some(unsafe { library.lend_workspace(device.lane(lane), workspace)? });
            // The arena is cleared on the main lane.
            device.wait()?;
            if let Err(reason) = rehearse(device, library, lane, &programs) {
                blas = None;
                programs = launches_of(device, &caller, false)?;
                without_blas = Some(reason.to_string());
            }
        }
        let advance = Ready::new(device, caller.advance())?;
        let words = || device.pinned(plan.batch);
        let flags = Flags {
            words: [words()?, words()?],
            done: [device.event(false)?, device.event(false)?],
            count: 0,
        };
        let mut session = Self {
            graph: None,
            flags,
            memory,
            device: Rc::clone(device),
            blas,
            plan,
            constants,
            layout,
            programs,
            advance,
            profile: Profile {
                profiled,
                recording: None,
                stage: None,
            },
            cursor: None,
            without_blas,
        };
        if !plan.program(Program::Step).is_empty() {
            session.graph = Some(device.capture(|| {
                session.launch_branches()?;
                session.advance.launch(&session.device, None, Lane::Main)
            })?);
        }
        // From here on the library is on the main lane again, and in its own memory.
        drop(lent);
        // The host's packed weights may go, and what went wrong so far is known.
        device.wait()?;
        Ok(session)
    }

    fn launch_ops(&self, program: Program) -> Result<()> {
        let launches = self.programs[program as usize].iter().flat_map(|op| &op.launches);
        launches
            .into_iter()
            .try_for_each(|ready| ready.launch(&self.device, self.blas, Lane::Main))
    }

    /// The ops of a step, its two branches side by side, to be captured.
    fn launch_branches(&self) -> Result<()> {
        let Fork { main, side } = self.plan.fork();
        for (at, op) in self.programs[Program::Step as usize].iter().enumerate() {
            let lane = if side.contains(&at) { Lane::Side } else { Lane::Main };
            if !side.is_empty() && at == main.start {
                self.device.fork()?;
            }
            for launch in &op.launches {
                launch.launch(&self.device, self.blas, lane)?;
            }
            if at + 1 == side.end {
                self.device.join()?;
            }
        }
        Ok(())
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
        // What the states before have raised is no flag of these.
        self.flags.count = 0;
        let mut write = |offset: usize, bytes: &[u8]| self.memory.write(offset, bytes);
        self.layout.bind(&mut write, self.plan.batch, self.constants, states)
    }

    fn execute(&mut self, program: Program, step: usize) -> Result<()> {
        self.device.current()?;
        self.seek(step)?;
        let Some(graph) = self.graph.as_ref().filter(|_| program == Program::Step) else {
            return self.launch_ops(program);
        };
        let Constants { steps, stage, .. } = self.constants;
        self.profile.enter(steps[step], stage, &self.device)?;
        let _step = trace::range(format_args!("step {}", step + 1));
        if self.profile.recording.is_some() {
            for op in &self.programs[program as usize] {
                let _op = trace::range(format_args!("{}", op.label));
                op.launches
                    .iter()
                    .try_for_each(|ready| ready.launch(&self.device, self.blas, Lane::Main))?;
            }
            self.advance.launch(&self.device, None, Lane::Main)?;
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
                .try_for_each(|ready| ready.launch(&self.device, self.blas, Lane::Main))?;
            mark.record()?;
        }
        self.device.wait()?;
        for (op, marks) in ops.iter().zip(marks.windows(2)) {
            report(&op.op, Duration::from_secs_f64(marks[1].since(&marks[0])?));
        }
        Ok(())
    }

    fn raised(&mut self, flags: TensorId, wait: Wait) -> Result<usize> {
        let offset = self.offset(flags, 4 * self.plan.batch);
        let Flags { words, done, count } = &mut self.flags;
        let now = *count % 2;
        self.memory.fetch(offset, &mut words[now])?;
        done[now].record()?;
        *count += 1;
        let told = match wait {
            Wait::Now => now,
            Wait::Behind if *count == 1 => return Ok(0),
            Wait::Behind => 1 - now,
        };
        done[told].wait()?;
        Ok(words[told].words().iter().filter(|&&flag| flag != 0).count())
    }

    fn notes(&self) -> Vec<String> {
        let reason = self.without_blas.iter();
        reason
            .map(|reason| format!("products with U by our own kernel: {reason}"))
            .collect()
    }

    fn wait(&mut self) -> Result<()> {
        self.device.wait()
    }

    fn write(&mut self, tensor: TensorId, bytes: &[u8]) -> Result<()> {
        self.memory.write(self.offset(tensor, bytes.len()), bytes)
    }

    fn read(&mut self, tensor: TensorId, bytes: &mut [u8]) -> Result<()> {
        self.memory.read(self.offset(tensor, bytes.len()), bytes)
    }
}

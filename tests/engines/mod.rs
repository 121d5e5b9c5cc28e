//! Every engine that a test can run on: the CPU with each of its instruction sets, and the kernels of both architectures on
//! the PTX emulator, without a driver between.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use qcs::engine::cpu::CpuEngine;
use qcs::engine::cuda::laid_out::{LaidOut, target, target_with_transforms};
use qcs::engine::{Constants, Engine, Precision, Session, State, Wait};
use qcs::plan::{Op, Plan, Program, Target, TensorId};
use qcs::{Error, Result};
use qcs_emulator::{Buffer, Device, LaunchConfig, LoadedModule, Options, Params, Report};
use qcs_kernels::network::conv::tensor::Generation;
use qcs_kernels::{PTX_SM_70, PTX_SM_80};

/// An engine that is still to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The CPU with one of its instruction sets, the plainest first
    Cpu(usize),
    /// The kernels of one architecture on the emulator
    Emulated(u32),
}

impl Closed {
    /// All that compute in a precision.
    pub fn all(precision: Precision) -> Vec<Self> {
        let cpus = (0..CpuEngine::every(1).len()).map(Self::Cpu);
        let emulated = [70, 80].into_iter();
        let emulated = emulated.filter(|&architecture| precision.on_gpu(architecture));
        cpus.chain(emulated.map(Self::Emulated)).collect()
    }

    /// "cpu-avx2", "sm_70"
    #[allow(dead_code)] // not every test program asks for it
    pub fn name(self) -> String {
        match self {
            Self::Cpu(index) => CpuEngine::every(1)[index].rounds_as().to_owned(),
            Self::Emulated(architecture) => format!("sm_{architecture}"),
        }
    }

    pub fn open(self, precision: Precision) -> Box<dyn Engine> {
        match self {
            Self::Cpu(index) => Box::new(CpuEngine::every(2).swap_remove(index).rounding(precision)),
            Self::Emulated(architecture) => {
                let ptx = if architecture == 70 { PTX_SM_70 } else { PTX_SM_80 };
                Box::new(Emulated::new(ptx, architecture, precision, false))
            }
        }
    }
}

/// All engines that compute in a precision.
#[allow(dead_code)] // not every test program asks for all
pub fn every_engine(precision: Precision) -> Vec<Box<dyn Engine>> {
    let all = Closed::all(precision).into_iter();
    all.map(|engine| engine.open(precision)).collect()
}

/// The kernels of one PTX on the emulator.
pub struct Emulated {
    device: Rc<Device>,
    module: Rc<LoadedModule>,
    architecture: u32,
    precision: Precision,
    target: Box<dyn Target>,
    /// Of every launch so far
    pub reports: Rc<RefCell<Vec<Report>>>,
}

impl Emulated {
    pub fn new(ptx: &str, architecture: u32, precision: Precision, profile: bool) -> Self {
        let device = Device::new(Options {
            profile,
            ..Options::default()
        });
        let module = device.load(ptx).expect("the PTX loads");
        Self {
            device: Rc::new(device),
            module: Rc::new(module),
            architecture,
            precision,
            target: target(precision),
            reports: Rc::default(),
        }
    }

    /// The same with so many bytes for Winograd's transforms of a layer.
    #[allow(dead_code)] // not every test program asks for it
    pub fn with_transforms(self, bytes: usize) -> Self {
        Self {
            target: target_with_transforms(self.precision, bytes),
            ..self
        }
    }
}

impl Engine for Emulated {
    fn rounds_as(&self) -> &'static str {
        "emulated"
    }

    fn describe(&self) -> String {
        format!("emulated sm_{}, {}", self.architecture, self.precision)
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize {
        LaidOut::new(plan, constants, self.precision).bytes()
    }

    fn free_bytes(&self) -> Option<usize> {
        None
    }

    fn peak_gflops(&self) -> Option<f64> {
        None
    }

    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>> {
        let laid_out = LaidOut::new(plan, constants, self.precision);
        let memory = Memory(self.device.poisoned(laid_out.bytes()));
        laid_out.upload(Generation::of(self.architecture), &mut |offset, bytes| {
            memory.write(offset, bytes)
        })?;
        Ok(Box::new(EmulatedSession {
            device: Rc::clone(&self.device),
            module: Rc::clone(&self.module),
            reports: Rc::clone(&self.reports),
            gaps: gaps(plan),
            plan,
            laid_out,
            memory,
            cursor: None,
        }))
    }
}

/// One allocation of the emulator, every byte 0xff at first: NaN.
struct Memory(Buffer<u8>);

impl Memory {
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.0.len());
        // SAFETY: the buffer is memory of this process and holds these bytes; no kernel runs now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) };
        Ok(())
    }

    fn read(&self, range: Range<usize>) -> &[u8] {
        assert!(range.end <= self.0.len());
        // SAFETY: the buffer is memory of this process and holds these bytes; no kernel runs while the slice lives.
        unsafe { std::slice::from_raw_parts(self.at(range.start), range.len()) }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        (self.0.address() as usize + offset) as *mut u8
    }
}

/// The bytes of the arena that belong to no tensor and to no op.
fn gaps(plan: &Plan) -> Vec<Range<usize>> {
    let mut taken: Vec<Range<usize>> = plan.tensors().iter().map(|t| t.offset..t.offset + t.bytes).collect();
    taken.extend(plan.instructions().map(|i| i.scratch.clone()));
    taken.sort_by_key(|range| range.start);
    let (mut end, mut gaps) = (0, Vec::new());
    for range in taken {
        if range.start > end {
            gaps.push(end..range.start);
        }
        end = end.max(range.end);
    }
    gaps.push(end..plan.arena_bytes);
    gaps
}

struct EmulatedSession<'a> {
    device: Rc<Device>,
    module: Rc<LoadedModule>,
    reports: Rc<RefCell<Vec<Report>>>,
    plan: &'a Plan,
    laid_out: LaidOut<'a>,
    memory: Memory,
    gaps: Vec<Range<usize>>,
    /// The step that the device's cursor points at
    cursor: Option<usize>,
}

impl Session for EmulatedSession<'_> {
    fn bind(&mut self, states: &[State]) -> Result<()> {
        let memory = &self.memory;
        self.laid_out
            .bind(states, &mut |offset, bytes| memory.write(offset, bytes))
    }

    fn execute(&mut self, program: Program, step: usize) -> Result<()> {
        if self.cursor != Some(step) {
            self.memory
                .write(self.laid_out.cursor(), &(step as u32).to_le_bytes())?;
        }
        for call in self.laid_out.calls(program, self.memory.0.address()) {
            let config = LaunchConfig {
                grid: [call.launch.grid[0], call.launch.grid[1], 1],
                block: [call.launch.threads, 1, 1],
                dynamic_shared: 0,
            };
            let params = Params::new().bytes(&call.argument);
            let report = self.device.launch(&self.module, call.kernel, config, &params);
            let report = report.map_err(|e| Error::Device(format!("{}: {e}", call.kernel)))?;
            self.reports.borrow_mut().push(report);
        }
        self.cursor = Some(if program == Program::Step { step + 1 } else { step });
        let mut outside = self.gaps.iter().flat_map(|gap| self.memory.read(gap.clone()));
        if !self.memory.0.guards_intact() || outside.any(|&byte| byte != 0xff) {
            return Err(Error::Device("a kernel wrote outside its arrays".into()));
        }
        Ok(())
    }

    fn execute_timed(&mut self, program: Program, step: usize, _: &mut dyn FnMut(&Op, Duration)) -> Result<()> {
        self.execute(program, step)
    }

    fn raised(&mut self, flags: TensorId, _: Wait) -> Result<usize> {
        let tensor = self.plan.tensor(flags);
        let words = self.memory.read(tensor.offset..tensor.offset + tensor.bytes);
        Ok(words.chunks_exact(4).filter(|word| *word != [0; 4]).count())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, tensor: TensorId, bytes: &[u8]) -> Result<()> {
        let tensor = self.plan.tensor(tensor);
        assert_eq!(tensor.bytes, bytes.len(), "a tensor is copied whole");
        self.memory.write(tensor.offset, bytes)
    }

    fn read(&mut self, tensor: TensorId, bytes: &mut [u8]) -> Result<()> {
        let tensor = self.plan.tensor(tensor);
        bytes.copy_from_slice(self.memory.read(tensor.offset..tensor.offset + tensor.bytes));
        Ok(())
    }
}

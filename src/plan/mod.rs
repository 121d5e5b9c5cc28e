//! The computation as data: which ops run, on which tensors, at which offsets of one arena.
//!
//! A plan is compiled once for a batch size, an image shape and a target, and then executed any number of times by an
//! engine, which allocates nothing. Every engine executes the same plan; an op that is not listed in [`Op`] does not
//! exist.

mod arena;
mod builder;
mod fork;
mod ops;

pub use builder::PlanBuilder;
pub use fork::Fork;
pub use ops::{
    Activated, Activation, Conv, Cost, Embed, EpCarry, EpDamp, EpMoments, EpSeparate, EpSettle, EpStart, GammaRule,
    GroupNorm, Langevin, LangevinNumbers, LevelTerms, LikelihoodOp, NetworkOp, Op, Operands, Packing, ProductOp,
    SamplerOp, Sites, TurboDenoise, TurboDraw, TurboDrawStart, TurboFilter, TurboOp, TurboScale, TurboStart, TurboStep,
};

/// Index of a tensor of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorId(pub(crate) u32);

/// Index of a weight tensor of the prior, in [`Plan::params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamId(pub(crate) u32);

/// Index of an array that the problem's operator computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayId(u32);

impl ArrayId {
    pub fn new(index: usize) -> Self {
        Self(index as u32)
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one tensor holds for each state of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A feature map `[channels, height, width]` in f32. In memory `[channels / block, height, width, block]`, where
    /// `block` is the target's; the last block is padded with zeros.
    Feature {
        channels: usize,
        height: usize,
        width: usize,
    },
    /// A vector of f32.
    F32(usize),
    /// A vector of f64.
    F64(usize),
    /// A vector of u32.
    U32(usize),
}

/// A tensor and its place in the arena.
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    pub contents: Contents,
    /// In bytes from the start of the arena, a multiple of [`ALIGNMENT`].
    pub offset: usize,
    /// For the whole batch.
    pub bytes: usize,
    /// Keeps its value from one execution to the next.
    pub persistent: bool,
    /// The tensor that it lies right behind, where it is a [guard](PlanBuilder::guard)
    pub behind: Option<TensorId>,
}

/// Every tensor starts at a multiple of this many bytes: a cache line, and a GPU's widest load.
pub const ALIGNMENT: usize = 64;

/// The op lists of a plan; they share one arena, and only persistent tensors survive from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Before the first step of a batch
    Start,
    /// Again and again: a GPU holds it as one graph
    Step,
    /// After the last step
    Finish,
}

impl Program {
    pub const ALL: [Self; 3] = [Self::Start, Self::Step, Self::Finish];
    const COUNT: usize = Self::ALL.len();
}

/// One execution of a program: what its ops read beside their tensors. A device holds all steps of a run, and is told only
/// to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// What the sampler's ops read; other rooms leave it open
    pub langevin: LangevinNumbers,
    /// Number of the step since the start of the run; it keys the noise.
    pub index: u32,
    /// The part of the run that a profiler shows as one range, counted from 1: a noise level, an iteration
    pub stage: u32,
}

/// What an engine tells the planner about itself.
pub trait Target {
    /// Channels that lie next to each other in a feature map: 1 is NCHW.
    fn channel_block(&self) -> usize;
    /// What a convolution should leave behind for the norm that follows, if anything.
    fn statistics(&self, _conv: &Conv, _plan: &PlanBuilder) -> Option<Contents> {
        None
    }
    /// What a convolution should leave of its output, activated, for one that follows, if anything.
    fn activated(&self, _writer: &Conv, _reader: &Conv, _plan: &PlanBuilder) -> Option<Contents> {
        None
    }
    /// Whether two runs of ops that do not need each other are executed at once, and so must not share memory.
    fn forks(&self) -> bool {
        false
    }
    /// Bytes of working memory that an op needs beside its operands.
    fn scratch_bytes(&self, op: &Op, plan: &PlanBuilder) -> usize;
}

/// A weight tensor that the plan refers to, under its name in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub shape: Vec<usize>,
}

/// One op and its scratch memory.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub op: Op,
    /// Byte range of the arena that is the op's alone while it runs.
    pub scratch: std::ops::Range<usize>,
}

/// A compiled computation: see the module's documentation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub batch: usize,
    pub channel_block: usize,
    pub arena_bytes: usize,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) params: Vec<Param>,
    pub(crate) programs: [Vec<Instruction>; Program::COUNT],
    pub(crate) fork: Fork,
}

impl Plan {
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub fn params(&self) -> &[Param] {
        &self.params
    }

    pub fn param(&self, id: ParamId) -> &Param {
        &self.params[id.0 as usize]
    }

    /// The ops of one program, in order; empty if the plan has no such program.
    pub fn program(&self, program: Program) -> &[Instruction] {
        &self.programs[program as usize]
    }

    /// The two runs of ops of [`Program::Step`] that may be executed at once; both empty if there are none.
    pub fn fork(&self) -> &Fork {
        &self.fork
    }

    /// All programs' instructions.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.programs.iter().flatten()
    }

    /// Whether any program has such an op.
    pub fn has(&self, wanted: impl Fn(&Op) -> bool) -> bool {
        self.instructions().any(|i| wanted(&i.op))
    }

    /// Whether an op multiplies by U.
    pub fn rotates(&self) -> bool {
        self.has(|op| matches!(op, Op::Product(op) if op.rotates()))
    }

    /// Whether an op reads the spectrum of A. The diagonal method has none, and factorising A·Aᵀ can take a minute.
    pub fn needs_spectrum(&self) -> bool {
        let reads = |op: &Op| match op {
            Op::Likelihood(op) => op.needs_spectrum(),
            Op::Turbo(op) => op.needs_spectrum(),
            Op::Network(_) | Op::Product(_) | Op::Sampler(_) => false,
        };
        self.rotates() || self.has(reads)
    }

    /// The weights that the ops of all programs compute with, each once, in the order of the ops.
    pub fn packed_params(&self) -> Vec<(ParamId, Packing)> {
        let mut seen = vec![false; self.params.len()];
        let params = self.instructions().flat_map(|i| i.op.params());
        params
            .filter(|(param, _)| !std::mem::replace(&mut seen[param.0 as usize], true))
            .collect()
    }

    /// The convolutions of all programs, one for each weight.
    pub fn convs(&self) -> Vec<Conv> {
        let conv = |(_, packing)| match packing {
            Packing::Conv(conv) => Some(conv),
            Packing::Channels | Packing::Plain => None,
        };
        self.packed_params().into_iter().filter_map(conv).collect()
    }

    /// The same computation for another batch size. Tensors keep their ids.
    pub fn with_batch(&self, batch: usize, target: &dyn Target) -> Self {
        PlanBuilder::again(self, batch, target).finish(target)
    }

    /// The same plan, in the same arena, with only some of one program's ops: for timing or counting those. What the
    /// others would have written is not.
    pub fn only(&self, program: Program, mut keep: impl FnMut(&Op) -> bool) -> Self {
        let mut plan = self.clone();
        plan.programs[program as usize].retain(|instruction| keep(&instruction.op));
        plan.fork = Fork::default();
        plan
    }

    /// Floating-point operations of one execution of a program for the whole batch.
    pub fn flops(&self, program: Program) -> u64 {
        let of = |i: &Instruction| i.op.cost(self).flops;
        self.program(program).iter().map(of).sum()
    }
}

impl Contents {
    /// Bytes for one state, channels padded to whole blocks.
    pub fn bytes(&self, channel_block: usize) -> usize {
        match *self {
            Self::Feature {
                channels,
                height,
                width,
            } => 4 * channels.next_multiple_of(channel_block) * height * width,
            Self::F32(len) | Self::U32(len) => 4 * len,
            Self::F64(len) => 8 * len,
        }
    }

    /// Channels, height and width of a feature map.
    ///
    /// Panics for a vector: the builder gives feature ops only feature maps.
    pub fn feature(&self) -> (usize, usize, usize) {
        match *self {
            Self::Feature {
                channels,
                height,
                width,
            } => (channels, height, width),
            _ => panic!("a vector stands where a feature map is needed"),
        }
    }
}

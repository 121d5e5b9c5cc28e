//! Kernels and modules.

use super::instruction::{Instruction, Op, Reg};
use super::types::Space;

/// Values that a warp knows when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    WarpCount,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    SmId,
    SmCount,
    GridId,
    DynamicSharedBytes,
    TotalSharedBytes,
    /// Offset of the dynamic shared memory, behind all static variables.
    DynamicShared,
    /// Address of a module variable, by index into `Module::globals`.
    GlobalAddress(u32),
}

/// A kernel parameter's place in the parameter block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    pub offset: usize,
    pub bytes: usize,
}

/// One `.entry`, ready to run.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub code: Vec<Instruction>,
    /// Opcode texts such as `fma.rn.f32`, each once.
    pub mnemonics: Vec<String>,
    /// Number of 32-lane, 32-bit register planes.
    pub planes: usize,
    pub predicates: usize,
    pub constants: Vec<(Reg, u64)>,
    pub specials: Vec<(Reg, Special)>,
    pub static_shared_bytes: usize,
    pub local_bytes: usize,
    pub params: Vec<Param>,
    pub param_bytes: usize,
    /// Product of `.maxntid` or `.reqntid`; 0 without them.
    pub max_threads: u32,
    /// Upper bound on live 32-bit registers per thread; see `live_registers`.
    pub live_registers: u32,
    /// Per instruction; see `flow_order`.
    pub order: Vec<u32>,
}

impl Kernel {
    /// The smallest shared-memory access, hence the finest unit in which races can happen.
    pub fn shared_granule(&self) -> usize {
        let shared = |space| matches!(space, Space::Shared | Space::Generic);
        let size = |i: &Instruction| match &i.op {
            Op::Load(a) | Op::Store(a) if shared(a.space) => Some(a.bytes()),
            Op::Atomic(a) if shared(a.space) => Some(a.ty.bytes()),
            Op::CopyAsync(c) => Some(c.bytes as usize),
            Op::LoadMatrix(_) => Some(16),
            _ => None,
        };
        self.code.iter().filter_map(size).min().unwrap_or(4).min(16)
    }

    pub fn mnemonic(&self, instruction: &Instruction) -> &str {
        &self.mnemonics[instruction.mnemonic as usize]
    }
}

/// A `.global` or `.const` variable.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: String,
    pub align: usize,
    /// Initial contents; zeros where the text gives none.
    pub bytes: Vec<u8>,
    /// Addresses of other variables to add in: offset in `bytes`, variable index.
    pub relocations: Vec<(usize, u32)>,
}

/// A parsed PTX module. It holds no device memory and can be loaded many times.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub kernels: Vec<Kernel>,
    pub globals: Vec<Global>,
    /// The number in `.target sm_NN`.
    pub target: u32,
    /// The PTX ISA in `.version`.
    pub version: (u32, u32),
}

impl Module {
    /// Parses PTX text. Anything the executor cannot run is an error here, with its line.
    pub fn parse(source: &str) -> Result<Module, crate::LoadError> {
        crate::ptx::parse(source)
    }

    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

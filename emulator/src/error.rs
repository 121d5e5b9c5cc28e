//! What can go wrong: a text that does not load, a launch that cannot start, a kernel that faults.

use crate::ir::Space;
use std::fmt;

/// PTX that cannot be loaded: where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    pub line: u32,
    pub message: String,
}

impl LoadError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> LoadError {
        LoadError {
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for LoadError {}

/// A failed launch.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchError {
    /// The request itself is invalid: dimensions, shared memory, parameters.
    Invalid(String),
    /// The kernel did something wrong.
    Fault(Box<Fault>),
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LaunchError::Invalid(message) => f.write_str(message),
            LaunchError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for LaunchError {}

impl From<Box<Fault>> for LaunchError {
    fn from(fault: Box<Fault>) -> LaunchError {
        LaunchError::Fault(fault)
    }
}

/// A fault with the place where it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kernel: String,
    pub line: u32,
    pub instruction: String,
    pub block: [u32; 3],
    pub warp: u32,
    pub lane: Option<u32>,
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(
            f,
            "kernel {}: {}; {} at PTX line {}",
            self.kernel, self.kind, self.instruction, self.line
        )?;
        write!(f, ", block ({x}, {y}, {z}), warp {}", self.warp)?;
        self.lane.map_or(Ok(()), |lane| write!(f, ", lane {lane}"))
    }
}

impl std::error::Error for Fault {}

/// A shared-memory access, as named in a race report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceSide {
    pub write: bool,
    pub warp: u32,
    pub line: u32,
}

impl fmt::Display for RaceSide {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = if self.write { "write" } else { "read" };
        write!(f, "{what} by warp {} at line {}", self.warp, self.line)
    }
}

/// The kinds of fault a kernel can have.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    OutOfBounds {
        space: Space,
        address: u64,
        bytes: usize,
        write: bool,
        hint: String,
    },
    Misaligned {
        space: Space,
        address: u64,
        bytes: usize,
    },
    /// Two warps touch one shared address, at least one writes, and no barrier lies between.
    SharedRace {
        address: u64,
        this: RaceSide,
        other: RaceSide,
    },
    /// Shared memory that a `cp.async` still writes is used before the wait.
    CopyInFlight {
        address: u64,
        issued: RaceSide,
    },
    /// A shuffle reads a lane that does not take part.
    InactiveLane {
        source: u32,
    },
    /// Lanes named by a member mask never arrive.
    MissingLanes {
        needed: u32,
        arrived: u32,
    },
    /// A lane executes an instruction whose member mask leaves it out.
    NotAMember {
        members: u32,
    },
    BarrierId(u32),
    /// `brx.idx` beyond the end of its table.
    BranchIndex(u32),
    Deadlock(String),
    Trap,
    TooManyInstructions(u64),
    /// Another block failed first.
    Stopped,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        use FaultKind::*;
        match self {
            OutOfBounds {
                space,
                address,
                bytes,
                write,
                hint,
            } => {
                let what = if *write { "write" } else { "read" };
                write!(
                    f,
                    "out-of-bounds {} {what} of {bytes} bytes at {address:#x}{hint}",
                    space.name()
                )
            }
            Misaligned { space, address, bytes } => {
                write!(f, "misaligned {} access of {bytes} bytes at {address:#x}", space.name())
            }
            SharedRace { address, this, other } => {
                write!(
                    f,
                    "shared-memory race at {address:#x}: {this}, {other}, no barrier between"
                )
            }
            CopyInFlight { address, issued } => {
                write!(
                    f,
                    "shared memory at {address:#x} used before the wait for cp.async ({issued})"
                )
            }
            InactiveLane { source } => write!(f, "shuffle reads inactive lane {source}"),
            MissingLanes { needed, arrived } => {
                write!(f, "member mask {needed:#010x} but only lanes {arrived:#010x} arrive")
            }
            NotAMember { members } => write!(f, "the lane is not in its own member mask {members:#010x}"),
            BranchIndex(index) => write!(f, "no branch target number {index}"),
            BarrierId(id) => write!(f, "barrier {id} does not exist (0 to 15)"),
            Deadlock(detail) => write!(f, "deadlock: {detail}"),
            Trap => f.write_str("trap"),
            TooManyInstructions(limit) => write!(f, "more than {limit} warp instructions in one block"),
            Stopped => f.write_str("stopped because another block failed"),
        }
    }
}

/// A fault before the scheduler has added kernel, line, block and warp.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub lane: Option<u32>,
    pub kind: FaultKind,
}

impl Trouble {
    #[cold]
    pub fn new(lane: Option<u32>, kind: FaultKind) -> Box<Trouble> {
        Box::new(Trouble { lane, kind })
    }

    #[cold]
    pub fn at(lane: usize, kind: FaultKind) -> Box<Trouble> {
        Trouble::new(Some(lane as u32), kind)
    }
}

pub(crate) type Step = Result<(), Box<Trouble>>;

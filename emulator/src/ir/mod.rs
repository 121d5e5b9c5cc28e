//! The intermediate representation: what the parser produces and the executor runs.
//!
//! A kernel is a flat list of instructions; calls are already inlined and labels resolved. Every
//! source operand is a register: immediates and special registers are registers that the executor
//! fills once, when a warp starts.

mod instruction;
mod kernel;
mod liveness;
mod order;
mod types;
mod visit;

pub use instruction::*;
pub use kernel::*;
pub use types::*;

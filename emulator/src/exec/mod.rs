//! Execution: blocks of a launch on host threads, warps of a block in turn, 32 lanes at a time.

mod atomic;
mod bits;
mod block;
mod compare;
mod convert;
mod copy_async;
mod float;
mod integer;
mod lanes;
mod launch;
mod load_store;
mod matrix;
mod memory;
mod mma;
mod moves;
mod profile;
mod race;
mod schedule;
mod warp;
mod warp_sync;

pub use launch::{Environment, Options, run};
pub use memory::{HostPtr, Ranges};
pub use profile::{MemoryCounters, Profile};

//! Occupancy queries.

use super::function::Function;
use super::state::driver;
use super::status::*;
use super::{Handle, object, put};
use crate::device::occupancy::occupancy;
use std::ffi::{c_int, c_uint};

/// # Safety
/// `blocks` is null or valid for a write; `function` came from a loaded module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    dynamic_shared: usize,
) -> Status {
    // SAFETY: the caller vouches for the handle.
    let Some(function) = (unsafe { object::<Function>(function) }) else {
        return INVALID_HANDLE;
    };
    let kernel = function.kernel();
    let shared = (kernel.static_shared_bytes + dynamic_shared) as u32;
    let result = occupancy(
        &driver().config.multiprocessor,
        threads.max(1) as u32,
        kernel.live_registers,
        shared,
    );
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(blocks, result.blocks as c_int) }
}

/// # Safety
/// As `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: Handle,
    threads: c_int,
    dynamic_shared: usize,
    _flags: c_uint,
) -> Status {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared) }
}

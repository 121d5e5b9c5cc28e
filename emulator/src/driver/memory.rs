//! Allocation.

use super::state::{driver, ready, ready_outside_capture};
use super::status::*;
use super::stream::{Stream, is_capturing};
use super::{DevicePtr, Handle, put};
use std::ffi::{c_int, c_uint};

/// Allocates within the budget, unless this allocation was chosen to fail.
fn allocate(bytes: usize) -> Result<DevicePtr, Status> {
    let mut state = ready()?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    state.counters.allocations += 1;
    state.allocation_number += 1;
    let chosen = state.config.fail_allocation == Some(state.allocation_number);
    if chosen || state.memory().in_use().saturating_add(bytes) > state.config.memory {
        return Err(OUT_OF_MEMORY);
    }
    state.memory().allocate(bytes).ok_or(OUT_OF_MEMORY)
}

fn free(address: DevicePtr) -> Status {
    if address == 0 {
        return SUCCESS;
    }
    // Memory can be freed after a kernel has faulted, too.
    let mut state = driver();
    if !state.gpus.iter().any(|gpu| gpu.device.memory().free(address)) {
        eprintln!("qcs-emulator: {address:#x} is freed but not allocated");
        return INVALID_VALUE;
    }
    state.counters.frees += 1;
    SUCCESS
}

/// # Safety
/// `target` is null or valid for a write.
unsafe fn allocate_into(target: *mut DevicePtr, bytes: usize) -> Status {
    match allocate(bytes) {
        // SAFETY: the caller vouches for the pointer.
        Ok(address) => unsafe { put(target, address) },
        Err(status) => status,
    }
}

/// # Safety
/// `address` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut DevicePtr, bytes: usize) -> Status {
    if let Err(status) = ready_outside_capture("cuMemAlloc") {
        return status;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { allocate_into(address, bytes) }
}

/// # Safety
/// `address` is null or valid for a write; `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut DevicePtr, bytes: usize, stream: Handle) -> Status {
    // SAFETY: the caller vouches for the stream.
    if is_capturing(unsafe { Stream::of(stream) }) {
        eprintln!("qcs-emulator: cuMemAllocAsync in a captured stream is not supported");
        return NOT_SUPPORTED;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { allocate_into(address, bytes) }
}

/// # Safety
/// `address` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(address: *mut DevicePtr, bytes: usize, _flags: c_uint) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { cuMemAlloc_v2(address, bytes) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: DevicePtr) -> Status {
    free(address)
}

/// # Safety
/// `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: DevicePtr, stream: Handle) -> Status {
    // SAFETY: the caller vouches for the stream.
    if is_capturing(unsafe { Stream::of(stream) }) {
        eprintln!("qcs-emulator: cuMemFreeAsync in a captured stream is not supported");
        return NOT_SUPPORTED;
    }
    free(address)
}

/// Pinned host memory: kernels may use it too.
///
/// # Safety
/// `pointer` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(pointer: *mut Handle, bytes: usize, _flags: c_uint) -> Status {
    let state = match ready() {
        Ok(state) => state,
        Err(status) => return status,
    };
    match state.memory().allocate_host(bytes) {
        // SAFETY: the caller vouches for the pointer.
        Some(address) => unsafe { put(pointer, address as Handle) },
        None => OUT_OF_MEMORY,
    }
}

/// # Safety
/// `pointer` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(pointer: *mut Handle, bytes: usize) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { cuMemHostAlloc(pointer, bytes, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(pointer: Handle) -> Status {
    if driver().gpus[0].device.memory().free_host(pointer as u64) {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}

/// # Safety
/// `address` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    address: *mut DevicePtr,
    pointer: Handle,
    _flags: c_uint,
) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(address, pointer as DevicePtr) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(pointer: Handle, bytes: usize, _flags: c_uint) -> Status {
    ready().map_or_else(
        |status| status,
        |state| {
            state.memory().register(pointer as u64, bytes);
            SUCCESS
        },
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(pointer: Handle) -> Status {
    if driver().gpus[0].device.memory().unregister(pointer as u64) {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}

/// # Safety
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status {
    let state = match ready() {
        Ok(state) => state,
        Err(status) => return status,
    };
    let all = state.config.memory;
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(free, all.saturating_sub(state.memory().in_use())).max(put(total, all)) }
}

const POOL: usize = 0x2000;

/// # Safety
/// `pool` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut Handle, _device: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(pool, std::ptr::without_provenance_mut(POOL)) }
}

/// # Safety
/// `pool` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { cuDeviceGetDefaultMemPool(pool, device) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceSetMemPool(_device: c_int, _pool: Handle) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolSetAttribute(_pool: Handle, _attribute: c_int, _value: Handle) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(_pool: Handle, _bytes: usize) -> Status {
    SUCCESS
}

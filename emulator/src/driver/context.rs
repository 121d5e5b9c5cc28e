//! Contexts: each device has one, its primary context, and a thread has a stack of them whose top is current.

use super::counters::Counters;
use super::state::{context_status, contexts, current, driver, ready, ready_outside_capture};
use super::status::*;
use super::{Handle, put};
use std::ffi::{c_int, c_uint};

/// Contexts have no contents: a handle is a number that tells the device.
const FIRST: usize = 0x1000;
const SPACING: usize = 0x100;

fn handle(ordinal: usize) -> Handle {
    std::ptr::without_provenance_mut(FIRST + ordinal * SPACING)
}

/// The device of a context.
fn ordinal(context: Handle) -> Result<usize, Status> {
    let devices = driver().gpus.len();
    let found = (0..devices).find(|&ordinal| handle(ordinal) == context);
    found.ok_or(INVALID_CONTEXT)
}

/// The context of a device.
pub(super) fn of_device(device: c_int) -> Result<usize, Status> {
    let state = driver();
    if !state.initialised {
        return Err(NOT_INITIALIZED);
    }
    let known = usize::try_from(device)
        .ok()
        .filter(|&ordinal| ordinal < state.gpus.len());
    known.ok_or(INVALID_DEVICE)
}

/// # Safety
/// `context` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Status {
    match of_device(device) {
        // SAFETY: the caller vouches for the pointer.
        Ok(ordinal) => unsafe { put(context, handle(ordinal)) },
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status {
    driver().write_stats();
    of_device(device).err().unwrap_or(SUCCESS)
}

/// # Safety
/// `context` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, device: c_int) -> Status {
    let ordinal = match of_device(device) {
        Ok(ordinal) => ordinal,
        Err(status) => return status,
    };
    contexts(|stack| stack.push(ordinal));
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(context, handle(ordinal)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(context: Handle) -> Status {
    driver().write_stats();
    match ordinal(context) {
        Ok(ordinal) => {
            contexts(|stack| stack.pop_if(|top| *top == ordinal));
            SUCCESS
        }
        Err(status) => status,
    }
}

/// Replaces the top of the stack; null takes it off.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Status {
    let new = match (context.is_null(), ordinal(context)) {
        (true, _) => None,
        (false, Ok(ordinal)) => Some(ordinal),
        (false, Err(status)) => return status,
    };
    contexts(|stack| {
        stack.pop();
        stack.extend(new);
    });
    SUCCESS
}

/// # Safety
/// `target` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(target: *mut Handle) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(target, current().map_or(std::ptr::null_mut(), handle)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Status {
    match ordinal(context) {
        Ok(ordinal) => {
            contexts(|stack| stack.push(ordinal));
            SUCCESS
        }
        Err(status) => status,
    }
}

/// # Safety
/// `target` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(target: *mut Handle) -> Status {
    let Some(ordinal) = contexts(Vec::pop) else {
        return INVALID_CONTEXT;
    };
    if !target.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { target.write(handle(ordinal)) };
    }
    SUCCESS
}

/// # Safety
/// `device` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    current().map_or(INVALID_CONTEXT, |ordinal| unsafe { put(device, ordinal as c_int) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Status {
    match ready_outside_capture("cuCtxSynchronize") {
        Ok(mut state) => {
            state.counters.synchronisations += 1;
            SUCCESS
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetFlags(_flags: c_uint) -> Status {
    context_status()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetLimit(_limit: c_int, _value: usize) -> Status {
    context_status()
}

/// # Safety
/// `value` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetLimit(value: *mut usize, _limit: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(value, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCacheConfig(_config: c_int) -> Status {
    context_status()
}

/// # Safety
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status {
    for target in [least, greatest] {
        if !target.is_null() {
            // SAFETY: not null, and the caller vouches for the rest.
            unsafe { target.write(0) };
        }
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuProfilerStart() -> Status {
    count_in_context(|counters| counters.profiler_starts += 1)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuProfilerStop() -> Status {
    count_in_context(|counters| counters.profiler_stops += 1)
}

fn count_in_context(count: impl FnOnce(&mut Counters)) -> Status {
    ready().map_or_else(
        |status| status,
        |mut state| {
            count(&mut state.counters);
            SUCCESS
        },
    )
}

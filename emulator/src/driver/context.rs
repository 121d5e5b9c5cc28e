//! Contexts. There is one; it is current or not to each thread.

use super::counters::Counters;
use super::state::{context_status, driver, is_current, ready, ready_outside_capture, set_current};
use super::status::*;
use super::{Handle, put};
use std::ffi::{c_int, c_uint};

/// Contexts have no contents: any non-null value will do.
const CONTEXT: usize = 0x1000;

fn context() -> Handle {
    std::ptr::without_provenance_mut(CONTEXT)
}

/// # Safety
/// `context` is null or valid for a write.
unsafe fn create(target: *mut Handle, make_current: bool) -> Status {
    if !driver().initialised {
        return NOT_INITIALIZED;
    }
    if make_current {
        set_current(true);
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(target, context()) }
}

/// # Safety
/// `context` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Status {
    if device != 0 {
        return INVALID_DEVICE;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { create(context, false) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Status {
    driver().write_stats();
    SUCCESS
}

/// # Safety
/// `context` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, _device: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { create(context, true) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(_context: Handle) -> Status {
    driver().write_stats();
    set_current(false);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Status {
    set_current(!context.is_null());
    SUCCESS
}

/// # Safety
/// `target` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(target: *mut Handle) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(target, if is_current() { context() } else { std::ptr::null_mut() }) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Status {
    cuCtxSetCurrent(context)
}

/// # Safety
/// `target` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(target: *mut Handle) -> Status {
    if !is_current() {
        return INVALID_CONTEXT;
    }
    set_current(false);
    if !target.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { target.write(context()) };
    }
    SUCCESS
}

/// # Safety
/// `device` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Status {
    if !is_current() {
        return INVALID_CONTEXT;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(device, 0) }
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
    context_status(&driver())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetLimit(_limit: c_int, _value: usize) -> Status {
    context_status(&driver())
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
    context_status(&driver())
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

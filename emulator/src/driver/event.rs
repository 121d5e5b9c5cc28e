//! Events with the host's clock.

use super::state::{current, ready};
use super::status::*;
use super::stream::{Capture, Stream, is_capturing};
use super::{Handle, destroy, object, put};
use std::ffi::c_uint;
use std::sync::{Arc, Mutex};
use std::time::Instant;

struct Event {
    /// The device of its context
    owner: usize,
    timing: bool,
    recorded: Mutex<Option<Instant>>,
    /// The capture in which it was recorded last, and the stream
    captured: Mutex<Option<(Arc<Capture>, usize)>>,
}

/// The capture of which an event is a point, and the stream.
///
/// # Safety
/// `event` is null or live.
pub unsafe fn captured(event: Handle) -> Option<(Arc<Capture>, usize)> {
    // SAFETY: the caller vouches for the handle.
    let event = unsafe { object::<Event>(event) }?;
    event.captured.lock().unwrap_or_else(|e| e.into_inner()).clone()
}

const DISABLE_TIMING: c_uint = 2;

/// # Safety
/// `event` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Status {
    let owner = match ready() {
        Ok(state) => state.ordinal,
        Err(status) => return status,
    };
    let new = Event {
        owner,
        timing: flags & DISABLE_TIMING == 0,
        recorded: Mutex::new(None),
        captured: Mutex::new(None),
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(event, Box::into_raw(Box::new(new)).cast()) }
}

/// # Safety
/// `event` and `stream` are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Status {
    // SAFETY: the caller vouches for the handles.
    let (Some(event), stream) = (unsafe { object::<Event>(event) }, unsafe { Stream::of(stream) }) else {
        return INVALID_HANDLE;
    };
    if current().is_some_and(|ordinal| stream.owner.unwrap_or(ordinal) != event.owner) {
        eprintln!(
            "qcs-emulator: an event of device {} in a stream of another device",
            event.owner
        );
        return INVALID_HANDLE;
    }
    *event.captured.lock().unwrap_or_else(|e| e.into_inner()) = stream.capture();
    if !is_capturing(stream) {
        *event.recorded.lock().unwrap_or_else(|e| e.into_inner()) = Some(Instant::now());
    }
    ready().map_or_else(|status| status, |_| SUCCESS)
}

/// # Safety
/// `event` and `stream` are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) -> Status {
    // SAFETY: the caller vouches for the handles.
    unsafe { cuEventRecord(event, stream) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(_event: Handle) -> Status {
    match ready() {
        Ok(mut state) => {
            state.counters.synchronisations += 1;
            SUCCESS
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(_event: Handle) -> Status {
    ready().map_or_else(|status| status, |_| SUCCESS)
}

/// # Safety
/// `event` came from `cuEventCreate` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { destroy::<Event>(event) }
}

/// # Safety
/// `milliseconds` is null or valid for a write; both events are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> Status {
    // SAFETY: the caller vouches for the handles.
    let (Some(start), Some(end)) = (unsafe { object::<Event>(start) }, unsafe { object::<Event>(end) }) else {
        return INVALID_HANDLE;
    };
    if start.owner != end.owner {
        eprintln!("qcs-emulator: the time between events of two devices");
        return INVALID_HANDLE;
    }
    let time = |event: &Event| *event.recorded.lock().unwrap_or_else(|e| e.into_inner());
    let (Some(from), Some(to), true) = (time(start), time(end), start.timing && end.timing) else {
        return INVALID_HANDLE;
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(milliseconds, to.saturating_duration_since(from).as_secs_f32() * 1e3) }
}

/// # Safety
/// As `cuEventElapsedTime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) -> Status {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuEventElapsedTime(milliseconds, start, end) }
}

//! Stream capture and graphs: recorded commands, run again in order.

use super::copy::check;
use super::state::{current, driver, ready, usable};
use super::status::*;
use super::stream::{Command, Stream, is_capturing};
use super::{Handle, destroy, object, put};
use std::ffi::{c_int, c_ulonglong};
use std::sync::Arc;

struct Graph {
    /// The device of the context it was captured in
    owner: usize,
    commands: Vec<Command>,
}

/// # Safety
/// `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) -> Status {
    if stream.is_null() {
        eprintln!("qcs-emulator: the default stream cannot be captured");
        return CAPTURE_UNSUPPORTED;
    }
    // SAFETY: the caller vouches for the stream.
    let stream = unsafe { Stream::of(stream) };
    let mut state = match ready() {
        Ok(state) => state,
        Err(status) => return status,
    };
    let status = stream.usable("a capture in a stream");
    if status != SUCCESS {
        return status;
    }
    let mut recording = stream.lock();
    if recording.is_some() {
        return ILLEGAL_STATE;
    }
    *recording = Some(Arc::default());
    state.captures += 1;
    SUCCESS
}

/// # Safety
/// `stream` is a live stream; `graph` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Status {
    // SAFETY: the caller vouches for the stream.
    let stream = unsafe { Stream::of(stream) };
    let Some(capture) = stream.lock().take() else {
        return ILLEGAL_STATE;
    };
    driver().captures -= 1;
    let Some(commands) = capture.end() else {
        eprintln!("qcs-emulator: a capture ends although work of another stream was not waited for");
        return CAPTURE_UNJOINED;
    };
    let Some(owner) = stream.owner.or_else(current) else {
        return INVALID_CONTEXT;
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(graph, Box::into_raw(Box::new(Graph { owner, commands })).cast()) }
}

/// # Safety
/// `stream` is a live stream; `status` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) -> Status {
    // SAFETY: the caller vouches for both.
    unsafe { put(status, is_capturing(Stream::of(stream)) as c_int) }
}

/// # Safety
/// `instance` is null or valid for a write; `graph` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    instance: *mut Handle,
    graph: Handle,
    _flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller vouches for the handle.
    let Some(graph) = (unsafe { object::<Graph>(graph) }) else {
        return INVALID_HANDLE;
    };
    driver().counters.graph_instantiations += 1;
    let copy = Graph {
        owner: graph.owner,
        commands: graph.commands.clone(),
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(instance, Box::into_raw(Box::new(copy)).cast()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphUpload(_instance: Handle, _stream: Handle) -> Status {
    ready().map_or_else(|status| status, |_| SUCCESS)
}

/// # Safety
/// `instance` and `stream` are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(instance: Handle, stream: Handle) -> Status {
    // SAFETY: the caller vouches for the handle.
    let Some(graph) = (unsafe { object::<Graph>(instance) }) else {
        return INVALID_HANDLE;
    };
    // SAFETY: the caller vouches for the stream.
    let stream = unsafe { Stream::of(stream) };
    match [usable("a graph", graph.owner), stream.usable("a graph in a stream")] {
        [SUCCESS, SUCCESS] => {}
        // The one error for arguments that `cuGraphLaunch` documents.
        [INVALID_HANDLE, _] | [_, INVALID_HANDLE] => return INVALID_VALUE,
        [status, _] => return status,
    }
    match ready() {
        Ok(mut state) => {
            state.counters.graph_launches += 1;
            state.gpu().graph_launches += 1;
        }
        Err(status) => return status,
    }
    for command in &graph.commands {
        // Memory may have been freed since the capture.
        let valid = check(command);
        if valid != SUCCESS {
            return valid;
        }
        match stream.submit(command.clone()) {
            SUCCESS => {}
            status => return status,
        }
    }
    SUCCESS
}

/// # Safety
/// `graph` came from the end of a capture and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { destroy::<Graph>(graph) }
}

/// # Safety
/// `instance` came from an instantiation and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(instance: Handle) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { destroy::<Graph>(instance) }
}

/// Only the number of nodes is available.
///
/// # Safety
/// `graph` is live; `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(graph: Handle, nodes: Handle, count: *mut usize) -> Status {
    if !nodes.is_null() {
        return NOT_SUPPORTED;
    }
    // SAFETY: the caller vouches for both.
    unsafe { object::<Graph>(graph).map_or(INVALID_HANDLE, |graph| put(count, graph.commands.len())) }
}

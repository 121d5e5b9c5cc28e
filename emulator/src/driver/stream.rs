//! Streams: commands run at once, or are recorded while the stream is being captured.

use super::event::captured;
use super::launch::KernelLaunch;
use super::state::{State, current, driver, ready, usable};
use super::status::*;
use super::{DevicePtr, Handle, destroy, put};
use crate::libraries::Gemm;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

type HostFunction = unsafe extern "C" fn(*mut c_void);

/// Work for the device.
#[derive(Clone, Debug)]
pub enum Command {
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
        direction: Direction,
    },
    Fill {
        to: u64,
        value: u32,
        width: usize,
        count: usize,
    },
    Kernel(KernelLaunch),
    Gemm(Box<Gemm>),
    Host {
        function: HostFunction,
        argument: usize,
    },
}

impl Command {
    /// The device memory a copy, fill or product touches.
    pub fn device_ranges(&self) -> Vec<(DevicePtr, usize)> {
        match *self {
            Command::Gemm(ref gemm) => gemm.ranges(),
            Command::Copy {
                to,
                bytes,
                direction: Direction::HostToDevice,
                ..
            } => vec![(to, bytes)],
            Command::Copy {
                from,
                bytes,
                direction: Direction::DeviceToHost,
                ..
            } => vec![(from, bytes)],
            Command::Copy { to, from, bytes, .. } => vec![(to, bytes), (from, bytes)],
            Command::Fill { to, width, count, .. } => vec![(to, width * count)],
            _ => vec![],
        }
    }

    /// Executes the command. Faults of kernels stick to the context and are not returned.
    pub fn run(&self) -> Status {
        match self {
            Command::Copy {
                to,
                from,
                bytes,
                direction,
            } => copy(*to, *from, *bytes, *direction),
            Command::Fill {
                to,
                value,
                width,
                count,
            } => fill(*to, *value, *width, *count),
            Command::Kernel(launch) => return launch.run(),
            Command::Gemm(gemm) => gemm.run(),
            Command::Host { function, argument } => {
                // SAFETY: the program passed the function together with its argument.
                unsafe { function(std::ptr::with_exposed_provenance_mut(*argument)) };
            }
        }
        SUCCESS
    }
}

/// Unified addressing lets a copy reach any device's memory, but not as fast.
fn count_foreign(state: &mut State, addresses: &[u64], bytes: usize) {
    let here = current();
    let foreign = |&address: &u64| state.owner(address).is_some_and(|owner| Some(owner) != here);
    if addresses.iter().any(foreign) {
        state.counters.foreign.add(bytes);
    }
}

fn copy(to: u64, from: u64, bytes: usize, direction: Direction) {
    let mut state = driver();
    count_foreign(&mut state, &[to, from], bytes);
    let counters = &mut state.counters;
    match direction {
        Direction::HostToDevice => counters.host_to_device.add(bytes),
        Direction::DeviceToHost => counters.device_to_host.add(bytes),
        Direction::DeviceToDevice => counters.device_to_device.add(bytes),
    }
    // SAFETY: the device end was checked, and the program vouches for the host end.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

fn fill(to: u64, value: u32, width: usize, count: usize) {
    let mut state = driver();
    count_foreign(&mut state, &[to], width * count);
    state.counters.memsets.add(width * count);
    drop(state);
    let pattern = value.to_le_bytes();
    // SAFETY: the range was checked when the command was submitted.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, width * count) };
    bytes
        .chunks_exact_mut(width)
        .for_each(|element| element.copy_from_slice(&pattern[..width]));
}

/// What one or several streams record for a graph: in the order of submission, which respects every dependency.
#[derive(Default)]
pub struct Capture {
    commands: Mutex<Vec<Command>>,
    /// Streams that wait for an event of the capture take part in it: their addresses, and whether the first stream has waited
    /// for all of their work.
    forks: Mutex<BTreeMap<usize, bool>>,
}

impl Capture {
    /// Ends the part of all forks. The commands, if every fork has been joined.
    pub fn end(&self) -> Option<Vec<Command>> {
        let forks = std::mem::take(&mut *locked(&self.forks));
        for &fork in forks.keys() {
            // SAFETY: a stream lives at least as long as a capture that it takes part in.
            *unsafe { Stream::of(std::ptr::with_exposed_provenance_mut(fork)) }.lock() = None;
        }
        let joined = forks.values().all(|joined| *joined);
        joined.then(|| std::mem::take(&mut *locked(&self.commands)))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held left a value that is still usable.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

pub struct Stream {
    /// The device of its context; a predefined stream is of the current one
    pub owner: Option<usize>,
    pub recording: Mutex<Option<Arc<Capture>>>,
}

/// The null stream and the two predefined ones share an object.
static DEFAULT: Stream = Stream {
    owner: None,
    recording: Mutex::new(None),
};

impl Stream {
    /// # Safety
    /// `handle` is a predefined stream (0, 1, 2) or a live one.
    pub unsafe fn of(handle: Handle) -> &'static Stream {
        if handle.addr() <= 2 {
            return &DEFAULT;
        }
        // SAFETY: the caller vouches for it.
        unsafe { &*handle.cast::<Stream>() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Option<Arc<Capture>>> {
        locked(&self.recording)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The capture that the stream takes part in, and which stream that is: what an event recorded there stands for.
    pub fn capture(&self) -> Option<(Arc<Capture>, usize)> {
        self.lock()
            .as_ref()
            .map(|capture| (Arc::clone(capture), self.address()))
    }

    /// Waits for an event of a capture: the stream joins the capture, or is joined by the one that recorded the event.
    fn wait_captured(&self, event: &(Arc<Capture>, usize)) -> Status {
        let (capture, from) = event;
        let mut recording = self.lock();
        match recording.as_ref() {
            None => {
                *recording = Some(Arc::clone(capture));
                locked(&capture.forks).insert(self.address(), false);
                driver().counters.forks += 1;
            }
            Some(own) if Arc::ptr_eq(own, capture) => {
                if let Some(joined) = locked(&capture.forks).get_mut(from) {
                    *joined = true;
                }
            }
            Some(_) => {
                eprintln!("qcs-emulator: a captured stream waits for an event of another capture");
                return CAPTURE_ISOLATION;
            }
        }
        SUCCESS
    }

    /// Whether kernels and graphs may go there now: see `usable`.
    pub fn usable(&self, what: &str) -> Status {
        self.owner.map_or(SUCCESS, |owner| usable(what, owner))
    }

    pub fn submit(&self, command: Command) -> Status {
        if let Some((capture, address)) = self.capture() {
            locked(&capture.commands).push(command);
            if let Some(joined) = locked(&capture.forks).get_mut(&address) {
                *joined = false;
            }
            return SUCCESS;
        }
        command.run()
    }
}

pub fn is_capturing(stream: &Stream) -> bool {
    stream.lock().is_some()
}

/// # Safety
/// `stream` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) -> Status {
    let new = match ready() {
        Ok(state) => Stream {
            owner: Some(state.ordinal),
            recording: Mutex::new(None),
        },
        Err(status) => return status,
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(stream, Box::into_raw(Box::new(new)).cast()) }
}

/// # Safety
/// `stream` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, _priority: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { cuStreamCreate(stream, flags) }
}

/// # Safety
/// `stream` came from `cuStreamCreate` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Status {
    if stream.addr() <= 2 {
        return INVALID_HANDLE;
    }
    // SAFETY: the caller vouches for it.
    unsafe { destroy::<Stream>(stream) }
}

/// # Safety
/// `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Status {
    let mut state = match ready() {
        Ok(state) => state,
        Err(status) => return status,
    };
    state.counters.synchronisations += 1;
    // SAFETY: the caller vouches for the stream.
    if is_capturing(unsafe { Stream::of(stream) }) {
        eprintln!("qcs-emulator: cuStreamSynchronize of a stream that is being captured");
        return CAPTURE_UNSUPPORTED;
    }
    SUCCESS
}

/// # Safety
/// `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Status {
    // SAFETY: the caller vouches for the stream.
    let capturing = is_capturing(unsafe { Stream::of(stream) });
    ready().map_or_else(
        |status| status,
        |_| if capturing { CAPTURE_UNSUPPORTED } else { SUCCESS },
    )
}

/// # Safety
/// `stream` and `event` are live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) -> Status {
    if let Err(status) = ready().map(|_| ()) {
        return status;
    }
    // SAFETY: the caller vouches for the handles.
    let (stream, captured) = unsafe { (Stream::of(stream), captured(event)) };
    match captured {
        Some(captured) => stream.wait_captured(&captured),
        None if is_capturing(stream) => {
            eprintln!("qcs-emulator: a captured stream waits for an event that is not of the capture");
            CAPTURE_ISOLATION
        }
        // Commands run in the order of their submission, so the event has happened already.
        None => SUCCESS,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamAttachMemAsync(_stream: Handle, _at: DevicePtr, _bytes: usize, _flags: c_uint) -> Status {
    SUCCESS
}

/// # Safety
/// `stream` is a live stream; the function may be called with the argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(stream: Handle, function: HostFunction, argument: *mut c_void) -> Status {
    let argument = argument.expose_provenance();
    // SAFETY: the caller vouches for the stream.
    unsafe { Stream::of(stream) }.submit(Command::Host { function, argument })
}

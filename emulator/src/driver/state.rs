//! The one driver of the process, and its devices.

use super::config::Config;
use super::counters::{Counters, KernelTotals};
use super::status::*;
use crate::device::Device;
use crate::device::memory::GlobalMemory;
use std::cell::RefCell;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

pub struct State {
    pub config: Config,
    /// By ordinal
    pub gpus: Vec<Gpu>,
    /// Of all devices
    pub counters: Counters,
    pub kernels: KernelTotals,
    /// Gets a line per launch.
    pub launches: Option<File>,
    pub initialised: bool,
    pub captures: u32,
    /// Allocations since start, for fault injection.
    pub allocation_number: u64,
    /// Products of cuBLAS since start, for fault injection.
    pub gemms: u64,
    /// Launches per kernel since start, for fault injection.
    pub launch_numbers: std::collections::HashMap<String, u64>,
}

/// A device with its context, the only one it has.
pub struct Gpu {
    pub device: Device,
    /// The error of a kernel that faulted. A context does not recover from it.
    pub sticky: Status,
    pub kernel_launches: u64,
    pub graph_launches: u64,
}

impl State {
    /// Whether all of the bytes belong to one allocation, on whichever device, or to host memory that devices reach.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        self.gpus.iter().any(|gpu| gpu.device.memory().contains(address, bytes))
    }

    /// The device whose memory an address is in, if any.
    pub fn owner(&self, address: u64) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.device.memory().is_device(address))
    }
}

unsafe extern "C" {
    fn atexit(callback: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn write_stats_at_exit() {
    driver().write_stats();
}

fn create(path: &PathBuf) -> Option<File> {
    let file = File::create(path);
    if let Err(error) = &file {
        eprintln!("qcs-emulator: cannot write {}: {error}", path.display());
    }
    file.ok()
}

pub fn driver() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(|| {
        let config = Config::from_env();
        if config.stats.is_some() {
            // SAFETY: the callback takes no arguments and does not unwind.
            unsafe { atexit(write_stats_at_exit) };
        }
        let first = Device::new(config.options.clone());
        let gpu = |ordinal| Gpu {
            device: if ordinal == 0 { first.clone() } else { first.beside() },
            sticky: SUCCESS,
            kernel_launches: 0,
            graph_launches: 0,
        };
        let gpus = (0..config.devices).map(gpu).collect();
        let launches = config.launches.as_ref().and_then(create);
        Mutex::new(State {
            config,
            gpus,
            counters: Counters::default(),
            kernels: KernelTotals::new(),
            launches,
            initialised: false,
            captures: 0,
            allocation_number: 0,
            gemms: 0,
            launch_numbers: Default::default(),
        })
    });
    // A panic in another thread left counters that are still usable.
    state.lock().unwrap_or_else(|e| e.into_inner())
}

thread_local! {
    /// The contexts of this thread, as ordinals of their devices; the last one is current.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Reads or changes the thread's stack of contexts.
pub fn contexts<R>(f: impl FnOnce(&mut Vec<usize>) -> R) -> R {
    CONTEXTS.with_borrow_mut(f)
}

/// The device whose context is current to this thread.
pub fn current() -> Option<usize> {
    contexts(|stack| stack.last().copied())
}

/// The driver, while a healthy context is current to the thread.
pub struct Ready {
    state: MutexGuard<'static, State>,
    pub ordinal: usize,
}

impl Ready {
    /// The current device.
    pub fn gpu(&mut self) -> &mut Gpu {
        &mut self.state.gpus[self.ordinal]
    }

    /// The current device's memory.
    pub fn memory(&self) -> &std::sync::Arc<GlobalMemory> {
        self.state.gpus[self.ordinal].device.memory()
    }
}

impl Deref for Ready {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Ready {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// The driver, if a context is current and healthy.
pub fn ready() -> Result<Ready, Status> {
    let state = driver();
    if !state.initialised {
        return Err(NOT_INITIALIZED);
    }
    let ordinal = current().ok_or(INVALID_CONTEXT)?;
    match state.gpus[ordinal].sticky {
        SUCCESS => Ok(Ready { state, ordinal }),
        status => Err(status),
    }
}

/// Why a call that needs the context cannot go on, if so.
pub fn context_status() -> Status {
    ready().err().unwrap_or(SUCCESS)
}

/// As `ready`, for calls that may not happen while a stream is being captured.
pub fn ready_outside_capture(call: &str) -> Result<Ready, Status> {
    let ready = ready()?;
    if ready.captures > 0 {
        eprintln!("qcs-emulator: {call} while a stream is being captured");
        return Err(CAPTURE_UNSUPPORTED);
    }
    Ok(ready)
}

/// Whether an object made in the context `owner` may be used now: with another context current it may not.
pub fn usable(what: &str, owner: usize) -> Status {
    match current() {
        Some(ordinal) if ordinal == owner => SUCCESS,
        Some(ordinal) => {
            eprintln!("qcs-emulator: {what} of device {owner} while the context of device {ordinal} is current");
            INVALID_HANDLE
        }
        None => INVALID_CONTEXT,
    }
}

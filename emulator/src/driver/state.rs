//! The one driver of the process.

use super::config::Config;
use super::counters::{Counters, KernelTotals};
use super::status::*;
use crate::device::Device;
use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

pub struct State {
    pub config: Config,
    pub device: Device,
    pub counters: Counters,
    pub kernels: KernelTotals,
    /// Gets a line per launch.
    pub launches: Option<File>,
    pub initialised: bool,
    /// The error of a kernel that faulted. A context does not recover from it.
    pub sticky: Status,
    pub captures: u32,
    /// Allocations since start, for fault injection.
    pub allocation_number: u64,
    /// Launches per kernel since start, for fault injection.
    pub launch_numbers: std::collections::HashMap<String, u64>,
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
        let device = Device::new(config.options.clone());
        let launches = config.launches.as_ref().and_then(create);
        Mutex::new(State {
            config,
            device,
            counters: Counters::default(),
            kernels: KernelTotals::new(),
            launches,
            initialised: false,
            sticky: SUCCESS,
            captures: 0,
            allocation_number: 0,
            launch_numbers: Default::default(),
        })
    });
    // A panic in another thread left counters that are still usable.
    state.lock().unwrap_or_else(|e| e.into_inner())
}

thread_local! {
    /// Whether the context is current to this thread.
    static CURRENT: Cell<bool> = const { Cell::new(false) };
}

pub fn set_current(current: bool) {
    CURRENT.set(current);
}

pub fn is_current() -> bool {
    CURRENT.get()
}

/// Why a call that needs the context cannot go on, if so.
pub fn context_status(state: &State) -> Status {
    if !state.initialised {
        return NOT_INITIALIZED;
    }
    if !is_current() { INVALID_CONTEXT } else { state.sticky }
}

/// The driver, if a context is current and healthy.
pub fn ready() -> Result<MutexGuard<'static, State>, Status> {
    let state = driver();
    match context_status(&state) {
        SUCCESS => Ok(state),
        status => Err(status),
    }
}

/// As `ready`, for calls that may not happen while a stream is being captured.
pub fn ready_outside_capture(call: &str) -> Result<MutexGuard<'static, State>, Status> {
    let state = ready()?;
    if state.captures > 0 {
        eprintln!("qcs-emulator: {call} while a stream is being captured");
        return Err(CAPTURE_UNSUPPORTED);
    }
    Ok(state)
}

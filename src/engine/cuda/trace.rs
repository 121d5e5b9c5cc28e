//! What a profiler sees: named ranges on the host's time line, and the part of a run that is recorded.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use cudarc::driver::sys as driver;

use super::library::functions;
use crate::{Error, Result};

/// An open range; it ends when the value is dropped.
#[must_use = "the range ends when this is dropped"]
pub struct Range {
    /// Whether there is a range to end
    open: bool,
    /// A range ends in the thread that began it.
    in_thread: PhantomData<*const ()>,
}

functions! { "nvToolsExt", [1];
    push: fn(*const c_char) = "nvtxRangePushA";
    pop: fn() = "nvtxRangePop";
}

/// Whether ranges reach a profiler, or why not.
///
/// # Errors
/// [`Error::Device`] if NVTX is missing. CUDA 12.8 and older bring `libnvToolsExt.so.1`; of newer ones
/// `libnvtx3interop.so.1` has the same functions and does under that name.
pub fn available() -> Result<()> {
    Functions::get().map(|_| ())
}

/// Opens a range inside of those that this thread has open. Without NVTX nothing happens, and the name is not even
/// written.
pub fn range(name: fmt::Arguments<'_>) -> Range {
    static FOUND: OnceLock<Option<&Functions>> = OnceLock::new();
    let functions = FOUND.get_or_init(|| Functions::get().ok());
    if let Some(functions) = functions {
        let name = CString::new(name.to_string().replace('\0', " ")).unwrap_or_default();
        // SAFETY: text, ended by NUL, which the library copies.
        unsafe { (functions.push)(name.as_ptr()) };
    }
    Range {
        open: functions.is_some(),
        in_thread: PhantomData,
    }
}

thread_local! {
    /// The stage whose range is open. Sessions of several GPUs in one thread share it, because ranges nest.
    static STAGE: RefCell<Option<(u32, Range)>> = const { RefCell::new(None) };
}

/// Opens the range of a stage, unless it is open, and ends that of the stage before. `name` is what a stage is: "level".
pub fn enter_stage(name: &str, stage: u32) {
    STAGE.with_borrow_mut(|open| {
        if open.as_ref().is_none_or(|(current, _)| *current != stage) {
            *open = None;
            *open = Some((stage, range(format_args!("{name} {stage}"))));
        }
    });
}

/// Ends the range of the stage.
pub fn leave_stage() {
    STAGE.set(None);
}

impl Drop for Range {
    fn drop(&mut self) {
        if let (true, Ok(functions)) = (self.open, Functions::get()) {
            // SAFETY: ends the range that this thread opened.
            unsafe { (functions.pop)() };
        }
    }
}

/// The part of a run that `nsys profile --capture-range=cudaProfilerApi` or `ncu --profile-from-start off` records; it
/// ends when the value is dropped.
#[must_use = "recording ends when this is dropped"]
pub struct Recording(());

impl Recording {
    /// Begins to record, in the current context.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver refuses.
    pub fn start() -> Result<Self> {
        // SAFETY: takes and returns nothing.
        unsafe { driver::cuProfilerStart() }
            .result()
            .map_err(|e| Error::Device(format!("the profiler cannot be started: {e}")))?;
        Ok(Self(()))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: takes and returns nothing. Nothing can be done about a failure.
        let _ = unsafe { driver::cuProfilerStop() };
    }
}

//! The CUDA driver: a device, its memory, its kernels and graphs, and errors in words.
//!
//! On cudarc's `result` and `sys` layers, not on its safe one: there every slice is an allocation with events of its own that
//! order streams, where a session here is one allocation on one stream, carved by the plan, whose launches take one struct
//! by value and are captured into a graph. Wrapping that in slices would hide what the tests count.

mod found;
mod graph;
mod memory;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use qcs_kernels::launch::Launch;

use super::module_image::{Image, explained, load};
use crate::error::Remedy;
use crate::{Error, Result};

pub use found::{Properties, count, driver_is_installed, name};
pub use graph::{Event, Graph};
pub use memory::{Memory, Pinned};

/// A usable GPU with our kernels loaded. All work goes through one stream, and inside of a graph through a second one.
pub struct Device {
    ordinal: usize,
    raw: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    side: sys::CUstream,
    /// Where the second stream leaves the first one in a capture, and where it comes back
    forked: sys::CUevent,
    joined: sys::CUevent,
    module: sys::CUmodule,
    functions: RefCell<HashMap<String, sys::CUfunction>>,
    pub properties: Properties,
    /// Where the kernels come from
    pub image: Image,
}

/// Which of a device's streams: inside of a graph the side lane is a branch beside the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Main,
    Side,
}

/// What a kernel takes of a multiprocessor, as the driver sees it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct KernelResources {
    pub name: String,
    /// Of a thread
    pub registers: i32,
    /// Bytes of a thread: registers that did not fit
    pub local: i32,
    /// Bytes of a block
    pub shared: i32,
    /// Threads that a block may have
    pub most_threads: i32,
}

impl Device {
    /// Opens GPU number `ordinal` and loads the kernels for it.
    ///
    /// # Errors
    /// [`Error::Device`] with the reason, in one line.
    pub fn open(ordinal: usize) -> Result<Self> {
        let count = count()?;
        if ordinal >= count {
            let plural = if count == 1 { "" } else { "s" };
            return Err(Error::Device(format!(
                "cuda:{ordinal}: there is only {count} GPU{plural}, counted from 0"
            )));
        }
        let failed = |what: &'static str| move |e| Error::Device(format!("cuda:{ordinal}: cannot {what}: {}", name(e)));
        let raw = result::device::get(ordinal as i32).map_err(failed("be opened"))?;
        let properties = Properties::of(raw).map_err(failed("be asked what it is"))?;
        if properties.capability < 70 {
            return Err(Error::Device(format!(
                "cuda:{ordinal}, {}: compute capability {}.{} is too old, the kernels need 7.0 (V100)",
                properties.name,
                properties.capability / 10,
                properties.capability % 10
            ))
            .or(Remedy::Cpu));
        }
        let ptx = Image::ptx(properties.capability);
        // SAFETY: a device of this process; the context is released when the value is dropped.
        let context = unsafe { result::primary_ctx::retain(raw) }.map_err(failed("make a context"))?;
        let mut device = Self {
            ordinal,
            raw,
            context,
            stream: std::ptr::null_mut(),
            side: std::ptr::null_mut(),
            forked: std::ptr::null_mut(),
            joined: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
            functions: RefCell::default(),
            properties,
            image: ptx,
        };
        device.current()?;
        let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        device.stream = stream().map_err(|e| device.failed("make a stream", e))?;
        device.side = stream().map_err(|e| device.failed("make a stream", e))?;
        device.forked = event().map_err(|e| device.failed("make an event", e))?;
        device.joined = event().map_err(|e| device.failed("make an event", e))?;
        (device.module, device.image) =
            load(ptx, device.properties.capability).map_err(|refusals| Error::Device(explained(&refusals, &device)))?;
        Ok(device)
    }

    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// The stream of a lane.
    pub fn lane(&self, lane: Lane) -> sys::CUstream {
        match lane {
            Lane::Main => self.stream,
            Lane::Side => self.side,
        }
    }

    /// Lets the side lane begin after what was put on the main one.
    pub fn fork(&self) -> Result<()> {
        self.order(self.forked, self.stream, self.side)
    }

    /// Lets the main lane go on after what was put on the side one.
    pub fn join(&self) -> Result<()> {
        self.order(self.joined, self.side, self.stream)
    }

    fn order(&self, event: sys::CUevent, first: sys::CUstream, then: sys::CUstream) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and streams are ours.
        unsafe { result::event::record(event, first).and_then(|()| result::stream::wait_event(then, event, flags)) }
            .map_err(|e| self.failed("order its streams", e))
    }

    /// Makes the device the one that this thread's driver calls mean.
    pub fn current(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| self.failed("be made current", e))
    }

    /// "cuda:0: cannot …" and why.
    pub fn failed(&self, what: &str, error: DriverError) -> Error {
        let at = format!("cuda:{}", self.ordinal);
        match error.0 {
            sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | sys::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | sys::CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | sys::CUresult::CUDA_ERROR_LAUNCH_FAILED
            | sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT => {
                Error::Device(format!("{at}: a kernel failed ({})", name(error))).or(Remedy::CheckGpu(self.ordinal))
            }
            _ => Error::Device(format!("{at}: cannot {what}: {}", name(error))),
        }
    }

    /// The kernel of that name.
    pub fn function(&self, kernel: &str) -> Result<sys::CUfunction> {
        if let Some(&function) = self.functions.borrow().get(kernel) {
            return Ok(function);
        }
        self.current()?;
        let text = CString::new(kernel).expect("a kernel's name has no NUL");
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, text) }
            .map_err(|e| self.failed(&format!("find the kernel {kernel}"), e))?;
        self.functions.borrow_mut().insert(kernel.to_owned(), function);
        Ok(function)
    }

    /// All kernels, by name.
    pub fn kernels(&self) -> Result<Vec<KernelResources>> {
        use sys::CUfunction_attribute_enum as Attribute;
        let names = Image::kernels(self.properties.capability);
        let resources = |kernel: &str| {
            let function = self.function(kernel)?;
            // SAFETY: a function of the module.
            let attribute = |which| {
                unsafe { result::function::get_function_attribute(function, which) }
                    .map_err(|e| self.failed("be asked for its kernels", e))
            };
            Ok(KernelResources {
                name: kernel.to_owned(),
                registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
                local: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
                shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
                most_threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            })
        };
        names.into_iter().map(resources).collect()
    }

    /// Starts a kernel with its one argument.
    ///
    /// # Safety
    /// The argument is the kernel's struct, its addresses are those of live arrays, and the grid covers no more.
    pub unsafe fn launch(&self, function: sys::CUfunction, launch: Launch, argument: &[u8], lane: Lane) -> Result<()> {
        let [x, y] = launch.grid;
        let mut parameters = [argument.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller's promise; the driver copies the argument.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, 1),
                (launch.threads, 1, 1),
                0,
                self.lane(lane),
                &mut parameters,
            )
        }
        .map_err(|e| self.failed("start a kernel", e))
    }

    /// Waits for everything on the main lane.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(Lane::Main)
    }

    /// Waits for everything on a lane.
    pub fn wait_for(&self, lane: Lane) -> Result<()> {
        self.current()?;
        // SAFETY: the stream is ours.
        unsafe { result::stream::synchronize(self.lane(lane)) }.map_err(|e| self.failed("finish its work", e))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: everything made from the device holds an Rc of it, so this is the last use. A device that has failed
        // cannot be tidied up: its errors have been reported before.
        unsafe {
            let _ = result::ctx::set_current(self.context);
            if !self.module.is_null() {
                let _ = result::module::unload(self.module);
            }
            for event in [self.forked, self.joined].into_iter().filter(|event| !event.is_null()) {
                let _ = result::event::destroy(event);
            }
            for stream in [self.side, self.stream].into_iter().filter(|stream| !stream.is_null()) {
                let _ = result::stream::destroy(stream);
            }
            let _ = result::primary_ctx::release(self.raw);
        }
    }
}

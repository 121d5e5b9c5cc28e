//! The CUDA driver: a device, its memory, its kernels and graphs, and errors in words.
//!
//! On cudarc's `result` and `sys` layers, not on its safe one: there every slice is an allocation with events of its own that
//! order streams, where a session here is one allocation on one stream, carved by the plan, whose launches take one struct
//! by value and are captured into a graph. Wrapping that in slices would hide what the tests count.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::rc::Rc;
use std::sync::OnceLock;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use qcs_kernels::launch::Launch;

use super::library::Library;
use super::module_image::{Image, explained, load};
use crate::error::Remedy;
use crate::{Error, Result};

/// The oldest driver that has every function the engine calls: CUDA 11.4.
const OLDEST_DRIVER: i32 = 11_040;

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

/// What a device is.
#[derive(Clone, Debug)]
pub struct Properties {
    pub name: String,
    /// Compute capability times ten: 70 is a V100, 80 an A100.
    pub capability: u32,
    pub multiprocessors: u32,
    /// In kHz
    pub clock: u32,
    pub total_bytes: usize,
    /// The CUDA version that the driver is for: 12080 is 12.8
    pub driver: i32,
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

/// Whether the machine has a CUDA driver at all.
pub fn driver_is_installed() -> bool {
    // Held from the first question on: cudarc closes what it has found and opens it again, and a driver should not be
    // started twice.
    static HELD: OnceLock<Option<Library>> = OnceLock::new();
    let held = HELD.get_or_init(|| Library::open("cuda", &[1]).ok());
    // SAFETY: looks for the library and closes it again.
    held.is_some() && unsafe { sys::is_culib_present() }
}

/// How many GPUs there are.
///
/// # Errors
/// [`Error::Device`] if there is no usable driver, with the reason and what to do.
pub fn count() -> Result<usize> {
    if !driver_is_installed() {
        let reason = "no NVIDIA driver: libcuda.so.1 was not found; install the driver";
        return Err(Error::Device(reason.into()).or(Remedy::Cpu));
    }
    result::init().map_err(|e| match e.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => no_device(),
        _ => Error::Device(format!(
            "the NVIDIA driver does not start ({}); nvidia-smi may say more",
            name(e)
        ))
        .or(Remedy::Cpu),
    })?;
    let version = driver_version()
        .map_err(|e| Error::Device(format!("the NVIDIA driver does not say its version ({})", name(e))))?;
    if version < OLDEST_DRIVER {
        let dotted = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
        return Err(Error::Device(format!(
            "the NVIDIA driver is too old: it is for CUDA {}, qcs needs {}; update it",
            dotted(version),
            dotted(OLDEST_DRIVER)
        ))
        .or(Remedy::Cpu));
    }
    match result::device::get_count() {
        Ok(n) if n > 0 => Ok(n as usize),
        Ok(_) => Err(no_device()),
        Err(e) => Err(Error::Device(format!("the NVIDIA driver fails ({})", name(e)))),
    }
}

fn driver_version() -> Result<i32, DriverError> {
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

fn no_device() -> Error {
    Error::Device("no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES may hide it)".into()).or(Remedy::Cpu)
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

    /// Free and total memory, in bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.current()?;
        result::mem_get_info().map_err(|e| self.failed("be asked for its memory", e))
    }

    /// Allocates device memory, or says what is there.
    pub fn allocate(self: &Rc<Self>, bytes: usize) -> Result<Memory> {
        let (free, total) = self.memory()?;
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        let full = || {
            Error::Device(format!(
                "cuda:{}: a batch needs {:.2} GiB ({bytes} bytes), but {:.2} of {:.2} GiB are free",
                self.ordinal,
                gib(bytes),
                gib(free),
                gib(total)
            ))
            .or(Remedy::SmallerBatch)
        };
        if bytes > free {
            return Err(full());
        }
        // SAFETY: the memory is written before it is read: see the session.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(Memory {
                device: Rc::clone(self),
                address,
                bytes,
            }),
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(full()),
            Err(e) => Err(self.failed("allocate memory", e)),
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

    /// Records everything that `work` puts on the stream, to be launched as one.
    pub fn capture(self: &Rc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.current()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is ours; capture is ended whatever happens.
        let (done, graph) = unsafe {
            result::stream::begin_capture(self.stream, mode).map_err(|e| self.failed("capture a step", e))?;
            (work(), result::stream::end_capture(self.stream))
        };
        done?;
        let graph = graph.map_err(|e| self.failed("capture a step", e))?;
        // SAFETY: a graph just captured.
        let executable = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        let executable = executable.map_err(|e| self.failed("instantiate a step", e));
        // SAFETY: the executable does not need the graph it was made from.
        unsafe { result::graph::destroy(graph) }.map_err(|e| self.failed("destroy a graph", e))?;
        Ok(Graph {
            device: Rc::clone(self),
            executable: executable?,
        })
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

    /// A point in the stream. One that is `timed` knows when it was reached.
    pub fn event(self: &Rc<Self>, timed: bool) -> Result<Event> {
        self.current()?;
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        let event = result::event::create(flags).map_err(|e| self.failed("make an event", e))?;
        Ok(Event {
            device: Rc::clone(self),
            event,
        })
    }

    /// Host memory that the device writes to while the host goes on.
    pub fn pinned(self: &Rc<Self>, len: usize) -> Result<Pinned> {
        self.current()?;
        // SAFETY: zeroed below before anything reads it.
        let start = unsafe { result::malloc_host(4 * len.max(1), 0) }.map_err(|e| self.failed("pin host memory", e))?;
        // SAFETY: just allocated, so large.
        unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, 4 * len.max(1)) };
        Ok(Pinned {
            device: Rc::clone(self),
            start: start.cast(),
            len,
        })
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

impl Properties {
    fn of(device: sys::CUdevice) -> Result<Self, DriverError> {
        use sys::CUdevice_attribute_enum as Attribute;
        // SAFETY: the device is there.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Self {
            name: result::device::get_name(device)?,
            capability: (10 * major + minor) as u32,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as u32,
            // SAFETY: the device is there.
            total_bytes: unsafe { result::device::total_mem(device)? },
            driver: driver_version()?,
        })
    }
}

/// The name of a driver error.
pub fn name(error: DriverError) -> String {
    let name = error.error_name().ok().and_then(|name| name.to_str().ok());
    name.map_or_else(|| format!("error {}", error.0 as i32), str::to_owned)
}

/// Numbers of which any bits are a value.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// One allocation of device memory.
pub struct Memory {
    device: Rc<Device>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Memory {
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies to the device, `offset` in bytes, and waits for that: the values may go as soon as this returns. That a copy
    /// from pageable memory has read its source when it returns is what drivers do, not what they promise.
    pub fn write<T: Plain>(&self, offset: usize, values: &[T]) -> Result<()> {
        self.check(offset, size_of_val(values));
        self.device.current()?;
        // SAFETY: in bounds; `wait` returns after the copy.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, values, self.device.stream) }
            .map_err(|e| self.device.failed("be written to", e))?;
        self.device.wait()
    }

    /// Waits for the work so far and copies from the device.
    pub fn read<T: Plain>(&self, offset: usize, values: &mut [T]) -> Result<()> {
        self.check(offset, size_of_val(values));
        self.device.current()?;
        // SAFETY: in bounds; `wait` returns after the copy.
        unsafe { result::memcpy_dtoh_async(values, self.address + offset as u64, self.device.stream) }
            .map_err(|e| self.device.failed("be read", e))?;
        self.device.wait()
    }

    /// Starts copying words to pinned memory, and does not wait.
    pub fn fetch(&self, offset: usize, to: &mut Pinned) -> Result<()> {
        self.check(offset, 4 * to.len);
        self.device.current()?;
        // SAFETY: in bounds; pinned memory outlives the copy because its owner waits for the event behind it.
        unsafe { result::memcpy_dtoh_async(to.words_mut(), self.address + offset as u64, self.device.stream) }
            .map_err(|e| self.device.failed("be read", e))
    }

    /// Sets one word.
    pub fn set_word(&self, offset: usize, value: u32) -> Result<()> {
        self.check(offset, 4);
        self.device.current()?;
        // SAFETY: in bounds.
        unsafe { sys::cuMemsetD32Async(self.address + offset as u64, value, 1, self.device.stream) }
            .result()
            .map_err(|e| self.device.failed("be written to", e))
    }

    /// Sets all bytes of a range to 0.
    pub fn clear(&self, offset: usize, bytes: usize) -> Result<()> {
        self.check(offset, bytes);
        self.device.current()?;
        // SAFETY: in bounds.
        unsafe { result::memset_d8_async(self.address + offset as u64, 0, bytes, self.device.stream) }
            .map_err(|e| self.device.failed("be written to", e))
    }

    fn check(&self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.bytes, "a copy past the end of an allocation");
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: ours, and work that uses it was waited for, or its device has failed.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::stream::synchronize(self.device.stream);
            let _ = result::free_sync(self.address);
        }
    }
}

/// Launches recorded once, started again with one call.
pub struct Graph {
    device: Rc<Device>,
    executable: sys::CUgraphExec,
}

impl Graph {
    pub fn launch(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: the graph is alive, and so is what its kernels use: see the session.
        unsafe { result::graph::launch(self.executable, self.device.stream) }
            .map_err(|e| self.device.failed("start a step", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::graph::exec_destroy(self.executable);
        }
    }
}

/// A point in the device's work.
pub struct Event {
    device: Rc<Device>,
    event: sys::CUevent,
}

impl Event {
    pub fn record(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: event and stream are ours.
        unsafe { result::event::record(self.event, self.device.stream) }
            .map_err(|e| self.device.failed("record an event", e))
    }

    /// Waits until the work before the last `record` is done.
    pub fn wait(&self) -> Result<()> {
        self.device.current()?;
        // SAFETY: the event is ours.
        unsafe { result::event::synchronize(self.event) }.map_err(|e| self.device.failed("finish its work", e))
    }

    /// Seconds from `earlier` to this event; both were waited for.
    pub fn since(&self, earlier: &Self) -> Result<f64> {
        // SAFETY: both were recorded on one stream.
        let milliseconds = unsafe { result::event::elapsed(earlier.event, self.event) };
        milliseconds
            .map(|ms| f64::from(ms) / 1e3)
            .map_err(|e| self.device.failed("measure time", e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::event::destroy(self.event);
        }
    }
}

/// Words of page-locked host memory.
pub struct Pinned {
    device: Rc<Device>,
    start: *mut u32,
    len: usize,
}

impl Pinned {
    /// The words, as of the last event that was waited for.
    pub fn words(&self) -> &[u32] {
        // SAFETY: allocated so long.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: allocated so long.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: ours, and copies to it are waited for here.
        unsafe {
            let _ = result::ctx::set_current(self.device.context);
            let _ = result::stream::synchronize(self.device.stream);
            let _ = result::free_host(self.start.cast());
        }
    }
}

//! The CUDA driver: a device, its memory, its kernels and graphs, and errors in words.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::rc::Rc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use qcs_kernels::launch::Launch;

use crate::{Error, Result};

/// The oldest driver that has every function the engine calls: CUDA 11.4.
const OLDEST_DRIVER: i32 = 11_040;

/// A usable GPU with our kernels loaded. All work goes through one stream.
pub struct Device {
    ordinal: usize,
    raw: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    module: sys::CUmodule,
    functions: RefCell<HashMap<String, sys::CUfunction>>,
    pub properties: Properties,
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
}

/// Whether the machine has a CUDA driver at all.
pub fn driver_is_installed() -> bool {
    // SAFETY: looks for the library and closes it again.
    unsafe { sys::is_culib_present() }
}

/// How many GPUs there are.
///
/// # Errors
/// [`Error::Device`] if there is no usable driver, with the reason and what to do.
pub fn count() -> Result<usize> {
    if !driver_is_installed() {
        return Err(Error::Device(
            "no NVIDIA driver: libcuda.so.1 was not found; install the driver or use --device cpu".into(),
        ));
    }
    result::init().map_err(|e| match e.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => no_device(),
        _ => Error::Device(format!(
            "the NVIDIA driver does not start ({}); nvidia-smi may say more, --device cpu works",
            name(e)
        )),
    })?;
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|e| Error::Device(format!("the NVIDIA driver does not say its version ({})", name(e))))?;
    if version < OLDEST_DRIVER {
        let dotted = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
        return Err(Error::Device(format!(
            "the NVIDIA driver is too old: it is for CUDA {}, qcs needs {}; update it or use --device cpu",
            dotted(version),
            dotted(OLDEST_DRIVER)
        )));
    }
    match result::device::get_count() {
        Ok(n) if n > 0 => Ok(n as usize),
        Ok(_) => Err(no_device()),
        Err(e) => Err(Error::Device(format!("the NVIDIA driver fails ({})", name(e)))),
    }
}

fn no_device() -> Error {
    Error::Device("no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES may hide it); use --device cpu".into())
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
                "--device cuda:{ordinal}: there is only {count} GPU{plural}, counted from 0"
            )));
        }
        let failed = |what: &'static str| move |e| Error::Device(format!("cuda:{ordinal}: cannot {what}: {}", name(e)));
        let raw = result::device::get(ordinal as i32).map_err(failed("be opened"))?;
        let properties = Properties::of(raw).map_err(failed("be asked what it is"))?;
        let ptx = match properties.capability {
            80.. => qcs_kernels::PTX_SM_80,
            70..80 => qcs_kernels::PTX_SM_70,
            old => {
                return Err(Error::Device(format!(
                    "cuda:{ordinal}, {}: compute capability {}.{} is too old, the kernels need 7.0 (V100); use --device cpu",
                    properties.name,
                    old / 10,
                    old % 10
                )));
            }
        };
        // SAFETY: a device of this process; the context is released when the value is dropped.
        let context = unsafe { result::primary_ctx::retain(raw) }.map_err(failed("make a context"))?;
        let mut device = Self {
            ordinal,
            raw,
            context,
            stream: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
            functions: RefCell::default(),
            properties,
        };
        device.current()?;
        device.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| device.failed("make a stream", e))?;
        let text = CString::new(ptx).expect("PTX has no NUL");
        device.module = load_module(&text).map_err(|refusal| refusal.explained(&device))?;
        Ok(device)
    }

    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Makes the device the one that this thread's driver calls mean.
    pub fn current(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| self.failed("be made current", e))
    }

    /// "cuda:0: cannot …" and why.
    pub fn failed(&self, what: &str, error: DriverError) -> Error {
        let at = format!("cuda:{}", self.ordinal);
        Error::Device(match error.0 {
            sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | sys::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | sys::CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | sys::CUresult::CUDA_ERROR_LAUNCH_FAILED
            | sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT => format!(
                "{at}: a kernel failed ({}); `qcs check --device {at}` finds out which, --resume goes on from the last \
                 checkpoint",
                name(error)
            ),
            _ => format!("{at}: cannot {what}: {}", name(error)),
        })
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
                "cuda:{}: a batch needs {:.2} GiB ({bytes} bytes), but {:.2} of {:.2} GiB are free: take a smaller \
                 --batch, or --batch auto",
                self.ordinal,
                gib(bytes),
                gib(free),
                gib(total)
            ))
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

    /// Starts a kernel with its one argument.
    ///
    /// # Safety
    /// The argument is the kernel's struct, its addresses are those of live arrays, and the grid covers no more.
    pub unsafe fn launch(&self, function: sys::CUfunction, launch: Launch, argument: &[u8]) -> Result<()> {
        let [x, y] = launch.grid;
        let mut parameters = [argument.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller's promise; the driver copies the argument.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, 1),
                (launch.threads, 1, 1),
                0,
                self.stream,
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

    /// Waits for everything on the stream.
    pub fn wait(&self) -> Result<()> {
        self.current()?;
        // SAFETY: the stream is ours.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| self.failed("finish its work", e))
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

/// Why the driver refuses PTX, and what its compiler says of it.
struct Refusal {
    error: DriverError,
    log: String,
}

/// Room for each of the compiler's logs.
const LOG_BYTES: usize = 8 << 10;

/// Compiles PTX for the current device. cudarc's own call has no room for the compiler's words.
fn load_module(ptx: &CStr) -> Result<sys::CUmodule, Refusal> {
    use sys::CUjit_option_enum as Jit;
    let mut logs = [vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]];
    let [errors, notes] = logs.each_mut().map(|log| log.as_mut_ptr().cast::<c_void>());
    let room = std::ptr::without_provenance_mut(LOG_BYTES);
    let mut options = [
        Jit::CU_JIT_ERROR_LOG_BUFFER,
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_INFO_LOG_BUFFER,
        Jit::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [errors, room, notes, room];
    let mut module = std::ptr::null_mut();
    // SAFETY: PTX, ended by NUL; as many values as options, and the logs are as large as is said.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.result().map(|()| module).map_err(|error| Refusal {
        error,
        log: logs.iter().flat_map(|log| words(log)).collect::<Vec<_>>().join("; "),
    })
}

/// The lines of a log that ends with its first NUL.
fn words(log: &[u8]) -> Vec<String> {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

impl Refusal {
    fn explained(&self, device: &Device) -> Error {
        let what_to_do = match self.error.0 {
            sys::CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => {
                "the driver's PTX compiler, libnvidia-ptxjitcompiler.so.1, is not installed; --device cpu works"
            }
            sys::CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED => "unset CUDA_DISABLE_PTX_JIT",
            _ if self.log.is_empty() => "the compiler says no more",
            _ => &format!("the compiler says: {}", self.log),
        };
        Error::Device(format!(
            "{}; {what_to_do}",
            device.failed("load the kernels", self.error)
        ))
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
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
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
        })
    }
}

/// The name of a driver error.
fn name(error: DriverError) -> String {
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

    /// Copies to the device, `offset` in bytes. The values may go as soon as this returns.
    pub fn write<T: Plain>(&self, offset: usize, values: &[T]) -> Result<()> {
        self.check(offset, size_of_val(values));
        self.device.current()?;
        // SAFETY: in bounds; copies from pageable memory have read it when they return.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, values, self.device.stream) }
            .map_err(|e| self.device.failed("be written to", e))
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

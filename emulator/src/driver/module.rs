//! Modules from PTX text.

use super::function::Function;
use super::state::{context_status, driver, ready, usable};
use super::status::*;
use super::{DevicePtr, Handle, destroy, object, put};
use crate::device::LoadedModule;
use crate::ir::Module;
use std::ffi::{CStr, OsStr, c_char, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

struct ModuleObject {
    /// The device of its context
    owner: usize,
    loaded: Arc<LoadedModule>,
    functions: Vec<Arc<Function>>,
}

/// Why a module cannot be loaded: the status, and what the compiler's log has.
struct Refusal {
    status: Status,
    log: String,
}

fn refuse(status: Status, log: impl Into<String>) -> Refusal {
    let log = log.into();
    eprintln!("qcs-emulator: {log}");
    Refusal { status, log }
}

fn load(text: &str) -> Result<ModuleObject, Refusal> {
    let (owner, config, memory) = {
        let mut state = ready().map_err(|status| Refusal {
            status,
            log: String::new(),
        })?;
        state.counters.module_loads += 1;
        (state.ordinal, state.config.clone(), state.memory().clone())
    };
    if config.no_jit {
        return Err(refuse(JIT_COMPILER_NOT_FOUND, "there is to be no JIT compiler"));
    }
    if let Some(log) = config.jit_error {
        return Err(refuse(INVALID_PTX, log));
    }
    let (sm, newest) = (config.multiprocessor.sm, config.newest_ptx());
    let module = Module::parse(text).map_err(|error| refuse(INVALID_PTX, error.to_string()))?;
    if module.version > newest {
        let ((major, minor), (a, b)) = (module.version, newest);
        let log = format!("PTX ISA {major}.{minor} but the driver knows {a}.{b}");
        return Err(refuse(UNSUPPORTED_PTX_VERSION, log));
    }
    if module.target > sm {
        let log = format!("PTX for sm_{} but the device is sm_{sm}", module.target);
        return Err(refuse(NO_BINARY_FOR_GPU, log));
    }
    let loaded = Arc::new(LoadedModule::new(module, &memory));
    let function = |index| Arc::new(Function::new(owner, loaded.clone(), index));
    let functions = (0..loaded.module.kernels.len()).map(function).collect();
    Ok(ModuleObject {
        owner,
        loaded,
        functions,
    })
}

/// # Safety
/// `module` is null or valid for a write.
unsafe fn load_into(module: *mut Handle, text: &str) -> Result<(), Refusal> {
    let object = load(text)?;
    // SAFETY: the caller vouches for the pointer.
    match unsafe { put(module, Box::into_raw(Box::new(object)).cast()) } {
        SUCCESS => Ok(()),
        status => Err(refuse(status, "there is no place for the module")),
    }
}

/// # Safety
/// `module` is null or valid for a write; `image` is null or a zero-terminated text or a binary image.
unsafe fn load_image(module: *mut Handle, image: *const c_void) -> Result<(), Refusal> {
    const ELF: u8 = 0x7f;
    const FAT_BINARY: u8 = 0x50;
    /// Where the header of a 64-bit ELF file has its flags, the architecture in their lowest byte
    const ELF_FLAGS: usize = 48;
    if image.is_null() {
        return Err(refuse(INVALID_VALUE, "the image is null"));
    }
    // SAFETY: not null; PTX text and binary images have at least one byte.
    let first = unsafe { *image.cast::<u8>() };
    if matches!(first, ELF | FAT_BINARY) {
        driver().counters.machine_code_loads += 1;
        let architecture = match first {
            // SAFETY: such an image has a whole header.
            ELF => format!(" for sm_{}", unsafe { *image.cast::<u8>().add(ELF_FLAGS) }),
            _ => String::new(),
        };
        let log = format!("the image is machine code{architecture}; only PTX text can be run");
        return Err(refuse(NO_BINARY_FOR_GPU, log));
    }
    // SAFETY: the caller passes zero-terminated text.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
    // SAFETY: the caller vouches for `module`.
    unsafe { load_into(module, &text) }
}

fn status(loaded: Result<(), Refusal>) -> Status {
    loaded.map_or_else(|refusal| refusal.status, |()| SUCCESS)
}

/// # Safety
/// `module` is null or valid for a write; `image` is null or a zero-terminated text or a binary image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Status {
    // SAFETY: the caller vouches for the pointers.
    status(unsafe { load_image(module, image) })
}

/// The options that are heeded: where the compiler's errors go, and how many bytes are there. The log of information
/// stays empty; the others change nothing here.
const JIT_INFO_LOG: c_uint = 3;
const JIT_INFO_LOG_BYTES: c_uint = 4;
const JIT_ERROR_LOG: c_uint = 5;
const JIT_ERROR_LOG_BYTES: c_uint = 6;

/// # Safety
/// As `cuModuleLoadData`. `options` and `values` are lists of that many entries, and the buffers among the values are as
/// large as is said there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *const c_uint,
    values: *mut *mut c_void,
) -> Status {
    if count > 0 && (options.is_null() || values.is_null()) {
        return INVALID_VALUE;
    }
    // SAFETY: the caller vouches for the pointers.
    let loaded = unsafe { load_image(module, image) };
    let log = loaded.as_ref().map_or_else(|refusal| refusal.log.as_str(), |()| "");
    // SAFETY: the lists have `count` entries.
    unsafe {
        write_log("", count, options, values, [JIT_INFO_LOG, JIT_INFO_LOG_BYTES]);
        write_log(log, count, options, values, [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES]);
    }
    status(loaded)
}

/// Writes a log, cut to what there is room for and ended by a zero, and in place of the room how much was written.
///
/// # Safety
/// As for `cuModuleLoadDataEx`.
unsafe fn write_log(
    log: &str,
    count: c_uint,
    options: *const c_uint,
    values: *mut *mut c_void,
    [buffer, bytes]: [c_uint; 2],
) {
    // SAFETY: the caller vouches for the list.
    let position = |option| (0..count as usize).find(|&i| unsafe { *options.add(i) } == option);
    let (Some(buffer), Some(bytes)) = (position(buffer), position(bytes)) else {
        return;
    };
    // SAFETY: the caller vouches for the list, and for the size of the buffer in it.
    unsafe {
        let (start, room) = (*values.add(buffer).cast::<*mut u8>(), (*values.add(bytes)).addr());
        let written = log.len().min(room.saturating_sub(1));
        if !start.is_null() && room > 0 {
            std::ptr::copy_nonoverlapping(log.as_ptr(), start, written);
            start.add(written).write(0);
        }
        *values.add(bytes) = std::ptr::without_provenance_mut(written);
    }
}

/// # Safety
/// `module` is null or valid for a write; `path` is zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: *mut Handle, path: *const c_char) -> Status {
    if path.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller passes a zero-terminated path.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    match std::fs::read_to_string(path) {
        // SAFETY: the caller vouches for `module`.
        Ok(text) => status(unsafe { load_into(module, &text) }),
        Err(_) => FILE_NOT_FOUND,
    }
}

/// # Safety
/// `module` came from a load and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> Status {
    // SAFETY: the caller vouches for it.
    unsafe { destroy::<ModuleObject>(module) }
}

/// # Safety
/// `function` is null or valid for a write, `module` is loaded, `name` is zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Status {
    // SAFETY: the caller vouches for the handle and the name.
    let (Some(module), false) = (unsafe { object::<ModuleObject>(module) }, name.is_null()) else {
        return INVALID_HANDLE;
    };
    let status = usable("a module", module.owner);
    if status != SUCCESS {
        return status;
    }
    // SAFETY: the caller passes a zero-terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match module.functions.iter().find(|f| f.kernel().name == name) {
        // SAFETY: the caller vouches for the pointer.
        Some(found) => unsafe { put(function, Arc::as_ptr(found).cast_mut().cast()) },
        None => NOT_FOUND,
    }
}

/// # Safety
/// `address` and `bytes` are null or valid for a write, `module` is loaded, `name` is zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut DevicePtr,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> Status {
    // SAFETY: the caller vouches for the handle and the name.
    let (Some(module), false) = (unsafe { object::<ModuleObject>(module) }, name.is_null()) else {
        return INVALID_HANDLE;
    };
    let status = usable("a module", module.owner);
    if status != SUCCESS {
        return status;
    }
    // SAFETY: the caller passes a zero-terminated name.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let Some((at, size)) = module.loaded.global(&name) else {
        return NOT_FOUND;
    };
    // SAFETY: the caller vouches for the pointers; either may be null.
    unsafe {
        put(address, at);
        put(bytes, size);
    }
    context_status()
}

//! Modules from PTX text.

use super::function::Function;
use super::state::{context_status, ready, usable};
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

fn load(text: &str) -> Result<ModuleObject, Status> {
    let (owner, sm, newest, memory) = {
        let mut state = ready()?;
        state.counters.module_loads += 1;
        (
            state.ordinal,
            state.config.multiprocessor.sm,
            state.config.newest_ptx(),
            state.memory().clone(),
        )
    };
    let module = Module::parse(text).map_err(|error| {
        eprintln!("qcs-emulator: {error}");
        INVALID_PTX
    })?;
    if module.version > newest {
        let ((major, minor), (a, b)) = (module.version, newest);
        eprintln!("qcs-emulator: PTX ISA {major}.{minor} but the driver knows {a}.{b}");
        return Err(UNSUPPORTED_PTX_VERSION);
    }
    if module.target > sm {
        eprintln!("qcs-emulator: PTX for sm_{} but the device is sm_{sm}", module.target);
        return Err(NO_BINARY_FOR_GPU);
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
unsafe fn load_into(module: *mut Handle, text: &str) -> Status {
    match load(text) {
        // SAFETY: the caller vouches for the pointer.
        Ok(object) => unsafe { put(module, Box::into_raw(Box::new(object)).cast()) },
        Err(status) => status,
    }
}

/// # Safety
/// `module` is null or valid for a write; `image` is null or a zero-terminated text or a binary image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Status {
    const ELF: u8 = 0x7f;
    const FAT_BINARY: u8 = 0x50;
    if image.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null; PTX text and binary images have at least one byte.
    if matches!(unsafe { *image.cast::<u8>() }, ELF | FAT_BINARY) {
        eprintln!("qcs-emulator: the image is machine code; only PTX text can be run");
        return NO_BINARY_FOR_GPU;
    }
    // SAFETY: the caller passes zero-terminated text.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
    // SAFETY: the caller vouches for `module`.
    unsafe { load_into(module, &text) }
}

/// # Safety
/// As `cuModuleLoadData`; the options are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    _count: c_uint,
    _options: Handle,
    _values: Handle,
) -> Status {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuModuleLoadData(module, image) }
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
        Ok(text) => unsafe { load_into(module, &text) },
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

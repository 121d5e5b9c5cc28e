//! Kernels as handles, and their attributes.

use super::state::driver;
use super::status::*;
use super::{Handle, object, put};
use crate::device::LoadedModule;
use crate::ir::Kernel;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

pub struct Function {
    /// The device of its context
    pub owner: usize,
    pub module: Arc<LoadedModule>,
    index: usize,
    /// Dynamic shared memory that the program opted into.
    pub dynamic_shared_limit: AtomicI32,
    carveout: AtomicI32,
}

/// Dynamic shared memory that needs no opting in.
pub const PLAIN_SHARED_LIMIT: usize = 49152;

/// `CUfunction_attribute` of those that can be set.
const MAX_DYNAMIC_SHARED: c_int = 8;
const SHARED_CARVEOUT: c_int = 9;

impl Function {
    pub fn new(owner: usize, module: Arc<LoadedModule>, index: usize) -> Function {
        Function {
            owner,
            module,
            index,
            dynamic_shared_limit: AtomicI32::new(0),
            carveout: AtomicI32::new(-1),
        }
    }

    pub fn kernel(&self) -> &Kernel {
        &self.module.module.kernels[self.index]
    }

    /// The most dynamic shared memory a launch may ask for now.
    pub fn shared_limit(&self) -> usize {
        let opted = self.dynamic_shared_limit.load(Ordering::Relaxed) as usize;
        opted.max(PLAIN_SHARED_LIMIT.saturating_sub(self.kernel().static_shared_bytes))
    }
}

/// # Safety
/// `function` came from `cuModuleGetFunction` of a loaded module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Status {
    // SAFETY: the caller vouches for the handle.
    let Some(function) = (unsafe { object::<Function>(function) }) else {
        return INVALID_HANDLE;
    };
    match attribute {
        MAX_DYNAMIC_SHARED => {
            let most = driver().config.multiprocessor.shared_per_block as usize;
            if value < 0 || value as usize + function.kernel().static_shared_bytes > most {
                return INVALID_VALUE;
            }
            function.dynamic_shared_limit.store(value, Ordering::Relaxed);
        }
        SHARED_CARVEOUT => function.carveout.store(value, Ordering::Relaxed),
        _ => return INVALID_VALUE,
    }
    SUCCESS
}

/// # Safety
/// `value` is null or valid for a write; `function` came from a loaded module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) -> Status {
    // SAFETY: the caller vouches for the handle.
    let Some(function) = (unsafe { object::<Function>(function) }) else {
        return INVALID_HANDLE;
    };
    let kernel = function.kernel();
    let sm = driver().config.multiprocessor.sm as c_int;
    let result = match attribute {
        0 if kernel.max_threads > 0 => kernel.max_threads as c_int,
        0 => 1024,
        1 => kernel.static_shared_bytes as c_int,
        2 => 0, // constant memory
        3 => kernel.local_bytes as c_int,
        4 => kernel.live_registers as c_int,
        5 => function.module.module.target as c_int,
        6 => sm,
        MAX_DYNAMIC_SHARED => function.shared_limit() as c_int,
        SHARED_CARVEOUT => function.carveout.load(Ordering::Relaxed),
        _ => 0,
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(value, result) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetCacheConfig(_function: Handle, _config: c_int) -> Status {
    SUCCESS
}

//! Entry points by name, for programs that ask the driver instead of the dynamic loader.

use super::*;
use std::ffi::{CStr, c_char, c_int};

macro_rules! entry_points {
    ($($name:ident)*) => {
        fn find(name: &str) -> Option<Handle> {
            match name {
                $( stringify!($name) => Some($name as *mut c_void), )*
                _ => None,
            }
        }
    };
}

entry_points! {
    cuInit cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid cuDeviceGetUuid_v2
    cuDeviceTotalMem_v2 cuDeviceComputeCapability cuDeviceGetAttribute cuDevicePrimaryCtxRetain
    cuDevicePrimaryCtxRelease_v2 cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool
    cuCtxCreate_v2 cuCtxDestroy_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2
    cuCtxGetDevice cuCtxSynchronize cuCtxSetFlags cuCtxSetLimit cuCtxGetLimit cuCtxSetCacheConfig
    cuCtxGetStreamPriorityRange cuProfilerStart cuProfilerStop cuModuleLoad cuModuleLoadData cuModuleLoadDataEx
    cuModuleUnload cuModuleGetFunction cuModuleGetGlobal_v2 cuFuncSetAttribute cuFuncGetAttribute
    cuFuncSetCacheConfig cuMemAlloc_v2 cuMemAllocAsync cuMemAllocManaged cuMemFree_v2 cuMemFreeAsync
    cuMemHostAlloc cuMemAllocHost_v2 cuMemFreeHost cuMemHostGetDevicePointer_v2 cuMemHostRegister_v2
    cuMemHostUnregister cuMemGetInfo_v2 cuMemPoolSetAttribute cuMemPoolTrimTo cuMemcpy cuMemcpyAsync
    cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoD_v2
    cuMemcpyDtoDAsync_v2 cuMemsetD8_v2 cuMemsetD8Async cuMemsetD16_v2 cuMemsetD16Async cuMemsetD32_v2
    cuMemsetD32Async cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize
    cuStreamQuery cuStreamWaitEvent cuStreamAttachMemAsync cuStreamBeginCapture_v2 cuStreamEndCapture
    cuStreamIsCapturing cuLaunchHostFunc cuLaunchKernel cuLaunchKernelEx cuEventCreate cuEventRecord
    cuEventRecordWithFlags cuEventSynchronize cuEventQuery cuEventDestroy_v2 cuEventElapsedTime
    cuEventElapsedTime_v2 cuGraphInstantiateWithFlags cuGraphUpload cuGraphLaunch cuGraphDestroy
    cuGraphExecDestroy cuGraphGetNodes cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuGetErrorName cuGetErrorString cuGetProcAddress_v2
}

const SYMBOL_FOUND: c_int = 0;
const SYMBOL_NOT_FOUND: c_int = 1;

/// The newest version of a function that exists here.
///
/// # Safety
/// `name` is zero-terminated; `entry` and `found` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    entry: *mut Handle,
    _version: c_int,
    _flags: u64,
    found: *mut c_int,
) -> Status {
    if name.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and the caller passes zero-terminated text.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let address = find(&format!("{name}_v2")).or_else(|| find(&name));
    // SAFETY: the caller vouches for the pointers; `found` may be null.
    unsafe {
        put(
            found,
            if address.is_some() {
                SYMBOL_FOUND
            } else {
                SYMBOL_NOT_FOUND
            },
        );
        put(entry, address.unwrap_or(std::ptr::null_mut())).max(if address.is_some() { SUCCESS } else { NOT_FOUND })
    }
}

//! Initialisation and device properties.

use super::context::of_device;
use super::put;
use super::state::driver;
use super::status::*;
use crate::device::occupancy::Multiprocessor;
use std::ffi::{c_char, c_int, c_uint};

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Status {
    let mut state = driver();
    if state.config.no_device {
        return NO_DEVICE;
    }
    state.initialised = true;
    SUCCESS
}

/// # Safety
/// `version` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(version, driver().config.driver_version) }
}

/// # Safety
/// `device` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    match of_device(ordinal) {
        // SAFETY: the caller vouches for the pointer.
        Ok(_) => unsafe { put(device, ordinal) },
        Err(status) => status,
    }
}

/// # Safety
/// `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    let state = driver();
    if !state.initialised {
        return if state.config.no_device {
            NO_DEVICE
        } else {
            NOT_INITIALIZED
        };
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(count, state.gpus.len() as c_int) }
}

/// # Safety
/// `name` is null or valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, size: c_int, device: c_int) -> Status {
    if let Err(status) = of_device(device) {
        return status;
    }
    let text = format!("qcs PTX emulator (sm_{})", driver().config.multiprocessor.sm);
    if name.is_null() || size < 1 {
        return INVALID_VALUE;
    }
    let count = text.len().min(size as usize - 1);
    // SAFETY: `count + 1` bytes fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast::<u8>(), count);
        name.add(count).write(0);
    }
    SUCCESS
}

/// # Safety
/// `uuid` is null or valid for a write of 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> Status {
    let mut bytes = *b"qcs-ptx-emulator";
    match of_device(device) {
        Ok(ordinal) => bytes[15] = bytes[15].wrapping_add(ordinal as u8),
        Err(status) => return status,
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(uuid, bytes) }
}

/// # Safety
/// `uuid` is null or valid for a write of 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> Status {
    // SAFETY: the caller vouches for the pointer.
    unsafe { cuDeviceGetUuid_v2(uuid, device) }
}

/// # Safety
/// `bytes` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Status {
    if let Err(status) = of_device(device) {
        return status;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(bytes, driver().config.memory) }
}

/// # Safety
/// Both pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) -> Status {
    if let Err(status) = of_device(device) {
        return status;
    }
    let sm = driver().config.multiprocessor.sm as c_int;
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(major, sm / 10).max(put(minor, sm % 10)) }
}

/// # Safety
/// `value` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status {
    if let Err(status) = of_device(device) {
        return status;
    }
    let m = driver().config.multiprocessor;
    // SAFETY: the caller vouches for the pointer.
    unsafe { put(value, device_attribute(&m, attribute)) }
}

/// Values by `CUdevice_attribute`; 0 means "not supported" for those left out.
fn device_attribute(m: &Multiprocessor, attribute: c_int) -> c_int {
    // Clocks in kHz, bus in bits, L2 cache in MiB, of a V100 and an A100.
    let (clock, memory_clock, bus, cache) = if m.sm < 80 {
        (1_530_000, 877_000, 4096, 6)
    } else {
        (1_410_000, 1_215_000, 5120, 40)
    };
    match attribute {
        1..=3 => 1024,                   // threads per block, block x and y
        4 => 64,                         // block z
        5 => c_int::MAX,                 // grid x
        6 | 7 => 65535,                  // grid y and z
        8 => 49152,                      // shared memory per block without opting in
        9 => 65536,                      // constant memory
        10 => 32,                        // warp size
        12 | 82 => m.registers as c_int, // registers per block, per multiprocessor
        13 => clock,
        16 => m.count as c_int, // multiprocessors
        31 | 40 | 41 | 83 => 1, // concurrent kernels, copy engine, unified addressing, managed memory
        36 => memory_clock,
        37 => bus,
        38 => cache << 20,
        39 => m.warps as c_int * 32, // threads per multiprocessor
        75 => m.sm as c_int / 10,    // compute capability
        76 => m.sm as c_int % 10,
        81 => m.shared as c_int,           // shared memory per multiprocessor
        97 => m.shared_per_block as c_int, // shared memory per block, opting in
        106 => m.blocks as c_int,          // blocks per multiprocessor
        111 => m.shared_reserved as c_int,
        115 => 1, // memory pools
        _ => 0,
    }
}

//! The CUDA driver API on top of the emulator: what a program finds in `libcuda.so.1`.
//!
//! Streams run at once, in the caller's thread. As on a real device, a kernel that faults does not
//! fail its launch: the error sticks to the context and the next call reports it.

#![allow(non_snake_case)] // the names of the driver API

mod config;
mod context;
mod copy;
mod counters;
mod device;
mod entry_points;
mod event;
mod function;
mod graph;
mod launch;
mod memory;
mod module;
mod occupancy;
pub(crate) mod state;
mod status;
mod stream;

pub use context::*;
pub use copy::*;
pub use counters::*;
pub use device::*;
pub use entry_points::*;
pub use event::*;
pub use function::*;
pub use graph::*;
pub use launch::*;
pub use memory::*;
pub use module::*;
pub use occupancy::*;
pub use status::*;
pub use stream::*;

use std::ffi::c_void;

/// An opaque handle.
pub type Handle = *mut c_void;
/// A device address.
pub type DevicePtr = u64;

/// Writes a result through a pointer the program gave, unless it is null.
///
/// # Safety
/// `target` is null or valid for a write.
unsafe fn put<T>(target: *mut T, value: T) -> Status {
    if target.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { target.write(value) };
    SUCCESS
}

/// The object behind a handle.
///
/// # Safety
/// `handle` is null or points to a live `T`.
unsafe fn object<'a, T>(handle: Handle) -> Option<&'a T> {
    // SAFETY: the caller vouches for it.
    unsafe { handle.cast::<T>().as_ref() }
}

/// Destroys an object made with `Box::into_raw`.
///
/// # Safety
/// `handle` is null or came from `Box<T>` and is not used any more.
unsafe fn destroy<T>(handle: Handle) -> Status {
    if handle.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: the caller vouches for it.
    drop(unsafe { Box::from_raw(handle.cast::<T>()) });
    SUCCESS
}

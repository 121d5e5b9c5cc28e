//! Copies and fills, at once or on a stream.

use super::state::{ready, ready_outside_capture};
use super::status::*;
use super::stream::{Command, Direction, Stream};
use super::{DevicePtr, Handle};

/// Checks the device memory that a copy, fill or product touches.
pub(super) fn check(command: &Command) -> Status {
    let state = match ready() {
        Ok(state) => state,
        Err(status) => return status,
    };
    for (address, bytes) in command.device_ranges() {
        if !state.contains(address, bytes) {
            eprintln!("qcs-emulator: {command:?} is outside of device memory");
            return INVALID_VALUE;
        }
    }
    SUCCESS
}

/// A call without a stream waits for the device.
fn now(call: &str, command: Command) -> Status {
    match ready_outside_capture(call) {
        Ok(mut state) => state.counters.synchronisations += 1,
        Err(status) => return status,
    }
    match check(&command) {
        SUCCESS => command.run(),
        status => status,
    }
}

/// # Safety
/// `stream` is a live stream.
unsafe fn on_stream(stream: Handle, command: Command) -> Status {
    match check(&command) {
        // SAFETY: the caller vouches for the stream.
        SUCCESS => unsafe { Stream::of(stream) }.submit(command),
        status => status,
    }
}

macro_rules! copies {
    ($($sync:ident, $asynchronous:ident, $direction:ident;)*) => { $(
        /// # Safety
        /// The host end is valid for `bytes` bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sync(to: u64, from: u64, bytes: usize) -> Status {
            now(stringify!($sync), Command::Copy { to, from, bytes, direction: Direction::$direction })
        }

        /// # Safety
        /// The host end stays valid until the copy is done; `stream` is a live stream.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $asynchronous(to: u64, from: u64, bytes: usize, stream: Handle) -> Status {
            // SAFETY: the caller vouches for the stream.
            unsafe { on_stream(stream, Command::Copy { to, from, bytes, direction: Direction::$direction }) }
        }
    )* };
}

copies! {
    cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, HostToDevice;
    cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, DeviceToHost;
    cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, DeviceToDevice;
}

/// Which way a copy goes that does not say so: unified addressing tells device memory by its address.
fn direction(to: u64, from: u64, bytes: usize) -> Direction {
    let state = super::state::driver();
    let on_device = |address| state.contains(address, bytes);
    match (on_device(to), on_device(from)) {
        (true, false) => Direction::HostToDevice,
        (false, _) => Direction::DeviceToHost,
        (true, true) => Direction::DeviceToDevice,
    }
}

/// # Safety
/// A host end is valid for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> Status {
    now(
        "cuMemcpy",
        Command::Copy {
            to,
            from,
            bytes,
            direction: direction(to, from, bytes),
        },
    )
}

/// # Safety
/// A host end stays valid until the copy is done; `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> Status {
    let direction = direction(to, from, bytes);
    // SAFETY: the caller vouches for the stream.
    unsafe {
        on_stream(
            stream,
            Command::Copy {
                to,
                from,
                bytes,
                direction,
            },
        )
    }
}

macro_rules! fills {
    ($($sync:ident, $asynchronous:ident, $element:ty;)*) => { $(
        /// # Safety
        /// None beyond the device address, which is checked.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sync(to: DevicePtr, value: $element, count: usize) -> Status {
            let width = size_of::<$element>();
            now(stringify!($sync), Command::Fill { to, value: value as u32, width, count })
        }

        /// # Safety
        /// `stream` is a live stream.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $asynchronous(
            to: DevicePtr,
            value: $element,
            count: usize,
            stream: Handle,
        ) -> Status {
            let width = size_of::<$element>();
            // SAFETY: the caller vouches for the stream.
            unsafe { on_stream(stream, Command::Fill { to, value: value as u32, width, count }) }
        }
    )* };
}

fills! {
    cuMemsetD8_v2, cuMemsetD8Async, u8;
    cuMemsetD16_v2, cuMemsetD16Async, u16;
    cuMemsetD32_v2, cuMemsetD32Async, u32;
}

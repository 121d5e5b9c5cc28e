//! Memory of the device, and of the host where the device writes to it.

use std::rc::Rc;

use cudarc::driver::{result, sys};

use super::Device;
use crate::error::Remedy;
use crate::{Error, Result};

/// Numbers of which any bits are a value.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for f32 {}
impl Plain for f64 {}

impl Device {
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

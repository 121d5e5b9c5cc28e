//! Typed buffers in device memory.

use super::memory::GlobalMemory;
use std::marker::PhantomData;
use std::sync::Arc;

/// Types that are plain bits: any bit pattern is a value.
///
/// # Safety
/// The type has no padding, no invalid bit patterns and no pointers.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: primitive numbers have no padding and no invalid bit patterns.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// `len` elements of device memory, freed on drop.
pub struct Buffer<T: Plain> {
    memory: Arc<GlobalMemory>,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    pub(super) fn new(memory: &Arc<GlobalMemory>, len: usize) -> Buffer<T> {
        let bytes = len * size_of::<T>();
        let address = memory.allocate(bytes).expect("the host has memory for a test buffer");
        Buffer {
            memory: memory.clone(),
            address,
            len,
            element: PhantomData,
        }
    }

    /// What a kernel gets as its pointer.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn read(&self) -> Vec<T> {
        // SAFETY: the allocation holds `len` elements, and `T` is plain bits.
        unsafe { std::slice::from_raw_parts(self.address as *const T, self.len) }.to_vec()
    }

    /// # Panics
    /// If `data` is longer than the buffer.
    pub fn write(&self, data: &[T]) {
        assert!(
            data.len() <= self.len,
            "{} elements into a buffer of {}",
            data.len(),
            self.len
        );
        // SAFETY: the allocation holds at least `data.len()` elements and does not overlap `data`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.address as *mut T, data.len()) };
    }

    /// Whether the bands on both sides are as they were.
    pub fn guards_intact(&self) -> bool {
        !self.memory.broken_guards().contains(&self.address)
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.memory.free(self.address);
    }
}

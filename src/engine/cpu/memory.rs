//! The arena, and how ops get at their tensors in it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

use super::threads::Threads;
use crate::error::Remedy;
use crate::plan::{ALIGNMENT, Plan, TensorId};
use crate::{Error, Result};

/// One aligned, zeroed allocation that holds every tensor of a plan.
pub struct Arena {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena owns its memory; access goes through `&Arena` in the functions below, whose callers promise disjointness.
unsafe impl Send for Arena {}

impl Arena {
    /// # Errors
    /// [`Error::Device`] if the machine has not so much memory.
    pub fn new(bytes: usize) -> Result<Self> {
        let too_large = || {
            let gib = bytes as f64 / f64::from(1 << 30);
            Error::Device(format!("a batch needs {gib:.1} GiB of memory, more than there is")).or(Remedy::SmallerBatch)
        };
        let layout = Layout::from_size_align(bytes.max(ALIGNMENT), ALIGNMENT).map_err(|_| too_large())?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
        Ok(Self { start, layout })
    }

    /// The bytes `range` as values of type `T`, which begin at a multiple of their alignment.
    ///
    /// # Safety
    /// Nothing else may write to the range while the slice lives, and every bit pattern must be a valid `T`.
    pub unsafe fn slice<T>(&self, range: Range<usize>) -> &[T] {
        assert!(range.end <= self.layout.size() && range.start.is_multiple_of(align_of::<T>()));
        // SAFETY: in bounds, aligned, initialised (the arena was zeroed).
        unsafe {
            std::slice::from_raw_parts(
                self.start.as_ptr().add(range.start).cast(),
                range.len() / size_of::<T>(),
            )
        }
    }

    /// The bytes `range` as values of type `T`, to write.
    ///
    /// # Safety
    /// Nothing else may read or write the range while the slice lives, and every bit pattern must be a valid `T`.
    #[allow(clippy::mut_from_ref)] // exclusive by the caller's promise
    pub unsafe fn slice_mut<T>(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.end <= self.layout.size() && range.start.is_multiple_of(align_of::<T>()));
        let start = unsafe { self.start.as_ptr().add(range.start) };
        // SAFETY: in bounds, aligned, initialised (the arena was zeroed).
        unsafe { std::slice::from_raw_parts_mut(start.cast(), range.len() / size_of::<T>()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The arena seen by one op. The planner keeps tensors that are alive together apart, and an op never asks twice for a
/// tensor that it writes; so the slices handed out do not overlap.
pub struct Operands<'a> {
    plan: &'a Plan,
    arena: &'a Arena,
}

impl<'a> Operands<'a> {
    pub fn new(plan: &'a Plan, arena: &'a Arena) -> Self {
        Self { plan, arena }
    }

    /// Height and width of a feature map.
    pub fn size(&self, id: TensorId) -> (usize, usize) {
        let (_, height, width) = self.plan.tensor(id).contents.feature();
        (height, width)
    }

    /// Channels of a feature map, and its pixels.
    pub fn channels_and_pixels(&self, id: TensorId) -> (usize, usize) {
        let (channels, height, width) = self.plan.tensor(id).contents.feature();
        (channels, height * width)
    }

    /// A tensor to read, for the whole batch.
    pub fn read<T>(&self, id: TensorId) -> &'a [T] {
        let tensor = self.plan.tensor(id);
        // SAFETY: see the type's documentation.
        unsafe { self.arena.slice(tensor.offset..tensor.offset + tensor.bytes) }
    }

    /// A tensor to write, for the whole batch.
    pub fn write<T>(&self, id: TensorId) -> &'a mut [T] {
        let tensor = self.plan.tensor(id);
        // SAFETY: see the type's documentation.
        unsafe { self.arena.slice_mut(tensor.offset..tensor.offset + tensor.bytes) }
    }

    /// An op's working memory.
    pub fn scratch<T>(&self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: the planner gives this range to one op only.
        unsafe { self.arena.slice_mut(range) }
    }
}

/// A slice of which several tasks write disjoint parts at the same time.
#[derive(Clone, Copy)]
pub struct Parts<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: parts are handed out under the promise that they are disjoint.
unsafe impl<T: Send> Sync for Parts<T> {}
unsafe impl<T: Send> Send for Parts<T> {}

impl<T> Parts<T> {
    pub fn new(slice: &mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
        }
    }

    /// # Safety
    /// The slice given to [`Parts::new`] must still be borrowed, and no two live parts may overlap.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // exclusive by the caller's promise
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: in bounds; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Work on one piece of each of two slices.
type PairTask<'a, T, S> = dyn Fn(usize, &mut [T], &mut [S]) + Sync + 'a;

impl Threads {
    /// Cuts `data` into pieces of `size` and calls `task(index, piece)` for each, on all threads.
    pub fn for_each<T: Send>(&mut self, data: &mut [T], size: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let count = data.len().div_ceil(size.max(1));
        let len = data.len();
        let parts = Parts::new(data);
        self.run(count, &|i| {
            // SAFETY: the pieces are disjoint, and `data` is borrowed until `run` returns.
            task(i, unsafe { parts.part(i * size..((i + 1) * size).min(len)) })
        });
    }

    /// The same over two slices cut into equally many pieces.
    pub fn for_each2<T: Send, S: Send>(
        &mut self,
        (a, size_a): (&mut [T], usize),
        (b, size_b): (&mut [S], usize),
        task: &PairTask<'_, T, S>,
    ) {
        let count = a.len() / size_a.max(1);
        assert_eq!(count, b.len() / size_b.max(1), "both slices have a piece for each task");
        let (a, b) = (Parts::new(a), Parts::new(b));
        self.run(count, &|i| {
            // SAFETY: the pieces are disjoint, and both slices are borrowed until `run` returns.
            unsafe {
                task(
                    i,
                    a.part(i * size_a..(i + 1) * size_a),
                    b.part(i * size_b..(i + 1) * size_b),
                )
            }
        });
    }
}

//! An allocator that remembers the largest request and the most that was held, so that tests can tell what a file talked the program
//! into.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

thread_local! {
    /// Of this thread alone: tests run side by side, and some make large files.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// Bytes held now, and at most. What another thread lets go of is not noticed.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn hold(bytes: isize) {
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

fn note(size: usize) {
    // At the end of a thread there is no cell left, and no test to tell.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
    hold(size as isize);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise about `layout` is the system's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        hold(-(layout.size() as isize));
        // SAFETY: as above; `pointer` came from this allocator, and so from the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes that this thread asked for at once since the last call, or since it began.
pub fn largest_allocation() -> usize {
    LARGEST.replace(0)
}

/// The most bytes that this thread held at once while `work` ran, beyond those it held before.
#[allow(dead_code)] // not every test program asks
pub fn most_held(work: impl FnOnce()) -> usize {
    let before = HELD.get().0;
    HELD.set((before, before));
    work();
    (HELD.get().1 - before) as usize
}

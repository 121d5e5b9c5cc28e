//! NVTX: nested ranges, as a profiler would record them.

use super::refuse;
use crate::driver::state::driver;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};

/// Returned where no range could be opened or closed; NVTX says "negative".
const ERROR: c_int = -1;
/// Between the names of nested ranges in the statistics.
const NESTING: &str = " > ";

thread_local! {
    /// The open ranges of this thread, each with the names of those around it.
    static OPEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The path of the innermost open range of this thread; empty outside of all ranges.
pub(crate) fn innermost() -> String {
    OPEN.with_borrow(|open| open.last().cloned().unwrap_or_default())
}

/// Opens a range and returns its depth, 0 for an outermost one.
///
/// # Safety
/// `name` is null or zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvtxRangePushA(name: *const c_char) -> c_int {
    if name.is_null() {
        return refuse("nvtxRangePushA", ERROR, "the name is null");
    }
    // SAFETY: not null, and the caller passes zero-terminated text.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    OPEN.with_borrow_mut(|open| {
        let path = match open.last() {
            Some(outer) => format!("{outer}{NESTING}{name}"),
            None => name.into_owned(),
        };
        *driver().counters.ranges.entry(path.clone()).or_default() += 1;
        open.push(path);
        open.len() as c_int - 1
    })
}

/// Closes the innermost range of the thread and returns its depth.
#[unsafe(no_mangle)]
pub extern "C" fn nvtxRangePop() -> c_int {
    OPEN.with_borrow_mut(|open| match open.pop() {
        Some(_) => {
            driver().counters.ranges_closed += 1;
            open.len() as c_int
        }
        None => refuse("nvtxRangePop", ERROR, "no range is open in this thread"),
    })
}

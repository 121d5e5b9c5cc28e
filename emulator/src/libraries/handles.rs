//! The handles of a library. A handle is a number, so that a null, foreign or destroyed one is recognised.

use crate::driver::Handle;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

pub struct Handles<T>(Mutex<Table<T>>);

struct Table<T> {
    live: BTreeMap<usize, T>,
    made: usize,
}

/// Distance between handles; they look like addresses of small objects.
const SPACING: usize = 64;

impl<T: Clone + Default> Handles<T> {
    pub const fn new() -> Handles<T> {
        Handles(Mutex::new(Table {
            live: BTreeMap::new(),
            made: 0,
        }))
    }

    fn table(&self) -> MutexGuard<'_, Table<T>> {
        // A panic while the lock was held left a table that is still consistent.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn create(&self) -> Handle {
        let mut table = self.table();
        table.made += 1;
        let handle = table.made * SPACING;
        table.live.insert(handle, T::default());
        std::ptr::without_provenance_mut(handle)
    }

    /// Whether there was such a handle.
    pub fn destroy(&self, handle: Handle) -> bool {
        self.table().live.remove(&handle.addr()).is_some()
    }

    /// The settings of a live handle.
    pub fn get(&self, handle: Handle) -> Option<T> {
        self.table().live.get(&handle.addr()).cloned()
    }

    /// Changes the settings; false if the handle is not live.
    pub fn change(&self, handle: Handle, change: impl FnOnce(&mut T)) -> bool {
        self.table().live.get_mut(&handle.addr()).map(change).is_some()
    }
}

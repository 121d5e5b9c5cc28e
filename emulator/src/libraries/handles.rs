//! The handles of a library. A handle is a number, so that a null, foreign or destroyed one is recognised. It is known in
//! the context that it was made in.

use crate::driver::Handle;
use crate::driver::state::current;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

pub struct Handles<T>(Mutex<Table<T>>);

struct Table<T> {
    /// The device of each handle's context, and its settings
    live: BTreeMap<usize, (Option<usize>, T)>,
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
        table.live.insert(handle, (current(), T::default()));
        std::ptr::without_provenance_mut(handle)
    }

    /// Whether there was such a handle.
    pub fn destroy(&self, handle: Handle) -> bool {
        let mut table = self.table();
        let known = table
            .live
            .get(&handle.addr())
            .is_some_and(|(owner, _)| *owner == current());
        known && table.live.remove(&handle.addr()).is_some()
    }

    /// The settings of a live handle.
    pub fn get(&self, handle: Handle) -> Option<T> {
        let table = self.table();
        let found = table.live.get(&handle.addr()).filter(|(owner, _)| *owner == current());
        found.map(|(_, settings)| settings.clone())
    }

    /// Changes the settings; false if the handle is not live.
    pub fn change(&self, handle: Handle, change: impl FnOnce(&mut T)) -> bool {
        let mut table = self.table();
        let found = table
            .live
            .get_mut(&handle.addr())
            .filter(|(owner, _)| *owner == current());
        found.map(|(_, settings)| change(settings)).is_some()
    }
}

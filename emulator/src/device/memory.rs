//! Global memory: host allocations with guard bands on both sides.
//!
//! A device address is a host address. Kernels are checked against the exact ranges; the guard
//! bands catch what the host side writes past an end.

use crate::exec::Ranges;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Alignment of allocations, as `cuMemAlloc` guarantees it, and width of each guard band.
const ALIGN: usize = 256;
const GUARD: u8 = 0xA5;
/// Fresh memory: a NaN in every float format and an index far out of bounds.
pub const POISON: u8 = 0xff;

#[derive(Default)]
pub struct GlobalMemory {
    table: Mutex<Table>,
    host: Arc<Mutex<HostTable>>,
}

#[derive(Default)]
struct Table {
    /// Address to size of what was asked for.
    owned: BTreeMap<u64, usize>,
    in_use: usize,
    peak: usize,
}

/// Host memory that every device of the machine reaches.
#[derive(Default)]
struct HostTable {
    pinned: BTreeMap<u64, usize>,
    /// Registered by the program
    borrowed: BTreeMap<u64, usize>,
}

/// Whether the bytes lie within one of the ranges.
fn inside(ranges: &BTreeMap<u64, usize>, address: u64, bytes: usize) -> bool {
    let found = ranges.range(..=address).next_back();
    found.is_some_and(|(start, size)| {
        let end = address.checked_add(bytes as u64);
        end.is_some_and(|end| end <= start + *size as u64)
    })
}

fn layout(bytes: usize) -> Option<Layout> {
    let padded = bytes.checked_next_multiple_of(ALIGN)?.checked_add(2 * ALIGN)?;
    Layout::from_size_align(padded, ALIGN).ok()
}

impl GlobalMemory {
    /// Memory of another device that reaches the same host memory.
    pub fn beside(&self) -> GlobalMemory {
        GlobalMemory {
            table: Mutex::default(),
            host: Arc::clone(&self.host),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic while the lock was held left a table that is still consistent.
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn host(&self) -> MutexGuard<'_, HostTable> {
        // As above.
        self.host.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Allocates poisoned memory; `None` if the host has no more.
    pub fn allocate(&self, bytes: usize) -> Option<u64> {
        let layout = layout(bytes)?;
        // SAFETY: the layout is not empty; all bytes written lie within it.
        let address = unsafe {
            let base = alloc(layout);
            if base.is_null() {
                return None;
            }
            base.write_bytes(GUARD, layout.size());
            base.add(ALIGN).write_bytes(POISON, bytes);
            base as u64 + ALIGN as u64
        };
        let mut table = self.table();
        table.owned.insert(address, bytes);
        table.in_use += bytes;
        table.peak = table.peak.max(table.in_use);
        Some(address)
    }

    /// Frees an allocation; false if there is none at the address.
    pub fn free(&self, address: u64) -> bool {
        let mut table = self.table();
        let Some(bytes) = table.owned.remove(&address) else {
            return false;
        };
        table.in_use -= bytes;
        release(address, bytes);
        true
    }

    /// Pinned host memory, which does not count as device memory.
    pub fn allocate_host(&self, bytes: usize) -> Option<u64> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).ok()?;
        // SAFETY: the layout is not empty.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            return None;
        }
        self.host().pinned.insert(pointer as u64, bytes);
        Some(pointer as u64)
    }

    pub fn free_host(&self, address: u64) -> bool {
        let Some(bytes) = self.host().pinned.remove(&address) else {
            return false;
        };
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).expect("it was valid when it was allocated");
        // SAFETY: the address came from `allocate_host` with this layout.
        unsafe { dealloc(address as *mut u8, layout) };
        true
    }

    pub fn register(&self, address: u64, bytes: usize) {
        self.host().borrowed.insert(address, bytes);
    }

    pub fn unregister(&self, address: u64) -> bool {
        self.host().borrowed.remove(&address).is_some()
    }

    /// Whether all of the bytes belong to one allocation.
    pub fn contains(&self, address: u64, bytes: usize) -> bool {
        let (table, host) = (self.table(), self.host());
        let all = [&table.owned, &host.pinned, &host.borrowed];
        bytes == 0 || all.into_iter().any(|ranges| inside(ranges, address, bytes))
    }

    /// Whether an address is in device memory proper, not in host memory that the device can reach.
    pub fn is_device(&self, address: u64) -> bool {
        inside(&self.table().owned, address, 1)
    }

    /// The valid ranges, for a launch.
    pub fn ranges(&self) -> Ranges {
        let (table, host) = (self.table(), self.host());
        let all = table.owned.iter().chain(&host.pinned).chain(&host.borrowed);
        Ranges::new(all.map(|(start, size)| (*start, start + *size as u64)).collect())
    }

    /// Allocations whose guard bands were overwritten: their addresses.
    pub fn broken_guards(&self) -> Vec<u64> {
        let table = self.table();
        table
            .owned
            .iter()
            .filter(|(address, bytes)| !guards_intact(**address, **bytes))
            .map(|(a, _)| *a)
            .collect()
    }

    pub fn in_use(&self) -> usize {
        self.table().in_use
    }

    pub fn peak(&self) -> usize {
        self.table().peak
    }
}

impl Drop for GlobalMemory {
    fn drop(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.table().owned) {
            release(address, bytes);
        }
    }
}

fn release(address: u64, bytes: usize) {
    let layout = layout(bytes).expect("the layout was valid when it was allocated");
    // SAFETY: the address came from `allocate` with this size and was removed from the table.
    unsafe { dealloc((address as *mut u8).sub(ALIGN), layout) };
}

fn guards_intact(address: u64, bytes: usize) -> bool {
    let behind = layout(bytes).map_or(0, |l| l.size()) - ALIGN - bytes;
    // SAFETY: both bands belong to the allocation, which the caller's lock keeps alive.
    let (front, back) = unsafe {
        (
            std::slice::from_raw_parts((address as *const u8).sub(ALIGN), ALIGN),
            std::slice::from_raw_parts((address as *const u8).add(bytes), behind),
        )
    };
    front.iter().chain(back).all(|b| *b == GUARD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_poisoned_aligned_and_counted() {
        let memory = GlobalMemory::default();
        let a = memory.allocate(100).unwrap();
        let b = memory.allocate(28).unwrap();
        assert_eq!((a % 256, b % 256), (0, 0));
        // SAFETY: 100 bytes were just allocated there.
        let bytes = unsafe { std::slice::from_raw_parts(a as *const u8, 100) };
        assert!(bytes.iter().all(|x| *x == POISON));
        assert_eq!((memory.in_use(), memory.peak()), (128, 128));
        assert!(memory.free(a) && !memory.free(a));
        assert_eq!((memory.in_use(), memory.peak()), (28, 128));
        assert!(memory.contains(b, 28) && !memory.contains(b, 29) && !memory.contains(a, 1));
    }

    #[test]
    fn a_write_past_the_end_breaks_a_guard() {
        let memory = GlobalMemory::default();
        let a = memory.allocate(10).unwrap();
        assert!(memory.broken_guards().is_empty());
        // SAFETY: the byte belongs to the guard band of the allocation.
        unsafe { (a as *mut u8).add(10).write(0) };
        assert_eq!(memory.broken_guards(), [a]);
    }
}

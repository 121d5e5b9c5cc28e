//! Checked addresses: from a lane's address to host memory.

use super::block::Block;
use super::warp::Warp;
use crate::error::{FaultKind, Trouble};
use crate::ir::Space;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The valid parts of global memory, sorted and disjoint: start and end of each allocation.
#[derive(Clone, Default, Debug)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub fn new(mut ranges: Vec<(u64, u64)>) -> Ranges {
        ranges.sort_unstable();
        Ranges(ranges)
    }

    /// The allocation that holds all of the bytes.
    pub fn find(&self, address: u64, bytes: usize) -> Option<(u64, u64)> {
        let at = self.0.partition_point(|r| r.0 <= address);
        let range = *self.0.get(at.checked_sub(1)?)?;
        (address.checked_add(bytes as u64)? <= range.1).then_some(range)
    }

    /// Says where an address lies relative to the nearest allocation below it.
    fn describe(&self, address: u64) -> String {
        let at = self.0.partition_point(|r| r.0 <= address);
        match at.checked_sub(1).map(|i| self.0[i]) {
            None => " (below every allocation)".into(),
            Some((start, end)) => {
                format!(
                    " ({} bytes into an allocation of {} bytes)",
                    address - start,
                    end - start
                )
            }
        }
    }
}

/// A host address that was checked: valid for the bytes asked for, and aligned to their number.
#[derive(Clone, Copy)]
pub struct HostPtr(*mut u8);

impl HostPtr {
    /// Stands for lanes that take no part; never used for an access.
    pub const NOWHERE: HostPtr = HostPtr(std::ptr::null_mut());

    /// # Safety
    /// The memory must stay valid, and be aligned to 8 bytes or to the size of every access.
    pub unsafe fn new(pointer: *mut u8) -> HostPtr {
        HostPtr(pointer)
    }

    /// Loads 1, 2, 4 or 8 bytes. Atomic, because blocks on other threads may write there.
    #[inline(always)]
    pub fn load(self, offset: usize, bytes: usize) -> u64 {
        // SAFETY: whoever made the pointer checked bounds and alignment.
        unsafe {
            let p = self.0.add(offset);
            match bytes {
                1 => AtomicU8::from_ptr(p).load(Ordering::Relaxed) as u64,
                2 => AtomicU16::from_ptr(p.cast()).load(Ordering::Relaxed) as u64,
                4 => AtomicU32::from_ptr(p.cast()).load(Ordering::Relaxed) as u64,
                _ => AtomicU64::from_ptr(p.cast()).load(Ordering::Relaxed),
            }
        }
    }

    #[inline(always)]
    pub fn store(self, offset: usize, bytes: usize, value: u64) {
        // SAFETY: whoever made the pointer checked bounds and alignment.
        unsafe {
            let p = self.0.add(offset);
            match bytes {
                1 => AtomicU8::from_ptr(p).store(value as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(p.cast()).store(value as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(p.cast()).store(value as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(p.cast()).store(value, Ordering::Relaxed),
            }
        }
    }

    /// Replaces the value by `f` of it in one step and returns the old one.
    pub fn update(self, bytes: usize, f: impl Fn(u64) -> u64) -> u64 {
        let order = Ordering::SeqCst;
        // SAFETY: whoever made the pointer checked bounds and alignment.
        unsafe {
            match bytes {
                2 => AtomicU16::from_ptr(self.0.cast()).update(order, order, |v| f(v as u64) as u16) as u64,
                4 => AtomicU32::from_ptr(self.0.cast()).update(order, order, |v| f(v as u64) as u32) as u64,
                _ => AtomicU64::from_ptr(self.0.cast()).update(order, order, &f),
            }
        }
    }
}

/// What an access is, for its checks and messages.
#[derive(Clone, Copy)]
pub struct Request {
    pub space: Space,
    pub bytes: usize,
    pub write: bool,
}

impl Block<'_> {
    /// Checks one lane's access and returns where it goes.
    #[inline(always)]
    pub fn resolve(
        &mut self,
        warp: &Warp,
        request: Request,
        address: u64,
        lane: usize,
    ) -> Result<HostPtr, Box<Trouble>> {
        let (space, at) = if request.space == Space::Generic {
            Space::of_generic(address)
        } else {
            (request.space, address)
        };
        if at & (request.bytes as u64 - 1) != 0 {
            let bytes = request.bytes;
            return Err(Trouble::at(lane, FaultKind::Misaligned { space, address, bytes }));
        }
        match space {
            Space::Shared => self.shared_pointer(request, at, lane),
            Space::Local => local_pointer(warp, self.env.kernel.local_bytes, at, request, lane),
            Space::Param => {
                let params = &self.env.params;
                check(at, request, params.len() * 8, Space::Param, lane)?;
                // SAFETY: `at` lies within the parameters; stores to them are refused at load.
                Ok(unsafe { HostPtr::new(params.as_ptr().cast::<u8>().cast_mut().add(at as usize)) })
            }
            Space::Global | Space::Const | Space::Generic => self.global_pointer(request, at, lane),
        }
    }

    #[inline(always)]
    fn shared_pointer(&mut self, request: Request, at: u64, lane: usize) -> Result<HostPtr, Box<Trouble>> {
        check(at, request, self.shared_bytes, Space::Shared, lane)?;
        // SAFETY: `at` lies within the shared memory of the block.
        Ok(unsafe { HostPtr::new(self.shared.as_mut_ptr().cast::<u8>().add(at as usize)) })
    }

    #[inline(always)]
    fn global_pointer(&mut self, request: Request, at: u64, lane: usize) -> Result<HostPtr, Box<Trouble>> {
        let end = at.wrapping_add(request.bytes as u64);
        if !(at >= self.last_range.0 && end <= self.last_range.1 && end > at) {
            match self.env.ranges.find(at, request.bytes) {
                Some(range) => self.last_range = range,
                None => {
                    let hint = self.env.ranges.describe(at);
                    let Request { bytes, write, .. } = request;
                    let space = Space::Global;
                    let kind = FaultKind::OutOfBounds {
                        space,
                        address: at,
                        bytes,
                        write,
                        hint,
                    };
                    return Err(Trouble::at(lane, kind));
                }
            }
        }
        // SAFETY: the range is a live allocation; the launch keeps it alive.
        Ok(unsafe { HostPtr::new(at as *mut u8) })
    }
}

fn local_pointer(warp: &Warp, size: usize, at: u64, request: Request, lane: usize) -> Result<HostPtr, Box<Trouble>> {
    check(at, request, size, Space::Local, lane)?;
    // SAFETY: each lane has `size` bytes, one lane after the other; only this thread runs the warp.
    Ok(unsafe {
        HostPtr::new(
            warp.local
                .as_ptr()
                .cast::<u8>()
                .cast_mut()
                .add(lane * size + at as usize),
        )
    })
}

#[inline(always)]
fn check(at: u64, request: Request, size: usize, space: Space, lane: usize) -> Result<(), Box<Trouble>> {
    if at < size as u64 && at + request.bytes as u64 <= size as u64 {
        return Ok(());
    }
    let Request { bytes, write, .. } = request;
    let hint = format!(" of {size}");
    Err(Trouble::at(
        lane,
        FaultKind::OutOfBounds {
            space,
            address: at,
            bytes,
            write,
            hint,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn an_access_must_lie_within_one_allocation() {
        let ranges = Ranges::new(vec![(0x2000, 0x2010), (0x1000, 0x1008)]);
        assert_eq!(ranges.find(0x1004, 4), Some((0x1000, 0x1008)));
        assert_eq!(ranges.find(0x1004, 8), None);
        assert_eq!(ranges.find(0x0fff, 1), None);
        assert_eq!(ranges.find(0x2010, 1), None);
        assert_eq!(ranges.find(u64::MAX, 8), None);
        assert_eq!(Ranges::default().find(0, 1), None);
    }
}

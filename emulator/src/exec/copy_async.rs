//! `cp.async`: copies are deferred until the wait, so that a missing wait has an effect.

use super::block::Block;
use super::lanes::{LANES, lanes_of, mask_where};
use super::memory::Request;
use super::warp::Warp;
use crate::error::Step;
use crate::ir::{CopyAsync, Space};

#[derive(Clone, Copy)]
struct Copy {
    to: u64,
    from: u64,
    bytes: u32,
    source_bytes: u32,
    /// Index of the issuing instruction, for messages about a bad source.
    pc: u32,
}

/// Per lane: committed groups, oldest first, and the group that is still open.
pub struct CopyQueue {
    committed: [Vec<Vec<Copy>>; LANES],
    open: [Vec<Copy>; LANES],
    used: bool,
}

impl Default for CopyQueue {
    fn default() -> CopyQueue {
        CopyQueue {
            committed: [const { Vec::new() }; LANES],
            open: [const { Vec::new() }; LANES],
            used: false,
        }
    }
}

impl CopyQueue {
    pub fn clear(&mut self) {
        if self.used {
            *self = CopyQueue::default();
        }
    }
}

pub fn issue(block: &mut Block, w: &mut Warp, i: &CopyAsync, mask: u32) -> Step {
    let to = w.addresses(i.to, Space::Shared);
    let from = w.addresses(i.from, Space::Global);
    let sizes = source_bytes(w, i);
    let bytes = i.bytes as usize;
    let (read, write) = requests(bytes);
    if block.env.options.profile && mask != 0 {
        let reading = mask_where(|l| sizes[l] > 0) & mask;
        if reading != 0 {
            block.profile.access(block.pc, read, &from, reading);
        }
        block.profile.access(block.pc, write, &to, mask);
    }
    w.copies.used = true;
    for lane in lanes_of(mask) {
        // Both ends are checked at once: the report then names the line of the copy.
        block.resolve(w, write, to[lane], lane)?;
        if sizes[lane] == i.bytes {
            block.resolve(w, read, from[lane], lane)?;
        }
        for byte in 0..sizes[lane] as u64 % i.bytes as u64 {
            block.resolve(w, Request { bytes: 1, ..read }, from[lane].wrapping_add(byte), lane)?;
        }
        block.copy_issued(w, to[lane], bytes, lane)?;
        w.copies.open[lane].push(Copy {
            to: to[lane],
            from: from[lane],
            bytes: i.bytes,
            source_bytes: sizes[lane],
            pc: block.pc,
        });
    }
    Ok(())
}

/// How much each lane reads; the rest of its target becomes zeros.
fn source_bytes(w: &Warp, i: &CopyAsync) -> [u32; LANES] {
    let ignored = i.ignore.map_or(0, |p| w.predicate(p));
    let mut sizes = i.source_bytes.map_or([i.bytes; LANES], |reg| *w.get(reg));
    for (lane, size) in sizes.iter_mut().enumerate() {
        *size = if ignored >> lane & 1 != 0 {
            0
        } else {
            i.bytes.min(*size)
        };
    }
    sizes
}

fn requests(bytes: usize) -> (Request, Request) {
    let of = |space, write| Request { space, bytes, write };
    (of(Space::Global, false), of(Space::Shared, true))
}

pub fn commit(w: &mut Warp, mask: u32) {
    w.copies.used = true;
    for lane in lanes_of(mask) {
        let group = std::mem::take(&mut w.copies.open[lane]);
        w.copies.committed[lane].push(group);
    }
}

/// Completes all groups but the newest `pending`; `None` also takes the open group.
pub fn wait(block: &mut Block, w: &mut Warp, pending: Option<u32>, mask: u32) -> Step {
    if !w.copies.used {
        return Ok(());
    }
    for lane in lanes_of(mask) {
        let mut groups = std::mem::take(&mut w.copies.committed[lane]);
        let keep = groups.len().min(pending.unwrap_or(0) as usize);
        let kept = groups.split_off(groups.len() - keep);
        if pending.is_none() {
            groups.push(std::mem::take(&mut w.copies.open[lane]));
        }
        for copy in groups.into_iter().flatten() {
            complete(block, w, copy, lane)?;
        }
        w.copies.committed[lane] = kept;
    }
    Ok(())
}

fn complete(block: &mut Block, w: &mut Warp, copy: Copy, lane: usize) -> Step {
    let waiting = std::mem::replace(&mut block.pc, copy.pc);
    let (read, write) = requests(copy.bytes as usize);
    let to = block.resolve(w, write, copy.to, lane)?;
    if copy.source_bytes == copy.bytes {
        let from = block.resolve(w, read, copy.from, lane)?;
        for n in (0..copy.bytes as usize).step_by(4) {
            to.store(n, 4, from.load(n, 4));
        }
    } else {
        for n in 0..copy.bytes as usize {
            let byte = Request { bytes: 1, ..read };
            let value = match n < copy.source_bytes as usize {
                true => block
                    .resolve(w, byte, copy.from.wrapping_add(n as u64), lane)?
                    .load(0, 1),
                false => 0,
            };
            to.store(n, 1, value);
        }
    }
    block.copy_completed(copy.to, copy.bytes as usize);
    block.pc = waiting;
    Ok(())
}

//! Loads and stores of one to four elements per lane.

use super::block::Block;
use super::lanes::{LANES, lanes_of};
use super::memory::{HostPtr, Request};
use super::warp::Warp;
use crate::error::Step;
use crate::ir::{Access, Space};

pub fn load(block: &mut Block, w: &mut Warp, i: &Access, mask: u32) -> Step {
    let addresses = w.addresses(i.address, i.space);
    let request = Request {
        space: i.space,
        bytes: i.bytes(),
        write: false,
    };
    block.observe(w, request, &addresses, mask)?;
    if i.constant && block.env.options.profile {
        block.profile.constant.touch(&addresses, mask);
    }
    let mut from = [HostPtr::NOWHERE; LANES];
    for lane in lanes_of(mask) {
        from[lane] = block.resolve(w, request, addresses[lane], lane)?;
    }
    let size = i.ty.bytes();
    for (n, reg) in i.regs().iter().enumerate() {
        if size == 4 && !reg.wide {
            // Words into narrow registers: nothing to extend.
            let target = w.get_mut(*reg);
            for lane in lanes_of(mask) {
                target[lane] = from[lane].load(4 * n, 4) as u32;
            }
            continue;
        }
        for lane in lanes_of(mask) {
            // Signed types fill the register with copies of the sign.
            let value = i.ty.integer(from[lane].load(size * n, size)) as u64;
            w.set_lane(*reg, lane, value);
        }
    }
    Ok(())
}

pub fn store(block: &mut Block, w: &mut Warp, i: &Access, mask: u32) -> Step {
    let addresses = w.addresses(i.address, i.space);
    let request = Request {
        space: i.space,
        bytes: i.bytes(),
        write: true,
    };
    block.observe(w, request, &addresses, mask)?;
    let size = i.ty.bytes();
    let mut values = [[0; LANES]; 4];
    for (value, reg) in values.iter_mut().zip(i.regs()) {
        *value = w.wide(*reg);
    }
    for lane in lanes_of(mask) {
        let to = block.resolve(w, request, addresses[lane], lane)?;
        for (n, value) in values[..i.count as usize].iter().enumerate() {
            to.store(size * n, size, value[lane]);
        }
    }
    Ok(())
}

impl Block<'_> {
    /// Shows an access to the race detector and the profile.
    #[inline(always)]
    pub fn observe(&mut self, warp: &Warp, request: Request, addresses: &[u64; LANES], mask: u32) -> Step {
        if mask == 0 || matches!(request.space, Space::Param | Space::Local | Space::Const) {
            return Ok(());
        }
        if self.env.options.profile {
            self.profile.access(self.pc, request, addresses, mask);
        }
        if self.races.is_none() || request.space == Space::Global {
            return Ok(());
        }
        self.watch(warp, request, addresses, mask)
    }
}

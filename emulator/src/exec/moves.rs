//! Moves between registers and address-space conversions.

use super::lanes::{LANES, mask_where};
use super::warp::Warp;
use crate::ir::{Move, Pack, Reg, Space, Unpack};

pub fn mov(i: &Move, w: &mut Warp, mask: u32) {
    if i.ty.is_wide() {
        let value = w.wide(i.a);
        return w.set_wide(i.d, mask, &value);
    }
    let value = *w.get(i.a);
    w.set(i.d, mask, &value);
}

pub fn pack(i: &Pack, w: &mut Warp, mask: u32) {
    let element_mask = u64::MAX >> (64 - i.element_bits);
    let mut value = [0; LANES];
    for (n, source) in i.s.iter().enumerate() {
        let part = w.wide(*source);
        let shift = n as u32 * i.element_bits;
        (0..LANES).for_each(|l| value[l] |= (part[l] & element_mask) << shift);
    }
    w.set_any(i.d, mask, &value);
}

pub fn unpack(i: &Unpack, w: &mut Warp, mask: u32) {
    let element_mask = u64::MAX >> (64 - i.element_bits);
    let whole = w.wide(i.s);
    for (n, target) in i.d.iter().enumerate() {
        let shift = n as u32 * i.element_bits;
        w.set_any(*target, mask, &whole.map(|v| v >> shift & element_mask));
    }
}

pub fn to_generic(space: Space, d: Reg, a: Reg, w: &mut Warp, mask: u32) {
    let value = w.wide(a).map(|v| v.wrapping_add(space.window()));
    w.set_wide(d, mask, &value);
}

pub fn from_generic(space: Space, d: Reg, a: Reg, w: &mut Warp, mask: u32) {
    let value = w.wide(a).map(|v| v.wrapping_sub(space.window()));
    w.set_wide(d, mask, &value);
}

pub fn is_space(space: Space, d: u32, a: Reg, w: &mut Warp, mask: u32) {
    let address = w.wide(a);
    let result = mask_where(|l| Space::of_generic(address[l]).0 == space);
    w.set_predicate(d, mask, result);
}

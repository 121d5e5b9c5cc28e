//! Atomic read-modify-write.

use super::block::Block;
use super::lanes::{LANES, lanes_of};
use super::memory::Request;
use super::race::Kind;
use super::warp::Warp;
use crate::error::Step;
use crate::ir::{Atomic, AtomicOp, Space, Type};
use crate::number::half;

pub fn execute(block: &mut Block, w: &mut Warp, i: &Atomic, mask: u32) -> Step {
    let addresses = w.addresses(i.address, i.space);
    let bytes = i.ty.bytes();
    let request = Request {
        space: i.space,
        bytes,
        write: true,
    };
    if block.env.options.profile && mask != 0 {
        block.profile.access(block.pc, request, &addresses, mask);
    }
    let (b, c) = (w.wide(i.b), w.wide(i.c));
    let mut old = [0; LANES];
    for lane in lanes_of(mask) {
        let address = addresses[lane];
        let at = block.resolve(w, request, address, lane)?;
        let (space, offset) = if i.space == Space::Generic {
            Space::of_generic(address)
        } else {
            (i.space, address)
        };
        if space == Space::Shared {
            block.watch_lane(w, Kind::Atomic, offset, bytes, lane)?;
        }
        old[lane] = at.update(bytes, |value| apply(i.op, i.ty, value, b[lane], c[lane]));
    }
    if let Some(d) = i.d {
        w.set_any(d, mask, &old);
    }
    Ok(())
}

/// The new value at the address.
pub fn apply(op: AtomicOp, ty: Type, old: u64, b: u64, c: u64) -> u64 {
    let (x, y) = (ty.integer(old), ty.integer(b));
    let value = match op {
        AtomicOp::Add => return add(ty, old, b),
        AtomicOp::Min => x.min(y) as u64,
        AtomicOp::Max => x.max(y) as u64,
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exch => b,
        AtomicOp::Cas => {
            if x == y {
                c
            } else {
                old
            }
        }
        AtomicOp::Inc => {
            if x >= y {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if x == 0 || x > y {
                b
            } else {
                old - 1
            }
        }
    };
    value & ty.mask()
}

fn add(ty: Type, old: u64, b: u64) -> u64 {
    let short = |x: u64, y: u64| match ty {
        Type::F16 | Type::F16x2 => {
            half::f64_to_f16(half::f16_to_f32(x as u16) as f64 + half::f16_to_f32(y as u16) as f64) as u64
        }
        // Rounding twice is harmless for sums when the wider format has 2p + 2 bits, as f32 has for bf16.
        _ => half::f32_to_bf16(half::bf16_to_f32(x as u16) + half::bf16_to_f32(y as u16)) as u64,
    };
    match ty {
        Type::F32 => (f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits() as u64,
        Type::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        Type::F16 | Type::BF16 => short(old, b),
        Type::F16x2 | Type::BF16x2 => short(old & 0xffff, b & 0xffff) | short(old >> 16, b >> 16) << 16,
        _ => old.wrapping_add(b) & ty.mask(),
    }
}

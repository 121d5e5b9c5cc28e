//! Logic, shifts and bit fields.

use super::lanes::LANES;
use super::warp::Warp;
use crate::ir::{Bits, BitsOp, Type};

pub fn execute(i: &Bits, w: &mut Warp, mask: u32) {
    let [a, b, c, n] = i.s;
    match (i.op, i.ty.bytes()) {
        (BitsOp::And, 4) => return w.map2(i.d, a, b, mask, |x, y| x & y),
        (BitsOp::Or, 4) => return w.map2(i.d, a, b, mask, |x, y| x | y),
        (BitsOp::Xor, 4) => return w.map2(i.d, a, b, mask, |x, y| x ^ y),
        (BitsOp::And, 8) => return w.map2_wide(i.d, a, b, mask, |x, y| x & y),
        (BitsOp::Or, 8) => return w.map2_wide(i.d, a, b, mask, |x, y| x | y),
        (BitsOp::Shl, 8) => return w.map2_wide(i.d, a, b, mask, |x, y| shift_left(x, y, 64)),
        (BitsOp::Shl, 4) => return w.map2(i.d, a, b, mask, |x, y| if y < 32 { x << y } else { 0 }),
        (BitsOp::Shr, 4) if !i.ty.is_signed() => {
            return w.map2(i.d, a, b, mask, |x, y| if y < 32 { x >> y } else { 0 });
        }
        (BitsOp::Bfi, _) => {
            let (x, y, p, l) = (w.wide(a), w.wide(b), w.wide(c), w.wide(n));
            let value = std::array::from_fn(|lane| insert(i.ty, x[lane], y[lane], p[lane], l[lane]));
            return w.set_any(i.d, mask, &value);
        }
        _ => {}
    }
    let (x, y, z) = (w.wide(a), w.wide(b), w.wide(c));
    let mut value = [0; LANES];
    for lane in 0..LANES {
        value[lane] = general(i, x[lane], y[lane], z[lane]);
    }
    w.set_any(i.d, mask, &value);
}

#[inline(always)]
fn shift_left(x: u64, amount: u64, bits: u64) -> u64 {
    let amount = amount & 0xffff_ffff;
    if amount < bits { x << amount } else { 0 }
}

fn general(i: &Bits, a: u64, b: u64, c: u64) -> u64 {
    let (ty, bits) = (i.ty, i.ty.bits());
    let x = a & ty.mask();
    let amount = b & 0xffff_ffff;
    let value = match i.op {
        BitsOp::And => a & b,
        BitsOp::Or => a | b,
        BitsOp::Xor => a ^ b,
        BitsOp::Not => !a,
        BitsOp::Cnot => (x == 0) as u64,
        BitsOp::Shl => shift_left(a, b, bits as u64),
        // Arithmetic shifts of the type's width or more leave only the sign.
        BitsOp::Shr => (ty.integer(a) >> amount.min(bits as u64)) as u64,
        BitsOp::Popc => return x.count_ones() as u64,
        BitsOp::Clz => return (x.leading_zeros() - (64 - bits)) as u64,
        BitsOp::Brev => x.reverse_bits() >> (64 - bits),
        BitsOp::Bfind { shift_amount } => return find_leading(ty, a, shift_amount),
        BitsOp::Bfe => extract(ty, a, b & 0xff, c & 0xff),
        BitsOp::Prmt => permute(a, b, c),
        BitsOp::FunnelLeft { wrap } => (a & 0xffff_ffff | b << 32) << funnel_amount(c, wrap) >> 32,
        BitsOp::FunnelRight { wrap } => (a & 0xffff_ffff | b << 32) >> funnel_amount(c, wrap),
        BitsOp::Lop3 { table } => look_up(table, a, b, c),
        BitsOp::Bfi => unreachable!("has four sources and its own path"),
    };
    value & ty.mask()
}

fn funnel_amount(c: u64, wrap: bool) -> u64 {
    if wrap { c & 31 } else { (c & 0xffff_ffff).min(32) }
}

/// Position of the most significant bit that differs from the sign, or all ones.
fn find_leading(ty: Type, a: u64, shift_amount: bool) -> u64 {
    let value = ty.integer(a);
    let magnitude = if value < 0 { !value } else { value } as u64;
    if magnitude == 0 {
        return 0xffff_ffff;
    }
    let position = 63 - magnitude.leading_zeros();
    (if shift_amount {
        ty.bits() - 1 - position
    } else {
        position
    }) as u64
}

/// `bfe`: bits beyond the top are copies of the sign bit of the field (or of the value).
fn extract(ty: Type, a: u64, position: u64, length: u64) -> u64 {
    if length == 0 {
        return 0;
    }
    let top = ty.bits() as u64 - 1;
    let negative = ty.is_signed() && a >> (position + length - 1).min(top) & 1 == 1;
    (0..=top).fold(0, |field, k| {
        let bit = if k < length && position + k <= top {
            a >> (position + k) & 1
        } else {
            negative as u64
        };
        field | bit << k
    })
}

fn insert(ty: Type, a: u64, b: u64, position: u64, length: u64) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let bits = ty.bits() as u64;
    if position >= bits || length == 0 {
        return b & ty.mask();
    }
    let field = (u64::MAX >> (64 - length.min(64))) << position;
    (b & !field | a << position & field) & ty.mask()
}

/// `prmt`: each nibble of `selector` picks a byte of `b:a`, or its sign replicated.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (a & 0xffff_ffff) | b << 32;
    (0..4).fold(0, |result, n| {
        let nibble = selector >> (4 * n) & 15;
        let byte = bytes >> (8 * (nibble & 7)) & 0xff;
        let byte = if nibble & 8 == 0 { byte } else { (byte >> 7) * 0xff };
        result | byte << (8 * n)
    })
}

/// `lop3`: bit `4a + 2b + c` of the table is the result for those input bits.
fn look_up(table: u8, a: u64, b: u64, c: u64) -> u64 {
    let pick = |set: bool, v: u64| if set { v } else { !v };
    (0..8u32).filter(|k| table >> k & 1 == 1).fold(0, |result, k| {
        result | pick(k & 4 != 0, a) & pick(k & 2 != 0, b) & pick(k & 1 != 0, c)
    })
}

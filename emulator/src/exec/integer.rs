//! Integer arithmetic.
//!
//! The operations that compilers emit all the time have vector loops; the rest goes through one
//! definition in 128-bit integers, which covers every type, carry and saturation.

use super::lanes::LANES;
use super::warp::Warp;
use crate::ir::{Integer, IntegerOp, Type};

pub fn execute(i: &Integer, warp: &mut Warp, mask: u32) {
    if !(i.carry_in || i.carry_out || i.saturate) && fast(i, warp, mask) {
        return;
    }
    let (a, b, c) = (warp.wide(i.a), warp.wide(i.b), warp.wide(i.c));
    let mut carry = warp.carry;
    let mut value = [0; LANES];
    for lane in 0..LANES {
        let carry_in = i.carry_in && warp.carry >> lane & 1 != 0;
        let (result, carry_out) = general(i, a[lane], b[lane], c[lane], carry_in);
        value[lane] = result;
        if i.carry_out && mask >> lane & 1 != 0 {
            carry = carry & !(1 << lane) | (carry_out as u32) << lane;
        }
    }
    warp.carry = carry;
    warp.set_any(i.d, mask, &value);
}

/// Whether one of the vector loops applied.
#[inline(always)]
fn fast(i: &Integer, w: &mut Warp, mask: u32) -> bool {
    use IntegerOp::*;
    let s = [i.a, i.b, i.c];
    match (i.op, i.ty) {
        (Add, Type::U32 | Type::S32 | Type::B32) => w.map2(i.d, i.a, i.b, mask, u32::wrapping_add),
        (Sub, Type::U32 | Type::S32 | Type::B32) => w.map2(i.d, i.a, i.b, mask, u32::wrapping_sub),
        (MulLo, Type::U32 | Type::S32) => w.map2(i.d, i.a, i.b, mask, u32::wrapping_mul),
        (MadLo, Type::U32 | Type::S32) => w.map3(i.d, s, mask, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        (Min, Type::S32) => w.map2(i.d, i.a, i.b, mask, |a, b| (a as i32).min(b as i32) as u32),
        (Max, Type::S32) => w.map2(i.d, i.a, i.b, mask, |a, b| (a as i32).max(b as i32) as u32),
        (Min, Type::U32) => w.map2(i.d, i.a, i.b, mask, u32::min),
        (Max, Type::U32) => w.map2(i.d, i.a, i.b, mask, u32::max),
        (MulHi, Type::U32) => w.map2(i.d, i.a, i.b, mask, |a, b| ((a as u64 * b as u64) >> 32) as u32),
        (Add, Type::U64 | Type::S64 | Type::B64) => w.map2_wide(i.d, i.a, i.b, mask, u64::wrapping_add),
        (Sub, Type::U64 | Type::S64 | Type::B64) => w.map2_wide(i.d, i.a, i.b, mask, u64::wrapping_sub),
        (MulLo, Type::U64 | Type::S64) => w.map2_wide(i.d, i.a, i.b, mask, u64::wrapping_mul),
        (MadLo, Type::U64 | Type::S64) => w.map3_any(i.d, s, mask, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        (MulWide, Type::U32) => w.map2_wide(i.d, i.a, i.b, mask, |a, b| {
            (a as u32 as u64).wrapping_mul(b as u32 as u64)
        }),
        (MulWide, Type::S32) => w.map2_wide(i.d, i.a, i.b, mask, |a, b| {
            (a as i32 as i64).wrapping_mul(b as i32 as i64) as u64
        }),
        (MadWide, Type::U32) => w.map3_any(i.d, s, mask, |a, b, c| {
            (a as u32 as u64 * b as u32 as u64).wrapping_add(c)
        }),
        (MadWide, Type::S32) => w.map3_any(i.d, s, mask, |a, b, c| {
            ((a as i32 as i64 * b as i32 as i64) as u64).wrapping_add(c)
        }),
        _ => return false,
    }
    true
}

/// The result, cut to its width, and the carry (for subtraction: borrow) out of it.
fn general(i: &Integer, a: u64, b: u64, c: u64, carry_in: bool) -> (u64, bool) {
    use IntegerOp::*;
    let ty = i.ty;
    let (x, y, z) = (ty.integer(a), ty.integer(b), ty.integer(c));
    let carry = carry_in as i128;
    let unsigned_sum = |p: u64, q: u64| {
        let sum = (p & ty.mask()) as u128 + (q & ty.mask()) as u128 + carry as u128;
        (sum as u64 & ty.mask(), sum >> ty.bits() != 0)
    };
    let value = match i.op {
        Add if i.saturate => (x + y).clamp(i32::MIN as i128, i32::MAX as i128),
        Sub if i.saturate => (x - y).clamp(i32::MIN as i128, i32::MAX as i128),
        Add => return unsigned_sum(a, b),
        Sub => {
            let (p, q) = ((a & ty.mask()) as i128, (b & ty.mask()) as i128);
            return ((p - q - carry) as u64 & ty.mask(), p < q + carry);
        }
        MulLo => x.wrapping_mul(y),
        MulHi => high_product(ty, x, y),
        MulWide => return ((x * y) as u64 & wide_mask(ty), false),
        MadWide => return (((x * y) as u64).wrapping_add(c) & wide_mask(ty), false),
        MadLo => return unsigned_sum(x.wrapping_mul(y) as u64, c),
        MadHi => return unsigned_sum(high_product(ty, x, y) as u64, c),
        Mul24 => {
            let shift = |v: u64| {
                if ty.is_signed() {
                    ((v as i32) << 8 >> 8) as i128
                } else {
                    (v & 0xff_ffff) as i128
                }
            };
            shift(a) * shift(b)
        }
        // The hardware does not trap: x / 0 has all bits set, x % 0 is x.
        Div if y == 0 => -1,
        Rem if y == 0 => x,
        Div => x / y,
        Rem => x % y,
        Abs => x.abs(),
        Neg => -x,
        Min => x.min(y),
        Max => x.max(y),
        Sad => (x - y).abs() + z,
        Dp4a { a_signed, b_signed } => z + dot_product(a, a_signed, b, b_signed),
    };
    (value as u64 & ty.mask(), false)
}

fn wide_mask(ty: Type) -> u64 {
    u64::MAX >> (64 - 2 * ty.bits())
}

fn high_product(ty: Type, x: i128, y: i128) -> i128 {
    if ty == Type::U64 {
        ((x as u128 * y as u128) >> 64) as i128
    } else {
        (x * y) >> ty.bits()
    }
}

fn dot_product(a: u64, a_signed: bool, b: u64, b_signed: bool) -> i128 {
    let byte = |v: u64, n: u32, signed: bool| {
        let byte = (v >> (8 * n)) as u8;
        if signed { byte as i8 as i128 } else { byte as i128 }
    };
    (0..4).map(|n| byte(a, n, a_signed) * byte(b, n, b_signed)).sum()
}

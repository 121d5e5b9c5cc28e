//! `cvt` between all integer and floating-point types.

use super::float::flush_f32;
use super::warp::Warp;
use crate::ir::{Convert, Type};
use crate::number::exact::{self, Number};
use crate::number::{self, Rounding, half};

pub fn execute(i: &Convert, w: &mut Warp, mask: u32) {
    if let Some(low) = i.b {
        let (a, b) = (*w.get(i.a), *w.get(low));
        let part = |bits: u32| float_to_float(i, bits as u64) as u32 & 0xffff;
        return w.set(i.d, mask, &std::array::from_fn(|l| part(a[l]) << 16 | part(b[l])));
    }
    let a = w.wide(i.a);
    let value = match (i.from, i.to) {
        // Address arithmetic converts all the time.
        (Type::U32, Type::U64) | (Type::U64, Type::U32) if !i.saturate => a.map(|v| v & 0xffff_ffff),
        (Type::S32, Type::S64) => a.map(|v| v as i32 as i64 as u64),
        (from, to) if from.is_float() && to.is_float() => a.map(|v| float_to_float(i, v)),
        (from, _) if from.is_float() => a.map(|v| float_to_integer(i, v)),
        (_, to) if to.is_float() => a.map(|v| integer_to_float(i, v)),
        _ => a.map(|v| integer_to_integer(i, v)),
    };
    w.set_any(i.d, mask, &value);
}

/// The result fills the whole register: signed types are sign-extended into it.
fn integer_to_integer(i: &Convert, v: u64) -> u64 {
    let value = i.from.integer(v);
    if !i.saturate {
        return i.to.integer(value as u64) as u64;
    }
    let bits = i.to.bits();
    let (least, most) = if i.to.is_signed() {
        (-(1i128 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    value.clamp(least, most) as u64
}

fn integer_to_float(i: &Convert, v: u64) -> u64 {
    let value = i.from.integer(v);
    if i.rounding.mode == Rounding::Nearest && !i.saturate {
        match i.to {
            Type::F32 => return (value as f32).to_bits() as u64,
            Type::F64 => return (value as f64).to_bits(),
            _ => {}
        }
    }
    finish(i, exact::from_integer(value))
}

/// A floating-point source as f64, which holds every source format exactly.
fn source(i: &Convert, v: u64) -> f64 {
    match i.from {
        Type::F32 => flush_f32(f32::from_bits(v as u32), i.flush) as f64,
        Type::F64 => f64::from_bits(v),
        Type::F16 => half::f16_to_f32(v as u16) as f64,
        _ => half::bf16_to_f32(v as u16) as f64,
    }
}

fn to_integral(x: f64, mode: Rounding) -> f64 {
    match mode {
        Rounding::Nearest | Rounding::NearestAway => x.round_ties_even(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

/// Out of range goes to the nearest end of the range, NaN to 0: what `as` does.
fn float_to_integer(i: &Convert, v: u64) -> u64 {
    let x = to_integral(source(i, v), i.rounding.mode);
    match i.to {
        Type::U8 => x as u8 as u64,
        Type::U16 => x as u16 as u64,
        Type::U32 => x as u32 as u64,
        Type::U64 => x as u64,
        Type::S8 => x as i8 as i64 as u64,
        Type::S16 => x as i16 as i64 as u64,
        Type::S32 => x as i32 as i64 as u64,
        _ => x as i64 as u64,
    }
}

fn float_to_float(i: &Convert, v: u64) -> u64 {
    let mut x = source(i, v);
    if i.rounding.to_integer {
        x = to_integral(x, i.rounding.mode);
    }
    if i.relu && x < 0.0 {
        x = 0.0;
    }
    if i.rounding.mode == Rounding::Nearest && !i.saturate && !i.flush {
        match i.to {
            Type::F64 => return x.to_bits(),
            Type::F32 => return (x as f32).to_bits() as u64,
            Type::F16 | Type::F16x2 => return half::f64_to_f16(x) as u64,
            Type::BF16 | Type::BF16x2 if i.from != Type::F64 => return half::f32_to_bf16(x as f32) as u64,
            _ => {}
        }
    }
    finish(i, exact::decode(x.to_bits(), number::F64))
}

/// Rounds into the target format and applies the modifiers of the result.
fn finish(i: &Convert, number: Number) -> u64 {
    let format = i.to.format().expect("the target of this conversion is a float type");
    let mode = if i.rounding.to_integer {
        Rounding::Nearest
    } else {
        i.rounding.mode
    };
    let number = if i.saturate { saturate(number) } else { number };
    let bits = exact::encode(number, format, mode);
    match i.to {
        Type::F32 => flush_f32(f32::from_bits(bits as u32), i.flush).to_bits() as u64,
        Type::TF32 => bits << 13, // the format of f32 without its low 13 bits
        _ => bits,
    }
}

/// Into [0, 1], with NaN to +0.
fn saturate(number: Number) -> Number {
    let one = exact::from_integer(1);
    match number {
        Number::Nan => Number::Zero { negative: false },
        Number::Infinity { negative: false } => one,
        Number::Infinity { negative: true } | Number::Finite { negative: true, .. } | Number::Zero { .. } => {
            Number::Zero { negative: false }
        }
        Number::Finite { .. } => {
            let x = f64::from_bits(exact::encode(number, number::F64, Rounding::Zero));
            if x >= 1.0 { one } else { number }
        }
    }
}

//! Floating-point arithmetic.

use super::lanes::{fma_f32, fma_f64};
use super::warp::Warp;
use crate::ir::{Float, FloatOp, Type};
use crate::number::exact::{self, Number};
use crate::number::{Format, Rounding, half};

pub fn execute(i: &Float, w: &mut Warp, mask: u32) {
    let plain = i.rounding == Rounding::Nearest && !(i.flush || i.saturate || i.relu);
    if plain && fast(i, w, mask) {
        return;
    }
    w.map3_any(i.d, [i.a, i.b, i.c], mask, |a, b, c| match i.ty {
        Type::F32 => single(i, a as u32, b as u32, c as u32) as u64,
        Type::F64 => double(i, a, b, c),
        Type::F16x2 | Type::BF16x2 => {
            let low = short(i, a as u16, b as u16, c as u16) as u64;
            let high = short(i, (a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16) as u64;
            low | high << 16
        }
        _ => short(i, a as u16, b as u16, c as u16) as u64,
    });
}

/// Rounding to nearest without modifiers, which is what the host does. Whether it applied.
#[inline(always)]
fn fast(i: &Float, w: &mut Warp, mask: u32) -> bool {
    use FloatOp::*;
    let f = f32::from_bits;
    let g = f64::from_bits;
    match (i.op, i.ty) {
        (Fma, Type::F32) => {
            let value = fma_f32(w.get(i.a), w.get(i.b), w.get(i.c));
            w.set(i.d, mask, &value);
        }
        (Add, Type::F32) => w.map2(i.d, i.a, i.b, mask, |a, b| (f(a) + f(b)).to_bits()),
        (Sub, Type::F32) => w.map2(i.d, i.a, i.b, mask, |a, b| (f(a) - f(b)).to_bits()),
        (Mul, Type::F32) => w.map2(i.d, i.a, i.b, mask, |a, b| (f(a) * f(b)).to_bits()),
        (Fma, Type::F64) => {
            let value = fma_f64(w.get_wide(i.a), w.get_wide(i.b), w.get_wide(i.c));
            w.set_wide(i.d, mask, &value);
        }
        (Add, Type::F64) => w.map2_wide(i.d, i.a, i.b, mask, |a, b| (g(a) + g(b)).to_bits()),
        (Sub, Type::F64) => w.map2_wide(i.d, i.a, i.b, mask, |a, b| (g(a) - g(b)).to_bits()),
        (Mul, Type::F64) => w.map2_wide(i.d, i.a, i.b, mask, |a, b| (g(a) * g(b)).to_bits()),
        _ => return false,
    }
    true
}

/// Whether the result is defined by exact arithmetic and one rounding.
fn is_rounded(op: FloatOp) -> bool {
    use FloatOp::*;
    matches!(op, Add | Sub | Mul | Fma | Div | Rcp | Sqrt)
}

/// The exact result of an arithmetic operation, rounded as the instruction says.
fn rounded(i: &Float, format: Format, a: u64, b: u64, c: u64) -> u64 {
    use FloatOp::*;
    let number = |bits| exact::decode(bits, format);
    let (x, y, z) = (number(a), number(b), number(c));
    let result = match i.op {
        Add => exact::add(x, y, i.rounding),
        Sub => exact::add(x, exact::negate(y), i.rounding),
        Mul => exact::multiply(x, y),
        Fma => exact::multiply_add(x, y, z, i.rounding),
        Div => exact::divide(x, y),
        Rcp => exact::divide(exact::from_integer(1), x),
        Sqrt => exact::square_root(x),
        _ => Number::Nan,
    };
    exact::encode(result, format, i.rounding)
}

pub fn flush_f32(x: f32, flush: bool) -> f32 {
    if flush && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn single(i: &Float, a: u32, b: u32, c: u32) -> u32 {
    let input = |bits| flush_f32(f32::from_bits(bits), i.flush);
    let (x, y, z) = (input(a), input(b), input(c));
    let result = if is_rounded(i.op) && i.rounding != Rounding::Nearest {
        f32::from_bits(rounded(
            i,
            crate::number::F32,
            x.to_bits() as u64,
            y.to_bits() as u64,
            z.to_bits() as u64,
        ) as u32)
    } else {
        nearest_single(i.op, x, y, z)
    };
    let result = flush_f32(result, i.flush);
    if i.saturate {
        return if result.is_nan() {
            0
        } else {
            (result.clamp(0.0, 1.0) + 0.0).to_bits() // the sum turns -0 into +0
        };
    }
    if i.relu && result < 0.0 { 0 } else { result.to_bits() }
}

fn nearest_single(op: FloatOp, x: f32, y: f32, z: f32) -> f32 {
    use FloatOp::*;
    // Approximations are the true value, computed in f64 and rounded: at most as far off as the hardware's.
    let wide = x as f64;
    match op {
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Fma => x.mul_add(y, z),
        Div => x / y,
        Rcp => 1.0 / x,
        Sqrt => x.sqrt(),
        Min { nan } => minimum(x, y, nan),
        Max { nan } => -minimum(-x, -y, nan),
        Abs => x.abs(),
        Neg => -x,
        CopySign => y.copysign(x),
        Ex2 => wide.exp2() as f32,
        Lg2 => wide.log2() as f32,
        Sin => wide.sin() as f32,
        Cos => wide.cos() as f32,
        Tanh => wide.tanh() as f32,
        Rsqrt => (1.0 / wide.sqrt()) as f32,
    }
}

/// PTX `min`: a number wins over a NaN unless `.NaN` is given, and -0 is less than +0.
fn minimum(x: f32, y: f32, nan: bool) -> f32 {
    if x.is_nan() || y.is_nan() {
        let both = x.is_nan() && y.is_nan();
        return if nan || both {
            f32::from_bits(0x7fff_ffff)
        } else if x.is_nan() {
            y
        } else {
            x
        };
    }
    if x < y || (x == y && x.is_sign_negative()) {
        x
    } else {
        y
    }
}

fn double(i: &Float, a: u64, b: u64, c: u64) -> u64 {
    use FloatOp::*;
    if is_rounded(i.op) && i.rounding != Rounding::Nearest {
        return rounded(i, crate::number::F64, a, b, c);
    }
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    let result = match i.op {
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Fma => x.mul_add(y, f64::from_bits(c)),
        Div => x / y,
        Rcp => 1.0 / x,
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Min { .. } | Max { .. } if x.is_nan() => y,
        Min { .. } | Max { .. } if y.is_nan() => x,
        Min { .. } if x < y || (x == y && x.is_sign_negative()) => x,
        Max { .. } if x > y || (x == y && x.is_sign_positive()) => x,
        Min { .. } | Max { .. } => y,
        Abs => x.abs(),
        Neg => -x,
        CopySign => y.copysign(x),
        Ex2 | Lg2 | Sin | Cos | Tanh => f64::NAN, // rejected at load
    };
    result.to_bits()
}

/// f16 and bf16. Every product of two halves is exact in f64, and so is any sum that matters for
/// rounding to f16; bf16 has the exponent range of f32 and goes through exact arithmetic.
fn short(i: &Float, a: u16, b: u16, c: u16) -> u16 {
    use FloatOp::*;
    let bf16 = matches!(i.ty, Type::BF16 | Type::BF16x2);
    let widen = |bits| {
        if bf16 {
            half::bf16_to_f32(bits)
        } else {
            half::f16_to_f32(bits)
        }
    };
    let narrow = |x: f32| {
        if bf16 {
            half::f32_to_bf16(x)
        } else {
            half::f32_to_f16(x)
        }
    };
    let (x, y, z) = (widen(a), widen(b), widen(c));
    let result = match i.op {
        Abs => return a & 0x7fff,
        Neg => return a ^ 0x8000,
        Add | Sub | Mul | Fma if bf16 => rounded(i, crate::number::BF16, a as u64, b as u64, c as u64) as u16,
        Add => half::f64_to_f16(x as f64 + y as f64),
        Sub => half::f64_to_f16(x as f64 - y as f64),
        Mul => half::f64_to_f16(x as f64 * y as f64),
        Fma => half::f64_to_f16((x as f64).mul_add(y as f64, z as f64)),
        _ => narrow(nearest_single(i.op, x, y, z)),
    };
    let value = widen(result);
    if i.saturate {
        return if value.is_nan() {
            0
        } else {
            narrow(value.clamp(0.0, 1.0) + 0.0)
        };
    }
    if i.relu && value < 0.0 { 0 } else { result }
}

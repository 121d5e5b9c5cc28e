//! Integer and floating-point arithmetic.

use super::Mnemonic;
use crate::ir::{Float, FloatOp, Integer, IntegerOp, Op, Type};
use crate::number::Rounding;
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if m.base == "dp4a" {
        return dot_product(m, args);
    }
    // Suffixes that stand before the type are taken first: `.hi` and `.lo` are no types.
    let half = m.choose(&[("lo", 0), ("hi", 1), ("wide", 2)]);
    let rounding = m.rounding();
    let ty = m.ty()?;
    match (ty.is_float(), half, rounding) {
        (true, None, _) => float(m, args, ty, rounding),
        (false, _, None) => integer(m, args, ty, half),
        _ => fail("suffixes of integers and of floats are mixed"),
    }
}

fn integer(m: &mut Mnemonic, args: &mut Args, ty: Type, half: Option<u32>) -> Result<Op> {
    use IntegerOp::*;
    let (op, sources) = match (m.base, half) {
        ("add" | "addc", None) => (Add, 2),
        ("sub" | "subc", None) => (Sub, 2),
        ("mul", Some(0)) => (MulLo, 2),
        ("mul", Some(1)) => (MulHi, 2),
        ("mul", Some(2)) => (MulWide, 2),
        ("mul24", Some(0)) => (Mul24, 2),
        ("mad" | "madc", Some(0)) => (MadLo, 3),
        ("mad" | "madc", Some(1)) => (MadHi, 3),
        ("mad", Some(2)) => (MadWide, 3),
        ("div", None) => (Div, 2),
        ("rem", None) => (Rem, 2),
        ("abs", None) if ty.is_signed() => (Abs, 1),
        ("neg", None) if ty.is_signed() => (Neg, 1),
        ("min", None) => (Min, 2),
        ("max", None) => (Max, 2),
        ("sad", None) => (Sad, 3),
        _ => return fail("unknown integer instruction"),
    };
    if ty.bytes() < 2 || (ty.is_bits() && !matches!(op, Add | Sub)) {
        return fail(format!("type .{} is not allowed", ty.name()));
    }
    let wide = matches!(op, MulWide | MadWide);
    if wide && ty.is_wide() {
        return fail("the product of 64-bit factors does not fit");
    }
    let product = match (wide, ty.bits()) {
        (true, 32) => Type::U64,
        (true, _) => Type::U32,
        _ => ty,
    };
    let d = args.target(product)?;
    let a = args.source(ty)?;
    let b = if sources > 1 { args.source(ty)? } else { a };
    let c = if sources > 2 { args.source(product)? } else { a };
    let carry_in = matches!(m.base, "addc" | "subc" | "madc");
    let (carry_out, saturate) = (m.flag("cc"), m.flag("sat"));
    if saturate && !(ty == Type::S32 && matches!(op, Add | Sub)) {
        return fail(".sat is only for .s32 sums here");
    }
    Ok(Op::Integer(Integer {
        op,
        ty,
        d,
        a,
        b,
        c,
        carry_in,
        carry_out,
        saturate,
    }))
}

fn dot_product(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let (ta, tb) = (m.ty()?, m.ty()?);
    if ta.bits() != 32 || tb.bits() != 32 {
        return fail("dp4a takes .u32 or .s32");
    }
    let op = IntegerOp::Dp4a {
        a_signed: ta.is_signed(),
        b_signed: tb.is_signed(),
    };
    let (d, a, b, c) = (args.target(ta)?, args.source(ta)?, args.source(tb)?, args.source(ta)?);
    Ok(Op::Integer(Integer {
        op,
        ty: ta,
        d,
        a,
        b,
        c,
        carry_in: false,
        carry_out: false,
        saturate: false,
    }))
}

fn float(m: &mut Mnemonic, args: &mut Args, ty: Type, rounding: Option<Rounding>) -> Result<Op> {
    use FloatOp::*;
    let nan = m.flag("NaN");
    let (op, sources) = match m.base {
        "add" => (Add, 2),
        "sub" => (Sub, 2),
        "mul" => (Mul, 2),
        "fma" | "mad" => (Fma, 3),
        "div" => (Div, 2),
        "min" => (Min { nan }, 2),
        "max" => (Max { nan }, 2),
        "copysign" => (CopySign, 2),
        "abs" => (Abs, 1),
        "neg" => (Neg, 1),
        "rcp" => (Rcp, 1),
        "sqrt" => (Sqrt, 1),
        "rsqrt" => (Rsqrt, 1),
        "ex2" => (Ex2, 1),
        "lg2" => (Lg2, 1),
        "sin" => (Sin, 1),
        "cos" => (Cos, 1),
        "tanh" => (Tanh, 1),
        _ => return fail("not a floating-point instruction"),
    };
    if nan && !matches!(op, Min { .. } | Max { .. }) {
        return fail(".NaN belongs to min and max");
    }
    approximation(m, op, ty, rounding)?;
    let d = args.target(ty)?;
    let a = args.source(ty)?;
    let b = if sources > 1 { args.source(ty)? } else { a };
    let c = if sources > 2 { args.source(ty)? } else { a };
    let rounding = rounding.unwrap_or(Rounding::Nearest);
    let (flush, saturate, relu) = (m.flag("ftz"), m.flag("sat"), m.flag("relu"));
    if flush && ty == Type::F64 && op != Rcp && op != Rsqrt {
        return fail(".ftz is not for .f64");
    }
    Ok(Op::Float(Float {
        op,
        ty,
        rounding,
        flush,
        saturate,
        relu,
        d,
        a,
        b,
        c,
    }))
}

/// Which combinations of rounding, `.approx` and type PTX has.
fn approximation(m: &mut Mnemonic, op: FloatOp, ty: Type, rounding: Option<Rounding>) -> Result<()> {
    use FloatOp::*;
    let approximate = m.flag("approx") | (op == Div && m.flag("full"));
    let only_approximate = matches!(op, Ex2 | Lg2 | Sin | Cos | Tanh | Rsqrt);
    if approximate && !(only_approximate || matches!(op, Div | Rcp | Sqrt)) {
        return fail(".approx does not exist for this instruction");
    }
    if only_approximate && !approximate {
        return fail(".approx is missing");
    }
    if approximate && rounding.is_some() {
        return fail("an approximation has no rounding mode");
    }
    let rounds = matches!(op, Add | Sub | Mul | Fma | Div | Rcp | Sqrt);
    if rounding.is_some() && !rounds || rounding == Some(Rounding::NearestAway) {
        return fail("this instruction has no such rounding mode");
    }
    let short = ty.bytes() == 2 || ty.is_packed();
    let allowed = match op {
        Add | Sub | Mul | Fma => ty != Type::TF32 && (!short || matches!(rounding, None | Some(Rounding::Nearest))),
        Min { .. } | Max { .. } | Abs | Neg => ty != Type::TF32,
        Ex2 | Tanh => ty == Type::F32 || short,
        Lg2 | Sin | Cos => ty == Type::F32,
        Div | Rcp | Sqrt | Rsqrt | CopySign => matches!(ty, Type::F32 | Type::F64),
    };
    if !allowed {
        return fail(format!("type .{} is not allowed", ty.name()));
    }
    Ok(())
}

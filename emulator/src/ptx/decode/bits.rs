//! Logic, shifts and bit fields.

use super::{Mnemonic, compare};
use crate::ir::{Bits, BitsOp, Op, Reg, Type};
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    use BitsOp::*;
    match m.base {
        "shf" => return funnel_shift(m, args),
        "prmt" => return permute(m, args),
        "lop3" => return three_input_logic(m, args),
        _ => {}
    }
    let shift_amount = m.flag("shiftamt");
    let ty = m.ty()?;
    if ty == Type::Pred {
        return compare::logic(m.base, args);
    }
    if ty.is_float() || ty.bytes() < 2 || ty.bytes() > 8 || (shift_amount && m.base != "bfind") {
        return fail(format!("type .{} is not allowed", ty.name()));
    }
    let u32s = [Type::U32; 3];
    let (op, result, sources) = match m.base {
        "and" => (And, ty, vec![ty, ty]),
        "or" => (Or, ty, vec![ty, ty]),
        "xor" => (Xor, ty, vec![ty, ty]),
        "not" => (Not, ty, vec![ty]),
        "cnot" => (Cnot, ty, vec![ty]),
        "shl" => (Shl, ty, vec![ty, Type::U32]),
        "shr" => (Shr, ty, vec![ty, Type::U32]),
        "popc" => (Popc, Type::U32, vec![ty]),
        "clz" => (Clz, Type::U32, vec![ty]),
        "brev" => (Brev, ty, vec![ty]),
        "bfind" => (Bfind { shift_amount }, Type::U32, vec![ty]),
        "bfe" => (Bfe, ty, vec![ty, u32s[0], u32s[1]]),
        "bfi" => (Bfi, ty, vec![ty, ty, u32s[0], u32s[1]]),
        _ => return fail("unknown instruction"),
    };
    operation(args, op, ty, result, &sources)
}

fn operation(args: &mut Args, op: BitsOp, ty: Type, result: Type, sources: &[Type]) -> Result<Op> {
    let d = args.target(result)?;
    let mut s = [Reg { plane: 0, wide: true }; 4];
    for (slot, ty) in s.iter_mut().zip(sources) {
        *slot = args.source(*ty)?;
    }
    Ok(Op::Bits(Bits { op, ty, d, s }))
}

fn funnel_shift(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let Some(left) = m.choose(&[("l", true), ("r", false)]) else {
        return fail("direction is missing");
    };
    let Some(wrap) = m.choose(&[("wrap", true), ("clamp", false)]) else {
        return fail("mode is missing");
    };
    if m.ty()? != Type::B32 {
        return fail("shf takes .b32");
    }
    let op = if left {
        BitsOp::FunnelLeft { wrap }
    } else {
        BitsOp::FunnelRight { wrap }
    };
    operation(args, op, Type::B32, Type::B32, &[Type::B32; 3])
}

fn permute(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if m.ty()? != Type::B32 {
        return fail("prmt takes .b32");
    }
    operation(args, BitsOp::Prmt, Type::B32, Type::B32, &[Type::B32; 3])
}

fn three_input_logic(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if m.ty()? != Type::B32 {
        return fail("lop3 takes .b32");
    }
    let Op::Bits(mut bits) = operation(args, BitsOp::Lop3 { table: 0 }, Type::B32, Type::B32, &[Type::B32; 3])? else {
        unreachable!("operation builds Op::Bits")
    };
    bits.op = BitsOp::Lop3 {
        table: args.immediate()? as u8,
    };
    Ok(Op::Bits(bits))
}

//! Loads, stores, atomics and asynchronous copies.

use super::Mnemonic;
use super::convert::space;
use crate::ir::{Access, Atomic, AtomicOp, CopyAsync, Op, Reg, Space, Type};
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    match m.base {
        "ld" | "ldu" => load(m, args),
        "st" => store(m, args),
        "cp" => copy_async(m, args),
        _ => atomic(m, args),
    }
}

/// Suffixes without effect: memory here is sequentially consistent.
fn ignore_ordering(m: &mut Mnemonic) {
    m.ignore(&[
        "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster",
    ]);
    m.ignore_cache_hints();
}

fn lanes(m: &mut Mnemonic) -> usize {
    m.choose(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
}

fn check_access(ty: Type, count: usize) -> Result<()> {
    if matches!(ty, Type::Pred | Type::B128 | Type::TF32) || ty.bytes() * count > 16 {
        return fail("an access has at most 16 bytes per lane");
    }
    Ok(())
}

fn load(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let constant = m.flag("nc");
    ignore_ordering(m);
    let space = space(m).unwrap_or(Space::Generic);
    let count = lanes(m);
    let ty = m.ty()?;
    check_access(ty, count)?;
    let targets = args.vector()?;
    if targets.len() != count {
        return fail("the number of destinations does not fit the vector");
    }
    let mut regs = [Reg { plane: 0, wide: true }; 4];
    for (reg, target) in regs.iter_mut().zip(&targets) {
        *reg = args.wider_target_of(target, ty)?;
    }
    let (address, space) = args.address(space)?;
    Ok(Op::Load(Access {
        space,
        ty,
        address,
        regs,
        count: count as u8,
        constant,
    }))
}

fn store(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    ignore_ordering(m);
    let space = space(m).unwrap_or(Space::Generic);
    let count = lanes(m);
    let ty = m.ty()?;
    check_access(ty, count)?;
    let (address, space) = args.address(space)?;
    if matches!(space, Space::Param | Space::Const) {
        return fail("this space cannot be written");
    }
    let sources = args.vector()?;
    if sources.len() != count {
        return fail("the number of sources does not fit the vector");
    }
    let mut regs = [Reg { plane: 0, wide: true }; 4];
    for (reg, source) in regs.iter_mut().zip(&sources) {
        *reg = args.wider_source_of(source, ty)?;
    }
    Ok(Op::Store(Access {
        space,
        ty,
        address,
        regs,
        count: count as u8,
        constant: false,
    }))
}

fn atomic(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    ignore_ordering(m);
    m.ignore(&["noftz"]);
    let space = space(m).unwrap_or(Space::Generic);
    let op = m.choose(&[
        ("add", AtomicOp::Add),
        ("min", AtomicOp::Min),
        ("max", AtomicOp::Max),
        ("and", AtomicOp::And),
        ("or", AtomicOp::Or),
        ("xor", AtomicOp::Xor),
        ("exch", AtomicOp::Exch),
        ("cas", AtomicOp::Cas),
        ("inc", AtomicOp::Inc),
        ("dec", AtomicOp::Dec),
    ]);
    let Some(op) = op else {
        return fail("the operation is missing");
    };
    let ty = m.ty()?;
    let allowed = match op {
        AtomicOp::Add => ty.bytes() >= 4 || ty.is_float(),
        AtomicOp::Inc | AtomicOp::Dec => ty == Type::U32,
        AtomicOp::Cas => !ty.is_float() && ty.bytes() >= 2,
        _ => !ty.is_float() && ty.bytes() >= 4,
    };
    if !allowed || !matches!(space, Space::Generic | Space::Global | Space::Shared) || ty.bytes() > 8 {
        return fail("this atomic does not exist or is not supported");
    }
    let d = if m.base == "atom" { Some(args.target(ty)?) } else { None };
    let (address, space) = args.address(space)?;
    let b = args.source(ty)?;
    let c = if op == AtomicOp::Cas { args.source(ty)? } else { b };
    Ok(Op::Atomic(Atomic {
        op,
        space,
        ty,
        d,
        address,
        b,
        c,
    }))
}

fn copy_async(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if !m.flag("async") {
        return fail("only cp.async is supported");
    }
    if m.flag("commit_group") {
        return Ok(Op::CopyCommit);
    }
    if m.flag("wait_all") {
        return Ok(Op::CopyWait { pending: None });
    }
    if m.flag("wait_group") {
        return Ok(Op::CopyWait {
            pending: Some(args.immediate()? as u32),
        });
    }
    m.ignore_cache_hints();
    if !(m.flag("shared") || m.flag("shared::cta")) || !m.flag("global") {
        return fail("only copies from global to shared memory are supported");
    }
    let (to, _) = args.address(Space::Shared)?;
    let (from, _) = args.address(Space::Global)?;
    let bytes = args.immediate()? as u32;
    if !matches!(bytes, 4 | 8 | 16) {
        return fail("cp.async copies 4, 8 or 16 bytes");
    }
    let (mut source_bytes, mut ignore) = (None, None);
    if args.left() > 0 {
        let operand = args.next()?;
        if args.is_predicate(&operand) {
            ignore = Some(args.predicate_of(&operand)?);
        } else {
            source_bytes = Some(args.source_of(&operand, Type::U32)?);
        }
    }
    Ok(Op::CopyAsync(CopyAsync {
        to,
        from,
        bytes,
        source_bytes,
        ignore,
    }))
}

//! Instructions that several lanes or warps execute together.

use super::Mnemonic;
use crate::ir::{AtomicOp, Barrier, BarrierKind, Match, Op, Reduce, Shuffle, ShuffleMode, Type, Vote};
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if matches!(m.base, "bar" | "barrier") {
        return barrier(m, args);
    }
    if m.base == "activemask" {
        m.ignore(&["b32"]);
        return Ok(Op::ActiveMask(args.target(Type::B32)?));
    }
    // The forms without .sync are gone since sm_70.
    if !m.flag("sync") {
        return fail(".sync is missing");
    }
    match m.base {
        "shfl" => shuffle(m, args),
        "vote" => vote(m, args),
        "match" => matching(m, args),
        _ => reduce(m, args),
    }
}

fn shuffle(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let mode = m.choose(&[
        ("up", ShuffleMode::Up),
        ("down", ShuffleMode::Down),
        ("bfly", ShuffleMode::Butterfly),
        ("idx", ShuffleMode::Index),
    ]);
    let Some(mode) = mode else {
        return fail("the mode is missing");
    };
    if m.ty()? != Type::B32 {
        return fail("shfl takes .b32");
    }
    let (first, second) = args.pair()?;
    let d = args.exact_target_of(&first, Type::B32)?;
    let in_range = second.map(|s| args.predicate_target_of(&s)).transpose()?;
    let u = Type::U32;
    let (a, b, c, members) = (
        args.source(Type::B32)?,
        args.source(u)?,
        args.source(u)?,
        args.source(u)?,
    );
    Ok(Op::Shuffle(Shuffle {
        mode,
        d,
        in_range,
        a,
        b,
        c,
        members,
    }))
}

fn vote(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let Some(mode) = m.choose(&[("all", 0), ("any", 1), ("uni", 2), ("ballot", 3)]) else {
        return fail("the mode is missing");
    };
    let ty = m.ty()?;
    if (mode == 3) != (ty == Type::B32) || (mode != 3) != (ty == Type::Pred) {
        return fail(format!("type .{} is not allowed", ty.name()));
    }
    if mode == 3 {
        let d = args.target(ty)?;
        let (a, members) = (args.predicate()?, args.source(Type::U32)?);
        return Ok(Op::Vote(Vote::Ballot { d, a, members }));
    }
    let d = args.predicate_target()?;
    let (a, members) = (args.predicate()?, args.source(Type::U32)?);
    Ok(Op::Vote(match mode {
        0 => Vote::All { d, a, members },
        1 => Vote::Any { d, a, members },
        _ => Vote::Uniform { d, a, members },
    }))
}

fn matching(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let Some(all) = m.choose(&[("all", true), ("any", false)]) else {
        return fail("the mode is missing");
    };
    let ty = m.ty()?;
    if !matches!(ty, Type::B32 | Type::B64) {
        return fail("match takes .b32 or .b64");
    }
    let (first, second) = args.pair()?;
    let d = args.exact_target_of(&first, Type::B32)?;
    let agrees = second.map(|s| args.predicate_target_of(&s)).transpose()?;
    let (a, members) = (args.source(ty)?, args.source(Type::U32)?);
    Ok(Op::Match(Match {
        all,
        ty,
        d,
        agrees,
        a,
        members,
    }))
}

fn reduce(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let op = m.choose(&[
        ("add", AtomicOp::Add),
        ("min", AtomicOp::Min),
        ("max", AtomicOp::Max),
        ("and", AtomicOp::And),
        ("or", AtomicOp::Or),
        ("xor", AtomicOp::Xor),
    ]);
    let Some(op) = op else {
        return fail("the operation is missing");
    };
    let ty = m.ty()?;
    if !matches!(ty, Type::U32 | Type::S32 | Type::B32) {
        return fail("redux takes 32-bit integers");
    }
    let (d, a, members) = (args.target(ty)?, args.source(ty)?, args.source(Type::U32)?);
    Ok(Op::Reduce(Reduce { op, ty, d, a, members }))
}

fn barrier(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if m.flag("warp") {
        if !m.flag("sync") {
            return fail(".sync is missing");
        }
        return Ok(Op::WarpBarrier {
            members: args.source(Type::U32)?,
        });
    }
    m.ignore(&["cta", "aligned"]);
    let arrive = m.flag("arrive");
    if arrive || m.flag("sync") {
        let id = args.source(Type::U32)?;
        let threads = if args.left() > 0 {
            Some(args.source(Type::U32)?)
        } else {
            None
        };
        let kind = if arrive { BarrierKind::Arrive } else { BarrierKind::Sync };
        return Ok(Op::Barrier(Barrier { kind, id, threads }));
    }
    if !m.flag("red") {
        return fail("unknown barrier");
    }
    let Some(mode) = m.choose(&[("popc", 0), ("and", 1), ("or", 2)]) else {
        return fail("the operation is missing");
    };
    m.ignore(&["u32", "pred"]);
    let result = args.next()?;
    let id = args.source(Type::U32)?;
    let threads = if args.left() > 1 {
        Some(args.source(Type::U32)?)
    } else {
        None
    };
    let a = args.predicate()?;
    let kind = match mode {
        0 => BarrierKind::CountTrue {
            d: args.exact_target_of(&result, Type::U32)?,
            a,
        },
        1 => BarrierKind::AllTrue {
            d: args.predicate_target_of(&result)?,
            a,
        },
        _ => BarrierKind::AnyTrue {
            d: args.predicate_target_of(&result)?,
            a,
        },
    };
    Ok(Op::Barrier(Barrier { kind, id, threads }))
}

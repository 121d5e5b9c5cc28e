//! Moves and conversions.

use super::Mnemonic;
use crate::ir::{Combine, Convert, ConvertRounding, Logic, Move, Op, Pack, Space, Type, Unpack};
use crate::number::Rounding;
use crate::ptx::Result;
use crate::ptx::operand::{Args, Operand, Syntax, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    match m.base {
        "mov" => mov(m, args),
        "cvt" => convert(m, args),
        "cvta" => {
            let to_space = m.flag("to");
            let Some(space) = space(m) else {
                return fail("the state space is missing");
            };
            let ty = m.ty()?;
            if !ty.is_wide() {
                return fail("addresses are 64 bits wide");
            }
            let (d, a) = (args.target(ty)?, args.source(ty)?);
            Ok(if to_space {
                Op::FromGeneric { space, d, a }
            } else {
                Op::ToGeneric { space, d, a }
            })
        }
        _ => {
            let Some(space) = space(m) else {
                return fail("the state space is missing");
            };
            let d = args.predicate_target()?;
            let a = args.source(Type::U64)?;
            Ok(Op::IsSpace { space, d, a })
        }
    }
}

pub fn space(m: &mut Mnemonic) -> Option<Space> {
    m.choose(&[
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("local", Space::Local),
        ("param", Space::Param),
        ("param::entry", Space::Param),
        ("param::func", Space::Param),
        ("const", Space::Const),
    ])
}

fn mov(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let ty = m.ty()?;
    if ty == Type::Pred {
        let d = args.predicate_target()?;
        let a = args.predicate()?;
        return Ok(Op::Logic(Logic {
            op: Combine::And,
            d,
            a,
            b: a,
        }));
    }
    let to = args.next()?;
    let from = args.next()?;
    match (&to.syntax, &from.syntax) {
        (Syntax::Vector(elements), Syntax::Name { .. }) => unpack(args, ty, elements, &from),
        (_, Syntax::Vector(elements)) => pack(args, ty, &to, elements),
        (
            _,
            Syntax::Name {
                name: "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo",
                ..
            },
        ) => Ok(Op::Clock(args.exact_target_of(&to, ty)?)),
        _ => {
            let d = args.exact_target_of(&to, ty)?;
            Ok(Op::Move(Move {
                ty,
                d,
                a: args.source_of(&from, ty)?,
            }))
        }
    }
}

fn element_type(ty: Type, count: usize) -> Result<Type> {
    match ty.bytes() / count.max(1) {
        _ if !ty.bytes().is_multiple_of(count) => fail("the vector does not fit the type"),
        1 => Ok(Type::B8),
        2 => Ok(Type::B16),
        4 => Ok(Type::B32),
        _ => fail("the vector does not fit the type"),
    }
}

fn pack<'a>(args: &mut Args<'_, 'a>, ty: Type, to: &Operand<'a>, elements: &[Operand<'a>]) -> Result<Op> {
    let element = element_type(ty, elements.len())?;
    let d = args.exact_target_of(to, ty)?;
    let s = elements
        .iter()
        .map(|e| args.source_of(e, element))
        .collect::<Result<_>>()?;
    Ok(Op::Pack(Pack {
        d,
        s,
        element_bits: element.bits(),
    }))
}

fn unpack<'a>(args: &mut Args<'_, 'a>, ty: Type, elements: &[Operand<'a>], from: &Operand<'a>) -> Result<Op> {
    let element = element_type(ty, elements.len())?;
    let s = args.source_of(from, ty)?;
    let d = elements
        .iter()
        .map(|e| args.exact_target_of(e, element))
        .collect::<Result<_>>()?;
    Ok(Op::Unpack(Unpack {
        d,
        s,
        element_bits: element.bits(),
    }))
}

fn convert(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let to_integer = m.choose(&[
        ("rni", Rounding::Nearest),
        ("rzi", Rounding::Zero),
        ("rmi", Rounding::Down),
        ("rpi", Rounding::Up),
    ]);
    let into_format = m.rounding();
    let (flush, saturate, relu) = (m.flag("ftz"), m.flag("sat"), m.flag("relu"));
    let (to, from) = (m.ty()?, m.ty()?);
    let rounding = match (to_integer, into_format) {
        (Some(mode), None) => ConvertRounding { mode, to_integer: true },
        (None, Some(mode)) => ConvertRounding {
            mode,
            to_integer: false,
        },
        (None, None) => ConvertRounding {
            mode: Rounding::Nearest,
            to_integer: false,
        },
        _ => return fail("two rounding modes"),
    };
    check_conversion(to, from, rounding, to_integer.or(into_format).is_some())?;
    let d = args.wider_target(to)?;
    let first = args.next()?;
    let a = if to.is_packed() {
        args.source_of(&first, from)?
    } else {
        args.wider_source_of(&first, from)?
    };
    let b = if to.is_packed() { Some(args.source(from)?) } else { None };
    Ok(Op::Convert(Convert {
        to,
        from,
        rounding,
        flush,
        saturate,
        relu,
        d,
        a,
        b,
    }))
}

fn check_conversion(to: Type, from: Type, rounding: ConvertRounding, given: bool) -> Result<()> {
    let odd = |t: Type| t.is_bits() || matches!(t, Type::Pred);
    if odd(to) || odd(from) || from.is_packed() || from == Type::TF32 {
        return fail(format!("no conversion from .{} to .{}", from.name(), to.name()));
    }
    if to == Type::TF32 && (from != Type::F32 || !given) || to.is_packed() && from != Type::F32 {
        return fail(format!("no conversion from .{} to .{}", from.name(), to.name()));
    }
    if rounding.mode == Rounding::NearestAway && to != Type::TF32 {
        return fail(".rna is only for .tf32");
    }
    if from.is_float() && !to.is_float() && !rounding.to_integer {
        return fail("an integer rounding (.rni, .rzi, .rmi, .rpi) is missing");
    }
    if !from.is_float() && (rounding.to_integer || (!to.is_float() && given)) {
        return fail("this conversion has no such rounding");
    }
    Ok(())
}

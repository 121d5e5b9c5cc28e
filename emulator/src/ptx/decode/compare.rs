//! Comparison, selection and predicate logic.

use super::Mnemonic;
use crate::ir::{
    Combine, Compare, CompareTarget, Comparison, FloatClass, Logic, Op, Select, SelectBy, TestFloat, Type,
};
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

const COMPARISONS: [(&str, Comparison); 18] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
    ("lo", Comparison::Lt),
    ("ls", Comparison::Le),
    ("hi", Comparison::Gt),
    ("hs", Comparison::Ge),
    ("equ", Comparison::Equ),
    ("neu", Comparison::Neu),
    ("ltu", Comparison::Ltu),
    ("leu", Comparison::Leu),
    ("gtu", Comparison::Gtu),
    ("geu", Comparison::Geu),
    ("num", Comparison::Num),
    ("nan", Comparison::Nan),
];

const COMBINATIONS: [(&str, Combine); 3] = [("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)];

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    match m.base {
        "setp" | "set" => compare(m, args),
        "selp" => {
            let ty = m.ty()?;
            let (d, a, b) = (args.target(ty)?, args.source(ty)?, args.source(ty)?);
            Ok(Op::Select(Select {
                ty,
                d,
                a,
                b,
                by: SelectBy::Pred(args.predicate()?),
            }))
        }
        "slct" => {
            m.ignore(&["ftz"]);
            let (ty, sign) = (m.ty()?, m.ty()?);
            if !matches!(sign, Type::S32 | Type::F32) {
                return fail("slct decides by .s32 or .f32");
            }
            let (d, a, b) = (args.target(ty)?, args.source(ty)?, args.source(ty)?);
            Ok(Op::Select(Select {
                ty,
                d,
                a,
                b,
                by: SelectBy::Sign(args.source(sign)?, sign),
            }))
        }
        _ => test_float(m, args),
    }
}

fn compare(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let Some(comparison) = m.choose(&COMPARISONS) else {
        return fail("the comparison is missing");
    };
    let combine = m.choose(&COMBINATIONS);
    let flush = m.flag("ftz");
    let (to, ty) = if m.base == "setp" {
        let ty = m.ty()?;
        let (first, second) = args.pair()?;
        let second = second.map(|s| args.predicate_target_of(&s)).transpose()?;
        (CompareTarget::Predicates(args.predicate_target_of(&first)?, second), ty)
    } else {
        let (result, ty) = (m.ty()?, m.ty()?);
        (CompareTarget::Register(args.target(result)?, result), ty)
    };
    let ordered_only = matches!(
        comparison,
        Comparison::Eq | Comparison::Ne | Comparison::Lt | Comparison::Le
    ) || matches!(comparison, Comparison::Gt | Comparison::Ge);
    if !ty.is_float() && !ordered_only {
        return fail("this comparison is for floating point");
    }
    let (a, b) = (args.source(ty)?, args.source(ty)?);
    let combine = combine.map(|c| Ok((c, args.predicate()?))).transpose()?;
    Ok(Op::Compare(Compare {
        comparison,
        ty,
        flush,
        a,
        b,
        combine,
        to,
    }))
}

fn test_float(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let class = m.choose(&[
        ("finite", FloatClass::Finite),
        ("infinite", FloatClass::Infinite),
        ("number", FloatClass::Number),
        ("notanumber", FloatClass::NotANumber),
        ("normal", FloatClass::Normal),
        ("subnormal", FloatClass::Subnormal),
    ]);
    let Some(class) = class else {
        return fail("the property is missing");
    };
    let ty = m.ty()?;
    if !matches!(ty, Type::F32 | Type::F64) {
        return fail("testp takes .f32 or .f64");
    }
    let d = args.predicate_target()?;
    Ok(Op::TestFloat(TestFloat {
        class,
        ty,
        d,
        a: args.source(ty)?,
    }))
}

/// `and.pred` and its relatives.
pub fn logic(base: &str, args: &mut Args) -> Result<Op> {
    let op = match base {
        "and" | "not" => Combine::And,
        "or" => Combine::Or,
        "xor" => Combine::Xor,
        _ => return fail("type .pred is not allowed"),
    };
    let d = args.predicate_target()?;
    let mut a = args.predicate()?;
    let b = if base == "not" {
        a.negate = !a.negate;
        a
    } else {
        args.predicate()?
    };
    Ok(Op::Logic(Logic { op, d, a, b }))
}

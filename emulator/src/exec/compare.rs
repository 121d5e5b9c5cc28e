//! Comparison, selection and predicate logic.

use super::float::flush_f32;
use super::lanes::{LANES, Wide, mask_where};
use super::warp::Warp;
use crate::ir::{Combine, Compare, CompareTarget, Comparison, FloatClass, Logic, Select, SelectBy, TestFloat, Type};
use crate::number::half;
use std::cmp::Ordering;

pub fn execute(i: &Compare, w: &mut Warp, mask: u32) {
    let (first, upper) = results(i, w);
    let combine = |bits: u32| match i.combine {
        None => bits,
        Some((Combine::And, p)) => bits & w.predicate(p),
        Some((Combine::Or, p)) => bits | w.predicate(p),
        Some((Combine::Xor, p)) => bits ^ w.predicate(p),
    };
    let result = combine(first);
    match i.to {
        CompareTarget::Predicates(p, second) => {
            let second_result = combine(upper.unwrap_or(!first));
            w.set_predicate(p, mask, result);
            if let Some(q) = second {
                w.set_predicate(q, mask, second_result);
            }
        }
        CompareTarget::Register(d, ty) => {
            let one = match ty {
                Type::F32 => 1f32.to_bits() as u64,
                Type::F16 => 0x3c00,
                Type::BF16 => 0x3f80,
                _ => ty.mask(),
            };
            w.set_any(
                d,
                mask,
                &std::array::from_fn(|l| if result >> l & 1 != 0 { one } else { 0 }),
            );
        }
    }
}

/// One bit per lane; for packed types also those of the upper halves.
fn results(i: &Compare, w: &Warp) -> (u32, Option<u32>) {
    let holds = |order: Option<Ordering>| holds(i.comparison, order);
    let (a, b) = (w.get(i.a), w.get(i.b));
    match i.ty {
        Type::U32 | Type::B32 => (mask_where(|l| holds(Some(a[l].cmp(&b[l])))), None),
        Type::S32 => (mask_where(|l| holds(Some((a[l] as i32).cmp(&(b[l] as i32))))), None),
        Type::F32 => {
            let f = |bits| flush_f32(f32::from_bits(bits), i.flush);
            (mask_where(|l| holds(f(a[l]).partial_cmp(&f(b[l])))), None)
        }
        Type::F64 => {
            let (a, b) = (w.wide(i.a), w.wide(i.b));
            let f = f64::from_bits;
            (mask_where(|l| holds(f(a[l]).partial_cmp(&f(b[l])))), None)
        }
        Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 => {
            let compare = |x: u32, y: u32| holds(short(i.ty, x).partial_cmp(&short(i.ty, y)));
            let upper =
                i.ty.is_packed()
                    .then(|| mask_where(|l| compare(a[l] >> 16, b[l] >> 16)));
            (mask_where(|l| compare(a[l], b[l])), upper)
        }
        ty => {
            let (a, b): (Wide, Wide) = (w.wide(i.a), w.wide(i.b));
            (
                mask_where(|l| holds(Some(ty.integer(a[l]).cmp(&ty.integer(b[l]))))),
                None,
            )
        }
    }
}

fn short(ty: Type, bits: u32) -> f32 {
    match ty {
        Type::F16 | Type::F16x2 => half::f16_to_f32(bits as u16),
        _ => half::bf16_to_f32(bits as u16),
    }
}

/// Whether the comparison is true of operands in this order; `None` is unordered.
#[inline(always)]
fn holds(comparison: Comparison, order: Option<Ordering>) -> bool {
    use Comparison::*;
    use Ordering::*;
    match comparison {
        Eq => order == Some(Equal),
        Ne => matches!(order, Some(Less | Greater)),
        Lt => order == Some(Less),
        Le => matches!(order, Some(Less | Equal)),
        Gt => order == Some(Greater),
        Ge => matches!(order, Some(Greater | Equal)),
        Equ => matches!(order, None | Some(Equal)),
        Neu => order != Some(Equal),
        Ltu => matches!(order, None | Some(Less)),
        Leu => order != Some(Greater),
        Gtu => matches!(order, None | Some(Greater)),
        Geu => order != Some(Less),
        Num => order.is_some(),
        Nan => order.is_none(),
    }
}

pub fn logic(i: &Logic, w: &mut Warp, mask: u32) {
    let (a, b) = (w.predicate(i.a), w.predicate(i.b));
    let bits = match i.op {
        Combine::And => a & b,
        Combine::Or => a | b,
        Combine::Xor => a ^ b,
    };
    w.set_predicate(i.d, mask, bits);
}

pub fn select(i: &Select, w: &mut Warp, mask: u32) {
    let choose_a = match i.by {
        SelectBy::Pred(p) => w.predicate(p),
        SelectBy::Sign(reg, Type::F32) => {
            let c = w.get(reg);
            mask_where(|l| f32::from_bits(c[l]) >= 0.0)
        }
        SelectBy::Sign(reg, _) => {
            let c = w.get(reg);
            mask_where(|l| c[l] as i32 >= 0)
        }
    };
    if i.ty.is_wide() {
        let (a, b) = (w.wide(i.a), w.wide(i.b));
        return w.set_wide(
            i.d,
            mask,
            &std::array::from_fn(|l| if choose_a >> l & 1 != 0 { a[l] } else { b[l] }),
        );
    }
    let (a, b) = (w.get(i.a), w.get(i.b));
    let value = std::array::from_fn(|l| if choose_a >> l & 1 != 0 { a[l] } else { b[l] });
    w.set(i.d, mask, &value);
}

pub fn test_float(i: &TestFloat, w: &mut Warp, mask: u32) {
    let bits = w.wide(i.a);
    let class = |l: usize| {
        if i.ty == Type::F32 {
            f32::from_bits(bits[l] as u32).classify()
        } else {
            f64::from_bits(bits[l]).classify()
        }
    };
    use std::num::FpCategory::*;
    let test = |l: usize| match i.class {
        FloatClass::Finite => !matches!(class(l), Nan | Infinite),
        FloatClass::Infinite => class(l) == Infinite,
        FloatClass::Number => class(l) != Nan,
        FloatClass::NotANumber => class(l) == Nan,
        FloatClass::Normal => class(l) == Normal,
        FloatClass::Subnormal => class(l) == Subnormal,
    };
    debug_assert_eq!(bits.len(), LANES);
    let result = mask_where(test);
    w.set_predicate(i.d, mask, result);
}

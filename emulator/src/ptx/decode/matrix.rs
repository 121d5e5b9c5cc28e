//! Tensor-core instructions.

use super::Mnemonic;
use crate::ir::{LoadMatrix, Mma, Op, Reg, Space, Type};
use crate::ptx::Result;
use crate::ptx::operand::{Args, fail};

pub fn decode(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    if !m.flag("sync") || !m.flag("aligned") {
        return fail(".sync.aligned is missing");
    }
    if m.base == "mma" {
        mma(m, args)
    } else {
        load_matrix(m, args)
    }
}

fn load_matrix(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let count = m.choose(&[("x1", 1), ("x2", 2), ("x4", 4)]);
    let (Some(count), true) = (count, m.flag("m8n8")) else {
        return fail("shape or count is missing");
    };
    let transpose = m.flag("trans");
    m.ignore(&["shared", "shared::cta"]);
    if m.ty()? != Type::B16 {
        return fail("ldmatrix takes .b16");
    }
    let targets = args.vector()?;
    if targets.len() != count {
        return fail("the number of destinations does not fit");
    }
    let mut regs = [Reg { plane: 0, wide: true }; 4];
    for (reg, target) in regs.iter_mut().zip(&targets) {
        *reg = args.exact_target_of(target, Type::B32)?;
    }
    let (address, space) = args.address(Space::Shared)?;
    Ok(Op::LoadMatrix(LoadMatrix {
        space,
        transpose,
        address,
        regs,
        count: count as u8,
    }))
}

const SHAPES: [(&str, (usize, usize, usize)); 6] = [
    ("m8n8k4", (8, 8, 4)),
    ("m8n8k16", (8, 8, 16)),
    ("m16n8k4", (16, 8, 4)),
    ("m16n8k8", (16, 8, 8)),
    ("m16n8k16", (16, 8, 16)),
    ("m16n8k32", (16, 8, 32)),
];

fn mma(m: &mut Mnemonic, args: &mut Args) -> Result<Op> {
    let Some((rows, columns, depth)) = m.choose(&SHAPES) else {
        return fail("unknown shape");
    };
    let layouts = [("row", false), ("col", true)];
    let (Some(a_column_major), Some(b_column_major)) = (m.choose(&layouts), m.choose(&layouts)) else {
        return fail("the layouts are missing");
    };
    let (d_ty, a_ty, b_ty, c_ty) = (m.ty()?, m.ty()?, m.ty()?, m.ty()?);
    let volta = (rows, depth) == (8, 4) && a_ty == Type::F16;
    check_types(rows, depth, [d_ty, a_ty, b_ty, c_ty])?;
    if !volta && (a_column_major || !b_column_major) {
        return fail("this shape exists as .row.col only");
    }
    // Volta's four quad-pairs each multiply 8x8x4, every lane with four elements of A and of B.
    let (a_elements, b_elements, c_elements) = if volta {
        (4, 4, 8)
    } else {
        (rows * depth / 32, columns * depth / 32, rows * columns / 32)
    };
    let d = fragment(args, d_ty, c_elements, true)?;
    let a = fragment(args, a_ty, a_elements, false)?;
    let b = fragment(args, b_ty, b_elements, false)?;
    let c = fragment(args, c_ty, c_elements, false)?;
    let (m, n, k) = (rows, columns, depth);
    Ok(Op::Mma(Box::new(Mma {
        m,
        n,
        k,
        a_column_major,
        b_column_major,
        d_ty,
        a_ty,
        b_ty,
        c_ty,
        d,
        a,
        b,
        c,
    })))
}

fn check_types(rows: usize, depth: usize, [d, a, b, c]: [Type; 4]) -> Result<()> {
    let depths: &[usize] = match (rows, a) {
        (8, Type::F16 | Type::F64) => &[4],
        (16, Type::F16 | Type::BF16) => &[8, 16],
        (16, Type::TF32) => &[4, 8],
        (16, Type::S8 | Type::U8) => &[16, 32],
        (8, Type::S8 | Type::U8) => &[16],
        _ => &[],
    };
    let integers = matches!(a, Type::S8 | Type::U8);
    let accumulators = match a {
        Type::F16 => matches!(d, Type::F16 | Type::F32) && matches!(c, Type::F16 | Type::F32),
        Type::F64 => d == Type::F64 && c == Type::F64,
        _ if integers => d == Type::S32 && c == Type::S32,
        _ => d == Type::F32 && c == Type::F32,
    };
    let factors = a == b || integers && matches!(b, Type::S8 | Type::U8);
    if depths.contains(&depth) && accumulators && factors {
        Ok(())
    } else {
        fail("unknown combination of shape and types")
    }
}

fn fragment(args: &mut Args, ty: Type, elements: usize, target: bool) -> Result<Vec<Reg>> {
    let operands = args.vector()?;
    let per_register = (4 / ty.bytes()).max(1);
    if operands.len() * per_register != elements {
        return fail(format!(
            "a fragment of .{} needs {} registers",
            ty.name(),
            elements / per_register
        ));
    }
    let register = if ty.is_wide() { Type::B64 } else { Type::B32 };
    operands
        .iter()
        .map(|o| {
            if target {
                args.exact_target_of(o, register)
            } else {
                args.source_of(o, register)
            }
        })
        .collect()
}

//! `mma.sync`: D = A·B + C on fragments spread over the warp.
//!
//! Factors are exact in f64, sums are accumulated in f64 and rounded once. Real tensor cores sum
//! in an order and a precision that are not documented; their result lies within the usual bound.

use super::lanes::LANES;
use super::warp::Warp;
use crate::ir::{Mma, Reg, Type};
use crate::number::half;

const MAX_M: usize = 16;
const N: usize = 8;
const MAX_K: usize = 32;

/// Row-major matrices with room for the largest shape.
struct Matrices {
    a: [[f64; MAX_K]; MAX_M],
    b: [[f64; N]; MAX_K],
    c: [[f64; N]; MAX_M],
}

pub fn execute(i: &Mma, w: &mut Warp) {
    if i.m == 8 && i.a_ty == Type::F16 {
        return volta(i, w);
    }
    let mut x = Matrices {
        a: [[0.0; MAX_K]; MAX_M],
        b: [[0.0; N]; MAX_K],
        c: [[0.0; N]; MAX_M],
    };
    let per_register = (4 / i.a_ty.bytes()).max(1);
    let row_groups = i.m / 8;
    // Lane 4g + t holds rows g and g + 8 of A, column g of B; consecutive elements share a register.
    each_element(w, &i.a, i.a_ty, |lane, n, value| {
        let (register, part) = (n / per_register, n % per_register);
        let row = lane / 4 + 8 * (register % row_groups);
        x.a[row][(lane % 4) * per_register + part + 4 * per_register * (register / row_groups)] = value;
    });
    each_element(w, &i.b, i.b_ty, |lane, n, value| {
        let (register, part) = (n / per_register, n % per_register);
        x.b[(lane % 4) * per_register + part + 4 * per_register * register][lane / 4] = value;
    });
    each_element(w, &i.c, i.c_ty, |lane, n, value| {
        let (row, column) = accumulator_place(lane, n);
        x.c[row][column] = value;
    });
    multiply(&mut x, i.m, i.k);
    put_elements(w, &i.d, i.d_ty, |lane, n| {
        let (row, column) = accumulator_place(lane, n);
        x.c[row][column]
    });
}

fn accumulator_place(lane: usize, n: usize) -> (usize, usize) {
    (lane / 4 + 8 * (n / 2), 2 * (lane % 4) + n % 2)
}

fn multiply(x: &mut Matrices, m: usize, k: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both features.
        return unsafe { multiply_avx2(x, m, k) };
    }
    multiply_loop(x, m, k);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(x: &mut Matrices, m: usize, k: usize) {
    multiply_loop(x, m, k);
}

#[inline(always)]
fn multiply_loop(x: &mut Matrices, m: usize, k: usize) {
    for row in 0..m {
        let mut sums = x.c[row];
        for depth in 0..k {
            let factor = x.a[row][depth];
            for (sum, b) in sums.iter_mut().zip(&x.b[depth]) {
                *sum += factor * b;
            }
        }
        x.c[row] = sums;
    }
}

/// Volta: lanes 4q..4q+4 and 16 more form quad-pair q, which multiplies its own 8×8×4.
fn volta(i: &Mma, w: &mut Warp) {
    let mut x: [Matrices; 4] = std::array::from_fn(|_| Matrices {
        a: [[0.0; MAX_K]; MAX_M],
        b: [[0.0; N]; MAX_K],
        c: [[0.0; N]; MAX_M],
    });
    let pair = |lane: usize| lane % 16 / 4;
    let line = |lane: usize| lane % 4 + 4 * (lane / 16);
    each_element(w, &i.a, i.a_ty, |lane, n, value| {
        let x = &mut x[pair(lane)];
        if i.a_column_major {
            x.a[n + 4 * (lane / 16)][lane % 4] = value
        } else {
            x.a[line(lane)][n] = value
        }
    });
    each_element(w, &i.b, i.b_ty, |lane, n, value| {
        let x = &mut x[pair(lane)];
        if i.b_column_major {
            x.b[n][line(lane)] = value
        } else {
            x.b[lane % 4][n + 4 * (lane / 16)] = value
        }
    });
    each_element(w, &i.c, i.c_ty, |lane, n, value| {
        let (row, column) = volta_accumulator_place(i.c_ty, lane, n);
        x[pair(lane)].c[row][column] = value;
    });
    x.iter_mut().for_each(|x| multiply(x, 8, 4));
    put_elements(w, &i.d, i.d_ty, |lane, n| {
        let (row, column) = volta_accumulator_place(i.d_ty, lane, n);
        x[pair(lane)].c[row][column]
    });
}

fn volta_accumulator_place(ty: Type, lane: usize, n: usize) -> (usize, usize) {
    let half = 4 * (lane / 16);
    if ty == Type::F16 {
        (lane % 4 + half, n)
    } else {
        ((lane & 1) + (n & 2) + half, (n & 4) + (lane & 2) + (n & 1))
    }
}

/// Calls `put(lane, n, value)` for every element of a fragment.
fn each_element(w: &Warp, regs: &[Reg], ty: Type, mut put: impl FnMut(usize, usize, f64)) {
    for (register, reg) in regs.iter().enumerate() {
        if ty == Type::F64 {
            let values = w.wide(*reg);
            (0..LANES).for_each(|lane| put(lane, register, f64::from_bits(values[lane])));
            continue;
        }
        let values = w.get(*reg);
        for (lane, bits) in values.iter().copied().enumerate() {
            let half_word = |part: u32| (bits >> (16 * part)) as u16;
            match ty {
                Type::F16 => (0..2).for_each(|p| {
                    put(lane, 2 * register + p, half::f16_to_f32(half_word(p as u32)) as f64);
                }),
                Type::BF16 => (0..2).for_each(|p| {
                    put(lane, 2 * register + p, half::bf16_to_f32(half_word(p as u32)) as f64);
                }),
                Type::S8 => (0..4).for_each(|p| put(lane, 4 * register + p, (bits >> (8 * p)) as i8 as f64)),
                Type::U8 => (0..4).for_each(|p| put(lane, 4 * register + p, (bits >> (8 * p)) as u8 as f64)),
                Type::TF32 => put(lane, register, half::tf32_operand(bits) as f64),
                Type::F32 => put(lane, register, f32::from_bits(bits) as f64),
                _ => put(lane, register, bits as i32 as f64),
            }
        }
    }
}

fn put_elements(w: &mut Warp, regs: &[Reg], ty: Type, get: impl Fn(usize, usize) -> f64) {
    for (n, reg) in regs.iter().enumerate() {
        match ty {
            Type::F64 => w.set_wide(*reg, u32::MAX, &std::array::from_fn(|lane| get(lane, n).to_bits())),
            Type::F32 => w.set(
                *reg,
                u32::MAX,
                &std::array::from_fn(|lane| (get(lane, n) as f32).to_bits()),
            ),
            Type::F16 => {
                let part = |lane, n| half::f64_to_f16(get(lane, n)) as u32;
                let value = std::array::from_fn(|lane| part(lane, 2 * n) | part(lane, 2 * n + 1) << 16);
                w.set(*reg, u32::MAX, &value);
            }
            // 32-bit integers: sums of bytes are exact in f64 and wrap like the hardware's.
            _ => w.set(*reg, u32::MAX, &std::array::from_fn(|lane| get(lane, n) as i64 as u32)),
        }
    }
}

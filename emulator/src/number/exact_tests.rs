//! Expectations from outside: the host's own arithmetic for `.rn`, and for the directed modes the
//! definition (neighbouring results that enclose the exact value, known exactly in wider arithmetic).

use super::*;

/// xorshift64*: enough variety for operands.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Random f32 whose exponents stay close enough for rounding to matter, with specials mixed in.
fn operand(state: &mut u64) -> f32 {
    let r = random(state);
    match r % 16 {
        0 => f32::from_bits((r >> 32) as u32),
        1 => [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::MIN_POSITIVE, f32::MAX, 1e-45][(r >> 8) as usize % 8],
        _ => f32::from_bits((r >> 32) as u32 & 0x83ff_ffff | 0x3c00_0000),
    }
}

fn d32(x: f32) -> Number {
    decode(x.to_bits() as u64, F32)
}

fn d64(x: f64) -> Number {
    decode(x.to_bits(), F64)
}

fn same32(actual: u64, expected: f32) -> bool {
    let actual = f32::from_bits(actual as u32);
    actual.to_bits() == expected.to_bits() || (actual.is_nan() && expected.is_nan())
}

#[test]
fn nearest_f32_equals_the_host() {
    let state = &mut 1;
    let rn = Rounding::Nearest;
    for _ in 0..200_000 {
        let (a, b, c) = (operand(state), operand(state), operand(state));
        let (x, y, z) = (d32(a), d32(b), d32(c));
        assert!(same32(encode(add(x, y, rn), F32, rn), a + b), "{a:e} + {b:e}");
        assert!(same32(encode(multiply(x, y), F32, rn), a * b), "{a:e} * {b:e}");
        assert!(same32(encode(divide(x, y), F32, rn), a / b), "{a:e} / {b:e}");
        assert!(same32(encode(square_root(x), F32, rn), a.sqrt()), "sqrt {a:e}");
        assert!(
            same32(encode(multiply_add(x, y, z, rn), F32, rn), a.mul_add(b, c)),
            "{a:e} {b:e} {c:e}"
        );
    }
}

#[test]
fn nearest_f64_equals_the_host() {
    let state = &mut 2;
    let rn = Rounding::Nearest;
    for _ in 0..100_000 {
        let mut next = || match random(state) {
            r if r % 8 == 0 => f64::from_bits(random(state)),
            r => f64::from_bits(r & 0x800f_ffff_ffff_ffff | (1013 + (random(state) % 20)) << 52),
        };
        let (a, b, c) = (next(), next(), next());
        let (x, y, z) = (d64(a), d64(b), d64(c));
        let check = |actual: u64, expected: f64| {
            assert!(
                actual == expected.to_bits() || expected.is_nan(),
                "{a:e} {b:e} {c:e}: {expected:e}"
            );
        };
        check(encode(add(x, y, rn), F64, rn), a + b);
        check(encode(multiply(x, y), F64, rn), a * b);
        check(encode(divide(x, y), F64, rn), a / b);
        check(encode(square_root(x), F64, rn), a.sqrt());
        check(encode(multiply_add(x, y, z, rn), F64, rn), a.mul_add(b, c));
    }
}

/// The product of two f32 is exact in f64, which makes the definition of each mode checkable.
#[test]
fn directed_products_enclose_the_exact_product() {
    let state = &mut 3;
    for _ in 0..200_000 {
        let (a, b) = (operand(state), operand(state));
        let exact = a as f64 * b as f64;
        if !exact.is_finite() || exact.abs() > f32::MAX as f64 || exact == 0.0 {
            continue;
        }
        let product = multiply(d32(a), d32(b));
        let at = |mode| f32::from_bits(encode(product, F32, mode) as u32);
        let (down, up, zero) = (at(Rounding::Down), at(Rounding::Up), at(Rounding::Zero));
        assert!(down as f64 <= exact && exact <= up as f64, "{a:e} * {b:e}");
        if down as f64 == exact {
            assert_eq!(down.to_bits(), up.to_bits());
        } else {
            assert_eq!(down.next_up(), up, "adjacent: {a:e} * {b:e}");
        }
        assert_eq!(zero, if exact > 0.0 { down } else { up });
    }
}

/// Knuth's error-free sum gives the sign of what rounding to nearest lost.
#[test]
fn directed_sums_follow_the_error_free_transformation() {
    let state = &mut 4;
    for _ in 0..200_000 {
        let (a, b) = (operand(state), operand(state));
        let sum = a + b;
        if !sum.is_finite() || a.abs() > 1e30 || b.abs() > 1e30 || sum == 0.0 {
            continue;
        }
        let back = sum - a;
        let error = (a - (sum - back)) + (b - back);
        let exact = add(d32(a), d32(b), Rounding::Nearest);
        let down = if error < 0.0 { sum.next_down() } else { sum };
        let up = if error > 0.0 { sum.next_up() } else { sum };
        assert!(same32(encode(exact, F32, Rounding::Down), down), "{a:e} + {b:e}");
        assert!(same32(encode(exact, F32, Rounding::Up), up), "{a:e} + {b:e}");
    }
}

#[test]
fn directed_square_roots_enclose() {
    for i in 1..20_000u32 {
        let x = f32::from_bits(i.wrapping_mul(0x0019_660d) & 0x7f7f_ffff | 1);
        let root = square_root(d32(x));
        let down = f32::from_bits(encode(root, F32, Rounding::Down) as u32) as f64;
        let up = f32::from_bits(encode(root, F32, Rounding::Up) as u32) as f64;
        assert!(down * down <= x as f64 && x as f64 <= up * up, "{x:e}"); // squares of f32 are exact in f64
        assert!(up as f32 == down as f32 || (down as f32).next_up() == up as f32);
    }
}

#[test]
fn overflow_and_zero_signs_follow_ieee_754() {
    let big = multiply(d32(f32::MAX), d32(-2.0));
    let at = |mode| f32::from_bits(encode(big, F32, mode) as u32);
    assert_eq!(at(Rounding::Nearest), f32::NEG_INFINITY);
    assert_eq!(at(Rounding::Zero), f32::MIN);
    assert_eq!(at(Rounding::Up), f32::MIN);
    assert_eq!(at(Rounding::Down), f32::NEG_INFINITY);
    assert_eq!(
        add(d32(1.0), d32(-1.0), Rounding::Nearest),
        Number::Zero { negative: false }
    );
    assert_eq!(
        add(d32(1.0), d32(-1.0), Rounding::Down),
        Number::Zero { negative: true }
    );
    let tiny = multiply(d32(1e-45), d32(0.25));
    assert_eq!(encode(tiny, F32, Rounding::Up), 1);
    assert_eq!(encode(tiny, F32, Rounding::Nearest), 0);
}

#[test]
fn tf32_rounds_ties_away() {
    // 1 + 2^-11 lies half way between two TF32 numbers.
    let tie = d32(1.0 + 2f32.powi(-11));
    assert_eq!(
        encode(tie, TF32, Rounding::NearestAway) << 13,
        (1.0 + 2f32.powi(-10)).to_bits() as u64
    );
    assert_eq!(encode(tie, TF32, Rounding::Nearest) << 13, 1f32.to_bits() as u64);
}

//! `exp`, `ln`, sine, cosine and the tail integrals of the normal distribution, in f64, from basic operations and explicit fma only.

use crate::coefficients::{EXP, MILLS, MILLS_CENTRE, MILLS_OFFSET};
use crate::float::{Float, horner};

/// `eˣ`, the nearest f64 or its neighbour; 0 below −745.2, infinite above 709.8, gradual underflow between.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    // ln 2 in two parts; the first has 32 trailing zero bits, so that n·LN2_HIGH is exact for every n in range.
    const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    // Adding 1.5·2^52 rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // Beyond these the result is 0 or infinite; NaN passes both comparisons.
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };

    let shifted = x.fma(core::f64::consts::LOG2_E, ROUND);
    let n = shifted.to_bits() as i32;
    let multiple = shifted - ROUND;
    let r = multiple.fma(-LN2_LOW, multiple.fma(-LN2_HIGH, x));
    let tail = horner!(r; EXP; 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let fraction = 1.0 + (r * r).fma(tail, r);

    // 2ⁿ in two factors, because n reaches −1076 and 1024: the last product alone may round or overflow.
    let half = n >> 1;
    fraction * power_of_two(half) * power_of_two(n - half)
}

/// `2ⁿ` for `−1022 ≤ n ≤ 1023`.
#[inline(always)]
fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// `ln x` of a positive normal f64, within two units in the last place.
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    // x = m·2^e with √½ ≤ m < √2: the exponent field counts from the bits of √½.
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const MANTISSA: u64 = (1 << 52) - 1;
    const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    let offset = x.to_bits().wrapping_sub(ROOT_HALF) as i64;
    let exponent = (offset >> 52) as f64;
    let m = f64::from_bits((offset as u64 & MANTISSA).wrapping_add(ROOT_HALF));
    // ln m = 2·(s + s³/3 + s⁵/5 + …), |s| < 0.172
    let s = (m - 1.0) / (m + 1.0);
    let tail = horner!(s * s; ARTANH; 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let small = exponent.fma(LN2_LOW, 2.0 * (s * s * s) * tail);
    exponent.fma(LN2_HIGH, 2.0f64.fma(s, small))
}

/// 1/3, 1/5, 1/7, …
const ARTANH: [f64; 10] = [
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

/// Sine and cosine of up to a million radians, each with an absolute error below 4e-16.
#[inline(always)]
pub fn sin_cos(x: f64) -> (f64, f64) {
    // Adding 1.5·2^52 rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// What f64 leaves of π/2.
    const QUARTER_LOW: f64 = 6.123_233_995_736_766e-17;
    let shifted = x.fma(core::f64::consts::FRAC_2_PI, ROUND);
    let (quarter, turns) = (shifted.to_bits() & 3, shifted - ROUND);
    // At most π/4 is left.
    let r = turns.fma(-QUARTER_LOW, turns.fma(-core::f64::consts::FRAC_PI_2, x));
    let square = r * r;
    let sine = (r * square).fma(horner!(square; SIN; 7, 6, 5, 4, 3, 2, 1, 0), r);
    let cosine = square.fma(horner!(square; COS; 7, 6, 5, 4, 3, 2, 1, 0), 1.0);
    match quarter {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// −1/3!, 1/5!, −1/7!, …
const SIN: [f64; 8] = [
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5_040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 1_307_674_368_000.0,
    1.0 / 355_687_428_096_000.0,
];

/// −1/2!, 1/4!, −1/6!, …
const COS: [f64; 8] = [
    -1.0 / 2.0,
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
    1.0 / 20_922_789_888_000.0,
];

/// The tail integrals of the standard normal distribution at one `x ≥ 0`,
/// `T_m(x) = ∫₀^∞ sᵐ·exp(−x·s − s²/2) ds` for m = 0, 1, 2,
/// kept as `T_m = inverse_scale^(m+1) · t_m`, with `inverse_scale = 1/(x + 1.25)`.
///
/// The scaled values are of order one for every `x` up to infinity, so that ratios of tail integrals neither overflow
/// nor underflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailIntegrals {
    /// `x + 1.25`.
    pub scale: f64,
    /// `1/(x + 1.25)`.
    pub inverse_scale: f64,
    /// Scaled Mills ratio `R = Q/φ`.
    pub t0: f64,
    /// Scaled `G = 1 − x·R`.
    pub t1: f64,
    /// Scaled `K = (1 + x²)·R − x`.
    pub t2: f64,
}

impl TailIntegrals {
    /// Integrals at `x ≥ 0`, infinity included; each within a few units in the last place.
    ///
    /// Only `K` is approximated, by one polynomial in `t = (x − 5)/(x + 5)`. The others follow from the recurrences
    /// `R = K + x·G` and `G = 1 − x·R` without cancellation: together they give `G = (1 − x·K)/(1 + x²)`, and
    /// `x·K` never exceeds 0.32. (The other direction, from `R` to `G` to `K`, loses everything at large `x`.)
    #[inline(always)]
    pub fn at(x: f64) -> Self {
        let scale = x + MILLS_OFFSET;
        let inverse_scale = 1.0 / scale;
        // Written with one quotient of x, so that x = ∞ gives t = 1 and not ∞/∞.
        let t = (1.0 / (x + MILLS_CENTRE)).fma(-2.0 * MILLS_CENTRE, 1.0);
        let ratio = if x == f64::INFINITY { 1.0 } else { x * inverse_scale };

        // Even and odd powers apart: two chains of half the latency.
        let even = horner!(t * t; MILLS; 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        let odd = horner!(t * t; MILLS; 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
        let t2 = t.fma(odd, even);
        let square = inverse_scale * inverse_scale;
        let t1 = (-ratio * square).fma(t2, 1.0) / ratio.fma(ratio, square);
        let t0 = ratio.fma(t1, square * t2);
        Self {
            scale,
            inverse_scale,
            t0,
            t1,
            t2,
        }
    }

    /// The Mills ratio `R(x) = Q(x)/φ(x)`, about `1/x` for large `x`.
    #[inline(always)]
    pub fn r(&self) -> f64 {
        self.inverse_scale * self.t0
    }

    /// `G(x) = 1 − x·R(x)`, about `1/x²` for large `x`.
    #[inline(always)]
    pub fn g(&self) -> f64 {
        self.inverse_scale * (self.inverse_scale * self.t1)
    }

    /// `K(x) = (1 + x²)·R(x) − x`, about `2/x³` for large `x`.
    #[inline(always)]
    pub fn k(&self) -> f64 {
        self.inverse_scale * (self.inverse_scale * (self.inverse_scale * self.t2))
    }
}

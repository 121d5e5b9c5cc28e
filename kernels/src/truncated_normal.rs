//! Mean and variance of a standard normal variable known to lie in a cell `[lower, upper)`.
//!
//! This is EP's only special function. With `Z = Φ(upper) − Φ(lower)` the paper writes
//! `r1 = (φ(upper) − φ(lower))/Z`, `r2 = (upper·φ(upper) − lower·φ(lower))/Z`, and then
//! `mean = −r1`, `chi = variance = 1 − r2 − r1²`. Those quotients are 0/0 in the tails and the variance cancels there
//! and in narrow cells, so each kind of cell has a form of its own. The cell is first reflected so that its midpoint
//! `c = (l + u)/2` is not negative; `w = u − l` is its width.
//!
//! - **Narrow**, `w ≤ 1` and `c·w ≤ 4`. On the cell the density is `exp(−c·t − t²/2)` in the distance `t = δ·s` from
//!   the midpoint, `δ = w/2`, and its Taylor coefficients in `s` obey `h₀ = 1`, `(n+1)·hₙ₊₁ = −(δc·hₙ + δ²·hₙ₋₁)`.
//!   Integrating over `−1 ≤ s ≤ 1` gives `S₀ = Σ h₂ₙ/(2n+1)`, `S₁ = Σ h₂ₙ₊₁/(2n+3)`, `S₂ = Σ h₂ₙ/(2n+3)`, and
//!   `mean = c + δ·S₁/S₀`, `variance = δ²·(S₂/S₀ − (S₁/S₀)²)`: relative to the width, however small.
//! - **Tail**, `l ≥ 0` otherwise. In the distance from `l` the density is `exp(−l·s − s²/2)`, and the part beyond `u` is
//!   `E = exp(−w·c)` times the same form at `u`: with the tail integrals `R, G, K`,
//!   `N₀ = R(l) − E·R(u)`, `N₁ = G(l) − E·(G(u) + w·R(u))`, `N₂ = K(l) − E·(K(u) + 2w·G(u) + w²·R(u))`,
//!   `mean = l + N₁/N₀`, `variance = N₂/N₀ − (N₁/N₀)²`. Here `E < 0.61`, and nothing cancels.
//! - **Straddling**, `l < 0 < u` and wide: `Z = 1 − φ(l)·R(−l) − φ(u)·R(u)` and the paper's formula as it stands.
//!
//! Against 300-digit values the relative error stays below 2e-15 for the mean (relative to the standard deviation in
//! nearly symmetric cells) and 3e-14 for the variance, the worst at a straddling cell of width 1; narrow cells and
//! half-lines keep 5e-15.

use crate::float::Float;
use crate::special::{TailIntegrals, exp};

/// Mean and variance of a truncated standard normal variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// `−r1` of the paper.
    pub mean: f64,
    /// `chi = 1 − r2 − r1²` of the paper.
    pub variance: f64,
}

/// Moments of a standard normal variable on `[lower, upper)`, for any `lower < upper`, infinite bounds included.
///
/// `lower == upper` (a cell narrower than the spacing of f64) gives that bound and variance 0; a NaN gives NaNs.
/// The result of the reflected cell `[−upper, −lower)` is the exact reflection.
#[inline(always)]
pub fn moments(lower: f64, upper: f64) -> Moments {
    // (−∞, ∞) has no midpoint and needs no reflection: the comparison with NaN is false.
    let reflect = lower + upper < 0.0;
    let (l, u) = if reflect { (-upper, -lower) } else { (lower, upper) };
    let width = u - l;
    let centre = 0.5f64.fma(width, l);
    let moments = if l == u {
        Moments { mean: l, variance: 0.0 }
    } else if width <= 1.0 && centre * width <= 4.0 {
        narrow(centre, width)
    } else if l >= 0.0 {
        tail(l, u, width, centre)
    } else {
        straddling(l, u)
    };
    Moments {
        mean: if reflect { -moments.mean } else { moments.mean },
        variance: moments.variance,
    }
}

/// The mean alone, bit for bit that of [`moments`]: what the likelihood's gradient needs.
#[inline(always)]
pub fn mean(lower: f64, upper: f64) -> f64 {
    // Inlined, the arithmetic of the variance is dead code and disappears.
    moments(lower, upper).mean
}

/// Taylor coefficients summed in a narrow cell. `Σ hₙsⁿ = exp(−δc·s − (δs)²/2)` with `δc ≤ 2`, `δ ≤ ½`: what follows
/// is below 1e-17 of the sum.
const TERMS: usize = 24;

/// `1/(n!·(n + m))`: what `n!·hₙ` weighs in the integral of `s^(m−1)·Σ hₙsⁿ`.
const fn weights(m: usize) -> [f64; TERMS] {
    let mut table = [0.0; TERMS];
    let mut factorial = 1.0;
    let mut n = 0;
    while n < TERMS {
        table[n] = 1.0 / (factorial * (n + m) as f64);
        n += 1;
        factorial *= n as f64;
    }
    table
}

#[inline(always)]
fn narrow(centre: f64, width: f64) -> Moments {
    const W0: [f64; TERMS] = weights(1);
    const W1: [f64; TERMS] = weights(2);
    const W2: [f64; TERMS] = weights(3);
    let delta = 0.5 * width;
    let slope = -(delta * centre);
    let curvature = -(delta * delta);
    // Carried as n!·hₙ: then each step of the recurrence, gₙ₊₁ = slope·gₙ + n·curvature·gₙ₋₁, waits for one fma only.
    let (mut even, mut odd) = (1.0, slope);
    let (mut s0, mut s1, mut s2) = (W0[0], slope * W1[1], W2[0]);
    macro_rules! add_pairs {
        ($($n:literal)*) => { $(
            even = slope.fma(odd, (($n - 1) as f64 * curvature) * even);
            odd = slope.fma(even, ($n as f64 * curvature) * odd);
            s0 = even.fma(W0[$n], s0);
            s1 = odd.fma(W1[$n + 1], s1);
            s2 = even.fma(W2[$n], s2);
        )* };
    }
    add_pairs!(2 4 6 8 10 12 14 16 18 20 22);
    let first = s1 / s0;
    Moments {
        mean: delta.fma(first, centre),
        variance: delta * delta * (-first).fma(first, s2 / s0),
    }
}

#[inline(always)]
fn tail(l: f64, u: f64, width: f64, centre: f64) -> Moments {
    let near = TailIntegrals::at(l);
    let beyond = exp(-(width * centre));
    let (mut n0, mut n1, mut n2) = (near.t0, near.t1, near.t2);
    // When E = 0 the far side may be infinite, and 0·∞ must not arise. (Written so that a NaN enters.)
    if !(beyond == 0.0) {
        // Everything in units of the near side's scale: q turns the far side's scale into it.
        let far = TailIntegrals::at(u);
        let q = near.scale * far.inverse_scale;
        let step = width * near.scale;
        let factor = beyond * q;
        let (r, g, k) = (far.t0, q * far.t1, q * q * far.t2);
        n0 -= factor * r;
        n1 -= factor * step.fma(r, g);
        n2 -= factor * step.fma(step.fma(r, 2.0 * g), k);
    }
    let first = n1 / n0;
    let unit = near.inverse_scale;
    Moments {
        mean: unit.fma(first, l),
        variance: unit * unit * (-first).fma(first, n2 / n0),
    }
}

#[inline(always)]
fn straddling(l: f64, u: f64) -> Moments {
    // φ(40) is 0 in f64: an infinite bound may as well be 40, which spares 0·∞. (NaN passes both comparisons.)
    let below = if l < -40.0 { 40.0 } else { -l };
    let above = if u > 40.0 { 40.0 } else { u };
    let (density_below, density_above) = (density(below), density(above));
    let outside = density_below.fma(
        TailIntegrals::at(below).r(),
        density_above * TailIntegrals::at(above).r(),
    );
    let inverse_mass = 1.0 / (1.0 - outside);
    let mean = (density_below - density_above) * inverse_mass;
    let r2 = above.fma(density_above, below * density_below) * inverse_mass;
    Moments {
        mean,
        variance: (-mean).fma(mean, 1.0 - r2),
    }
}

/// `φ(x)`, relatively accurate: the rounding error of x² would be magnified x²/2-fold.
#[inline(always)]
fn density(x: f64) -> f64 {
    const INVERSE_ROOT_TWO_PI: f64 = 0.398_942_280_401_432_7;
    let square = x * x;
    let rest = x.fma(x, -square);
    let value = INVERSE_ROOT_TWO_PI * exp(-0.5 * square);
    (-0.5 * rest).fma(value, value)
}

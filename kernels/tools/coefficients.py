#!/usr/bin/env python3
"""Writes src/coefficients.rs: the polynomials of the shared mathematics, fitted in 60 digits.

    python3 kernels/tools/coefficients.py && cargo fmt        (needs mpmath; the output is committed)

Every polynomial interpolates its function at Chebyshev nodes of its interval and is then written in powers of the
variable, lowest first. That is as good as evaluating the Chebyshev series wherever the absolute powers sum to about
what the function itself is; `report` prints that ratio and the truncation error so that a change can be judged.
"""

import struct
from pathlib import Path

from mpmath import chop, cos, erfc, exp, log, mp, mpf, pi, sin, sqrt

mp.dps = 60
OUTPUT = Path(__file__).resolve().parent.parent / "src" / "coefficients.rs"

# The scaled tail integral (x + A)^3 K(x) as a polynomial in t = (x - C)/(x + C). C spreads [0, inf) over [-1, 1] so
# that 28 terms suffice (30 at C = 4, about 40 at C = 1.5); A keeps the function between 2.0 and 3.7, so that no
# end of the interval is computed as a difference of larger numbers.
MILLS_OFFSET = mpf("1.25")
MILLS_CENTRE = mpf(5)


def tail_integral_k(x):
    """K(x) = int_0^inf s^2 exp(-x s - s^2/2) ds = (1 + x^2) R(x) - x, without the cancellation of that form."""
    if x < 50:
        with mp.workdps(120):
            mills = sqrt(pi / 2) * exp(x * x / 2) * erfc(x / sqrt(mpf(2)))
            return (1 + x * x) * mills - x
    total, term, k = mpf(0), 2 / x**3, 0
    while abs(term) > abs(total) * mpf(10) ** -mp.dps:  # asymptotic; at x >= 50 it reaches 60 digits long before it turns
        total, k = total + term, k + 1
        term *= -mpf((2 * k + 2) * (2 * k + 1)) / (2 * k * x * x)
    return total


def scaled_tail_integral(t):
    x = MILLS_CENTRE * (1 + t) / (1 - t)
    return (x + MILLS_OFFSET) ** 3 * tail_integral_k(x)


def interpolate(function, low, high, terms):
    """The polynomial of `terms` coefficients (in powers of x) through `function` at the Chebyshev nodes of [low, high]."""
    angles = [pi * (2 * i + 1) / (2 * terms) for i in range(terms)]
    middle, half = (high + low) / 2, (high - low) / 2
    values = [function(middle + half * cos(angle)) for angle in angles]
    series = [2 * sum(v * cos(k * a) for v, a in zip(values, angles)) / terms for k in range(terms)]
    series[0] /= 2
    # T_0 = 1, T_1 = u, T_{k+1} = 2 u T_k - T_{k-1} with u = (x - middle)/half, all as coefficient lists in x.
    def times_u(p):
        shifted = [mpf(0)] + [v / half for v in p]
        return [s - middle / half * v for s, v in zip(shifted, p + [mpf(0)])]

    def plus(p, q, factor):
        longer = max(len(p), len(q))
        p, q = p + [mpf(0)] * (longer - len(p)), q + [mpf(0)] * (longer - len(q))
        return [a + factor * b for a, b in zip(p, q)]

    previous, current, total = [mpf(1)], times_u([mpf(1)]), [series[0]]
    for coefficient in series[1:]:
        total = plus(total, current, coefficient)
        previous, current = current, plus([2 * v for v in times_u(current)], previous, -1)
    return [chop(c, mpf(10) ** -50) for c in total]


def report(name, function, low, high, polynomial):
    worst, condition = mpf(0), mpf(0)
    for i in range(1, 401):  # odd steps, so that 0, where the tails are 0/0, is never met
        x = low + (high - low) * i / 401
        exact = function(x)
        worst = max(worst, abs(sum(c * x**k for k, c in enumerate(polynomial)) / exact - 1))
        condition = max(condition, sum(abs(c * x**k) for k, c in enumerate(polynomial)) / abs(exact))
    print(f"{name:6} {len(polynomial):3} terms, truncation {mp.nstr(worst, 3)}, condition {mp.nstr(condition, 3)}")


def nearest_f32(value):
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def shortest_f32(value):
    """The shortest decimal that reads back as the same f32."""
    value = nearest_f32(value)
    return next(s for s in (f"{value:.{digits}g}" for digits in range(1, 18)) if nearest_f32(float(s)) == value)


def literal(text):
    mantissa, _, exponent = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return mantissa + (f"e{int(exponent)}" if exponent else "")


def table(name, kind, doc, polynomial):
    text = repr if kind == "f64" else shortest_f32
    lines = [f"    {literal(text(float(c)))}," for c in polynomial]
    return "\n".join([f"/// {doc}", f"pub const {name}: [{kind}; {len(polynomial)}] = [", *lines, "];", ""])


def main():
    ln2, quarter = log(mpf(2)), pi / 4
    root = sqrt(mpf(2))

    def exp_tail(r):
        return (exp(r) - 1 - r) / r**2

    def ln_tail(f):
        return (log(1 + f) - f + f**2 / 2) / f**3

    def sin_tail(z):
        return (sin(sqrt(z)) / sqrt(z) - 1) / z

    def cos_tail(z):
        return (cos(sqrt(z)) - 1 + z / 2) / z**2

    fits = [
        ("MILLS", "f64", scaled_tail_integral, mpf(-1), mpf(1), 28,
         "`(x + MILLS_OFFSET)³·K(x)` in powers of `t = (x − MILLS_CENTRE)/(x + MILLS_CENTRE)`, `−1 ≤ t ≤ 1`."),
        ("EXP", "f64", exp_tail, -ln2 / 2, ln2 / 2, 10, "`(eʳ − 1 − r)/r²` in powers of `r`, `|r| ≤ ln 2 / 2`."),
        ("LN", "f32", ln_tail, 1 / root - 1, root - 1, 9,
         "`(ln(1 + f) − f + f²/2)/f³` in powers of `f`, `√½ ≤ 1 + f ≤ √2`."),
        ("SIN", "f32", sin_tail, mpf(0), quarter**2, 3, "`(sin θ − θ)/θ³` in powers of `θ²`, `|θ| ≤ π/4`."),
        ("COS", "f32", cos_tail, mpf(0), quarter**2, 3, "`(cos θ − 1 + θ²/2)/θ⁴` in powers of `θ²`, `|θ| ≤ π/4`."),
    ]
    parts = [
        "//! Polynomials of the special functions, in powers, lowest first. Written by `tools/coefficients.py`.",
        "",
        "/// Where the variable of [`MILLS`] is zero.",
        f"pub const MILLS_CENTRE: f64 = {literal(repr(float(MILLS_CENTRE)))};",
        "/// What is added to `x` in the power that scales [`MILLS`].",
        f"pub const MILLS_OFFSET: f64 = {literal(repr(float(MILLS_OFFSET)))};",
        "",
    ]
    for name, kind, function, low, high, terms, doc in fits:
        polynomial = interpolate(function, low, high, terms)
        report(name, function, low, high, polynomial)
        parts.append(table(name, kind, doc, polynomial))
    OUTPUT.write_text("\n".join(parts))


main()

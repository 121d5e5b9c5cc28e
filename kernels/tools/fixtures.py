#!/usr/bin/env python3
"""Writes tests/fixtures/*.csv: exact values of the special functions and of truncated-normal moments.

    python3 kernels/tools/fixtures.py        (needs mpmath; takes a minute; the output is committed)

The definitions are evaluated as they stand, in enough digits (300) that no cancellation matters: nothing here is shared
with the schemes under test. Arguments are f64 values, written so that they read back exactly.
"""

from itertools import product
from math import inf, nextafter
from pathlib import Path
from random import Random

from mpmath import erfc, exp, mp, mpf, pi, sqrt

mp.dps = 300
FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"


def mills(x):
    """R, G, K from R = Q/phi; by the asymptotic series where the definition would need more than 300 digits."""
    if x < 1e8:
        x = mpf(x)
        r = sqrt(pi / 2) * exp(x * x / 2) * erfc(x / sqrt(mpf(2)))
        return r, 1 - x * r, (1 + x * x) * r - x
    x = mpf(x)
    y = 1 / x**2
    return (1 - y + 3 * y**2) / x, (1 - 3 * y + 15 * y**2) / x**2, (2 - 12 * y + 90 * y**2) / x**3


def moments(lower, upper):
    """mean = -r1 and variance = 1 - r2 - r1^2."""
    def upper_tail(x):
        return mpf(0) if x == inf else mpf(2) if x == -inf else erfc(mpf(x) / sqrt(mpf(2)))

    def density(x):
        return mpf(0) if abs(x) == inf else exp(-mpf(x) ** 2 / 2) * sqrt(2 / pi)

    def weighted(x):
        return mpf(0) if abs(x) == inf else mpf(x) * density(x)

    if lower + upper < 0:  # on the right of 0 the tails keep their digits
        mean, variance = moments(-upper, -lower)
        return -mean, variance
    mass = upper_tail(lower) - upper_tail(upper)
    r1 = (density(upper) - density(lower)) / mass
    r2 = (weighted(upper) - weighted(lower)) / mass
    return -r1, 1 - r2 - r1**2


def write(name, header, rows):
    text = "\n".join([header, *(",".join(row) for row in rows)]) + "\n"
    (FIXTURES / name).write_text(text)
    print(name, len(rows), "rows,", len(text) // 1024, "KiB")


def number(value):
    """17 digits, or as many as needed beyond the range of f64 (the test reads those as 0)."""
    return mp.nstr(value, 17, min_fixed=0, max_fixed=0) if abs(value) > mpf("1e-330") else "0"


def tail_arguments():
    random = Random(1)
    special = [0.0, 5e-324, 1e-300, 1e-17, 1e-8, 1.0, 5.0, 1e100, 1e150, 1e200, 1e300, 1.7976931348623157e308]
    return special + [10 ** random.uniform(-6, 9) for _ in range(250)] + [random.uniform(0, 45) for _ in range(250)]


def exp_arguments():
    random = Random(2)
    special = [0.0, 5e-324, -5e-324, 1e-17, -1e-17, 709.78, 709.7827128933840, -708.39, -708.4, -745.13, -745.2]
    return special + [random.uniform(-745, 709.7) for _ in range(250)] + [random.gauss(0, 1) for _ in range(150)]


def cells():
    random = Random(3)
    widths = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.03, 0.3, 0.999, 1.0, 1.001, 1.5, 3.0, 10.0, 100.0, inf]
    centres = [0.0, 1e-9, 1e-3, 0.25, 0.4999, 0.5, 0.51, 1.0, 2.0, 3.9, 4.1, 8.0, 20.0, 37.0, 100.0, 1e3, 1e4, 1e6]
    for centre, width in product(centres, widths):
        yield (centre, inf) if width == inf else (centre - width / 2, centre + width / 2)
    # Half-lines from deep inside to far outside, both orientations.
    for bound in [-40.0, -38.6, -30.0, -12.0, -6.0, -2.0, -0.5, -1e-9, 0.0, 1e-9, 0.5, 1.0, 3.0, 6.0, 12.0, 38.0, 1e2, 1e4, 1e6, 1e8]:
        yield bound, inf
        yield -inf, -bound
    yield -inf, inf
    # Borders of the scheme: c·w = 4, w = 1, l = 0, from both sides.
    for width in [1.0, 0.8, 0.5, 0.1, 1e-2, 1e-4, 1e-6]:
        for slope in [3.99, 4.0, nextafter(4.0, 5.0), 4.01]:
            yield slope / width - width / 2, slope / width + width / 2
    for lower in [-0.5, -0.25, -1e-3, 0.0, 0.3, 2.0, 3.5]:
        for width in [nextafter(1.0, 0.0), 1.0, nextafter(1.0, 2.0)]:
            yield lower, lower + width
    for upper in [0.7, 1.0, 1.01, 1.7, 4.0, 9.0, 40.0]:
        for lower in [-1e-3, -1e-12, -0.0, 1e-12, 1e-3]:
            yield lower, upper
    # Cells of 1 to 8 bit quantisers (Max's steps) seen from EP: shifted by c, stretched by s.
    steps = {1: 1.0, 2: 0.9957, 3: 0.5860, 4: 0.3352, 5: 0.1881, 6: 0.1041, 7: 0.0569, 8: 0.0308}
    for bits, step in steps.items():
        half = 2 ** (bits - 1)
        for _ in range(60):
            cell = random.randrange(-half, half)
            stretch, shift = 10 ** random.uniform(-3, 2), random.gauss(0, 1) * 10 ** random.uniform(-1, 2)
            lower = -inf if cell == -half else cell * step * stretch + shift
            upper = inf if cell == half - 1 else (cell + 1) * step * stretch + shift
            yield lower, upper
    # Anywhere.
    for _ in range(700):
        centre = random.choice([-1, 1]) * 10 ** random.uniform(-4, 6)
        width = 10 ** random.uniform(-12, 3) if random.random() < 0.5 else 10 ** random.uniform(-2, 1) / (1e-2 + abs(centre))
        yield centre - width / 2, centre + width / 2


def main():
    write("tail_integrals.csv", "x,R,G,K", [[repr(x), *map(number, mills(x))] for x in tail_arguments()])
    write("exp.csv", "x,exp(x)", [[repr(x), number(exp(mpf(x)))] for x in exp_arguments()])
    distinct = [cell for cell in dict.fromkeys(cells()) if cell[0] < cell[1]]
    write("moments.csv", "lower,upper,mean,variance",
          [[repr(l), repr(u), *map(number, moments(l, u))] for l, u in distinct])


main()

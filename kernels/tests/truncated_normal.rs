//! Moments of truncated normal variables against 300-digit values (`tools/fixtures.py`), and their symmetries and limits.

use qcs_kernels::truncated_normal::{Moments, mean, moments};

mod fixtures;

/// Deterministic numbers in [0, 1).
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next()
    }

    /// A cell of any size anywhere, the kinds of cell about equally often.
    fn cell(&mut self) -> (f64, f64) {
        let sign = if self.next() < 0.5 { -1.0 } else { 1.0 };
        let centre = sign * 10f64.powf(self.between(-4.0, 6.0));
        let width = match (self.next() * 3.0) as u32 {
            0 => 10f64.powf(self.between(-12.0, 3.0)),
            1 => 10f64.powf(self.between(-2.0, 1.0)) / (0.01 + centre.abs()),
            _ => centre.abs() * 10f64.powf(self.between(-0.5, 2.0)),
        };
        (centre - 0.5 * width, centre + 0.5 * width)
    }
}

/// Relative error of the variance; error of the mean relative to the larger of mean and standard deviation, since near
/// a symmetric cell the mean is a true difference.
fn errors(value: Moments, exact: Moments) -> [f64; 2] {
    let scale = exact.mean.abs().max(exact.variance.sqrt());
    [
        (value.mean - exact.mean).abs() / scale,
        (value.variance / exact.variance - 1.0).abs(),
    ]
}

#[test]
fn moments_are_right_in_every_kind_of_cell() {
    // (name, bounds of the errors of mean and variance, worst found). In a wide bounded cell the variance may be 1/12
    // where its terms are 1 (width 1, near 0), so a few roundings of 1e-16 in each grow twelvefold and more; in narrow
    // cells and half-lines the terms are at most a few times the result.
    let mut kinds = [
        ("narrow", [1e-15, 5e-15]),
        ("half-line", [2e-15, 5e-15]),
        ("wide", [4e-15, 5e-14]),
    ]
    .map(|(name, bounds)| (name, bounds, [(0.0, 0.0, 0.0); 2]));
    for [lower, upper, mean, variance] in fixtures::rows::<4>(include_str!("fixtures/moments.csv")) {
        let width = upper - lower;
        let narrow = width <= 1.0 && (0.5 * (lower + upper) * width).abs() <= 4.0;
        let (_, _, worst) = &mut kinds[if narrow { 0 } else { 1 + usize::from(width.is_finite()) }];
        let value = moments(lower, upper);
        for (worst, error) in worst.iter_mut().zip(errors(value, Moments { mean, variance })) {
            assert!(error.is_finite(), "[{lower:e}, {upper:e}): {value:?}");
            *worst = if error > worst.0 { (error, lower, upper) } else { *worst };
        }
    }
    for (name, bounds, worst) in kinds {
        println!("{name}: mean {:?}, variance {:?}", worst[0], worst[1]);
        assert!(worst[0].0 < bounds[0] && worst[1].0 < bounds[1], "{name}: {worst:?}");
    }
}

#[test]
fn the_mean_of_a_half_line_is_relatively_accurate_however_small() {
    for [lower, upper, exact, _] in fixtures::rows::<4>(include_str!("fixtures/moments.csv")) {
        if lower.is_finite() != upper.is_finite() && exact.abs() > f64::MIN_POSITIVE {
            let error = (mean(lower, upper) / exact - 1.0).abs();
            assert!(error < 4e-15, "[{lower:e}, {upper:e}): {error:e}");
        }
    }
}

#[test]
fn the_reflected_cell_has_exactly_the_reflected_moments() {
    let mut random = Uniform(1);
    for _ in 0..200_000 {
        let (lower, upper) = random.cell();
        let (value, reflected) = (moments(lower, upper), moments(-upper, -lower));
        assert_eq!(
            (reflected.mean, reflected.variance),
            (-value.mean, value.variance),
            "[{lower:e}, {upper:e})"
        );
    }
}

#[test]
fn the_mean_alone_has_the_bits_of_the_moments() {
    let mut random = Uniform(2);
    for _ in 0..200_000 {
        let (lower, upper) = random.cell();
        assert_eq!(
            mean(lower, upper).to_bits(),
            moments(lower, upper).mean.to_bits(),
            "[{lower:e}, {upper:e})"
        );
    }
}

#[test]
fn the_mean_lies_in_the_cell_and_the_variance_below_that_of_a_uniform_or_normal_one() {
    // Truncation to an interval makes a log-concave density's variance at most the normal's, and at most w²/12.
    let mut random = Uniform(3);
    for _ in 0..200_000 {
        let (lower, upper) = random.cell();
        let Moments { mean, variance } = moments(lower, upper);
        let bound = f64::min(1.0, (upper - lower).powi(2) / 12.0) * (1.0 + 1e-13);
        assert!(lower <= mean && mean <= upper, "[{lower:e}, {upper:e}): mean {mean:e}");
        assert!(
            variance >= 0.0 && variance <= bound,
            "[{lower:e}, {upper:e}): variance {variance:e}"
        );
        assert!(variance > 0.0 || lower == upper, "[{lower:e}, {upper:e}): no variance");
    }
}

#[test]
fn symmetric_cells_have_mean_zero_and_the_whole_line_is_the_normal_law() {
    let mut random = Uniform(4);
    for _ in 0..10_000 {
        let bound = 10f64.powf(random.between(-12.0, 3.0));
        assert_eq!(mean(-bound, bound), 0.0, "{bound:e}");
    }
    let Moments { mean, variance } = moments(f64::NEG_INFINITY, f64::INFINITY);
    assert_eq!((mean, variance), (0.0, 1.0));
}

#[test]
fn far_tails_tend_to_the_exponential_law() {
    // mean = l + 1/l − 2/l³ + …, variance = 1/l²·(1 − 6/l² + …), whatever the far bound.
    for exponent in 9..150 {
        let lower = 1.7 * 10f64.powi(exponent);
        for upper in [f64::INFINITY, 2.0 * lower, lower.next_up()] {
            let Moments { mean, variance } = moments(lower, upper);
            assert!(mean == lower || mean == lower.next_up(), "{lower:e}");
            let excess = variance * lower * lower - 1.0;
            assert!(excess.abs() < 2e-15, "[{lower:e}, {upper:e}): {excess:e}");
        }
    }
    let largest = moments(f64::MAX, f64::INFINITY);
    assert_eq!((largest.mean, largest.variance), (f64::MAX, 0.0));
}

#[test]
fn empty_and_undefined_cells_are_not_confused() {
    for bound in [0.0, 1e-300, 0.3, -7.0, 1e10, -1e300, f64::INFINITY, f64::NEG_INFINITY] {
        let Moments { mean, variance } = moments(bound, bound);
        assert_eq!((mean, variance), (bound, 0.0));
    }
    for other in [
        f64::NEG_INFINITY,
        -50.0,
        -0.1,
        0.0,
        0.2,
        3.0,
        1e10,
        f64::INFINITY,
        f64::NAN,
    ] {
        for (lower, upper) in [(f64::NAN, other), (other, f64::NAN)] {
            let Moments { mean, variance } = moments(lower, upper);
            assert!(mean.is_nan() && variance.is_nan(), "[{lower}, {upper})");
        }
    }
}

#[test]
fn the_moments_do_not_jump_where_the_scheme_changes() {
    // Neighbouring cells on either side of a border: their moments differ by less than both forms' rounding.
    let close = |(l1, u1): (f64, f64), (l2, u2): (f64, f64)| {
        let (a, b) = (moments(l1, u1), moments(l2, u2));
        let [mean, variance] = errors(a, b);
        assert!(
            mean < 1e-14 && variance < 1e-13,
            "[{l1:e}, {u1:e}) and [{l2:e}, {u2:e}): {mean:e}, {variance:e}"
        );
    };
    let mut random = Uniform(5);
    for _ in 0..20_000 {
        // w = 1: narrow and wide.
        let lower = random.between(-0.5, 3.5);
        close((lower, lower + 1.0 - 1e-15), (lower, lower + 1.0 + 1e-15));
        // l = 0: tail and straddling.
        let upper = random.between(1.0, 40.0);
        close((0.0, upper), (-1e-16, upper));
        // c·w = 4: narrow and tail, at any distance.
        let width = 10f64.powf(random.between(-6.0, 0.0));
        let centre = 4.0 / width;
        let (lower, upper) = (centre - 0.5 * width, centre + 0.5 * width);
        close((lower, upper), (lower.next_up(), upper.next_up()));
    }
}

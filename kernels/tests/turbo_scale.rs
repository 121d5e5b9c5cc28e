//! The scale that signs leave open, against the likelihood itself.

use qcs_kernels::turbo::Scalars;
use qcs_kernels::turbo::turbo_scale::{Known, Scaled, turbo_scale};

const M: usize = 60;

/// z of an image and its signs, some of which are wrong.
fn signs() -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let z: Vec<f64> = (0..M).map(|i| (i as f64 * 2.4).sin()).collect();
    let positive = |i: usize| z[i] + 0.3 * (i as f64 * 7.7).sin() > 0.0;
    let end = |here: bool, open: f64| if here { 0.0 } else { open };
    let lower = (0..M).map(|i| end(positive(i), f64::NEG_INFINITY)).collect();
    let upper = (0..M).map(|i| end(!positive(i), f64::INFINITY)).collect();
    (z, lower, upper)
}

/// One step from (z, mu, r): what z became beside what it was, and the variance of ln c.
fn step(steps: u32, known: Known, level: f64, d: &[f32], z: &mut [f64], cells: (&[f64], &[f64])) -> (f64, f64) {
    let (before, mut scalars) = (z[1], Scalars::START);
    let (mut mu, mut r) = ([0.5f32], [1.0f32]);
    let scaled = Scaled {
        z,
        mu: &mut mu,
        r: &mut r,
        scalars: &mut scalars,
    };
    turbo_scale(steps, known, cells, level, d, scaled);
    assert_eq!(f64::from(mu[0]), f64::from(r[0]) / 2.0, "mu and r go together");
    let factor = z[1] / before;
    assert!((factor - f64::from(r[0])).abs() < 1e-6, "z goes with them");
    (factor, scalars.scale)
}

/// The normal distribution by the trapezium rule.
fn normal(x: f64) -> f64 {
    let (from, parts) = (-12.0, 20_000);
    let width = (x - from) / f64::from(parts);
    let density = |i: i32| (-0.5 * (from + width * f64::from(i)).powi(2)).exp();
    let inner: f64 = (1..parts).map(density).sum();
    (inner + 0.5 * (density(0) + density(parts))) * width / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn without_a_prior_or_doubt_steps_end_at_the_scale_that_makes_the_signs_most_likely() {
    let (mut z, lower, upper) = signs();
    let likelihood = |z: &[f64], c: f64| -> f64 {
        let sign = |i: usize| if lower[i] == 0.0 { 1.0 } else { -1.0 };
        (0..M).map(|i| normal(sign(i) * c * z[i] / 0.2).ln()).sum()
    };
    let known = Known {
        mean: 0.0,
        spread: 1e6,
        sigma2: 0.04,
        row2: 1.0,
    };
    for _ in 0..60 {
        step(1, known, 0.0, &[1.0], &mut z, (&lower, &upper));
    }
    let [less, best, more] = [0.99, 1.0, 1.01].map(|c| likelihood(&z, c));
    assert!(best > less && best > more, "{less} {best} {more}");
}

#[test]
fn where_no_measurement_is_left_the_brightest_value_goes_to_its_mean_and_has_its_spread() {
    let (mut z, _, _) = signs();
    let cells = (&[f64::NEG_INFINITY; M][..], &[f64::INFINITY; M][..]);
    let known = Known {
        mean: -0.1,
        spread: 0.2,
        sigma2: 0.04,
        row2: 1.5,
    };
    let (factor, variance) = step(1, known, 0.1, &[0.3, 0.8, -2.0], &mut z, cells);
    assert!((factor - (-0.1f64 - 0.8f32.ln() as f64).exp()).abs() < 1e-6, "{factor}");
    assert!((variance - 0.04).abs() < 1e-12, "{variance}");
    let (factor, _) = step(1, known, 0.1, &[0.1], &mut z, cells);
    assert!((factor - 0.3f64.exp()).abs() < 1e-12, "no step is longer: {factor}");
}

#[test]
fn doubt_about_the_own_error_leaves_the_scale_wider() {
    let (z, lower, upper) = signs();
    let known = |sigma2| Known {
        mean: 0.0,
        spread: 1.0,
        sigma2,
        row2: 1.0,
    };
    let variance = |sigma2, level| step(1, known(sigma2), level, &[1.0], &mut z.clone(), (&lower, &upper)).1;
    // The same variance in all, of noise alone and of mu alone.
    let (noise, own) = (variance(0.04, 0.0), variance(0.0, 0.2));
    let told = 1.0 / noise - 1.0;
    let expected = 1.0 / (1.0 / (1.0 / told + 0.16f64.powi(2)) + 1.0);
    assert!((own / expected - 1.0).abs() < 1e-9, "{own} {expected}");
}

#[test]
fn states_that_begin_or_are_far_on_or_have_other_cells_keep_their_scale() {
    let (z, lower, upper) = signs();
    let known = Known {
        mean: 3.0,
        spread: 0.1,
        sigma2: 0.04,
        row2: 1.0,
    };
    let of = |steps, cells: (&[f64], &[f64])| step(steps, known, 0.1, &[1.0], &mut z.clone(), cells);
    for steps in [0, 6, 29] {
        assert_eq!(of(steps, (&lower, &upper)), (1.0, 0.0));
    }
    assert!(of(5, (&lower, &upper)).0 > 1.0);
    for (l, u) in [(0.1, f64::INFINITY), (0.0, 0.5), (-0.5, 0.0)] {
        let (mut lower, mut upper) = (lower.clone(), upper.clone());
        (lower[7], upper[7]) = (l, u);
        assert_eq!(of(3, (&lower, &upper)), (1.0, 0.0), "[{l}, {u})");
    }
}

//! `exp` and the tail integrals against 300-digit values (`tools/fixtures.py`).

use qcs_kernels::special::{TailIntegrals, exp};

mod fixtures;

/// Error in units of the last place of the exact value.
fn ulps(value: f64, exact: f64) -> f64 {
    (value - exact).abs() / (exact.next_up() - exact)
}

#[test]
fn exp_is_within_one_unit_in_the_last_place() {
    let mut worst = (0.0, 0.0);
    for [x, exact] in fixtures::rows::<2>(include_str!("fixtures/exp.csv")) {
        let error = ulps(exp(x), exact);
        worst = if error > worst.0 { (error, x) } else { worst };
    }
    println!("exp: {:.3} ulp at {:e}", worst.0, worst.1);
    assert!(worst.0 <= 1.0, "{worst:?}");
}

#[test]
fn exp_has_the_right_limits() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(-0.0), 1.0);
    for x in [-746.0, -1e5, -1e300, f64::NEG_INFINITY] {
        assert_eq!(exp(x).to_bits(), 0, "{x}");
    }
    for x in [710.0, 1e5, 1e300, f64::INFINITY] {
        assert_eq!(exp(x), f64::INFINITY, "{x}");
    }
    assert!(exp(f64::NAN).is_nan());
}

#[test]
fn exp_is_monotone_around_the_seams_of_its_reduction() {
    for n in -1000..1000 {
        let mut x = (f64::from(n) + 0.5) * std::f64::consts::LN_2;
        for _ in 0..4 {
            x = x.next_down();
        }
        for _ in 0..8 {
            assert!(exp(x) <= exp(x.next_up()), "{x:e}");
            x = x.next_up();
        }
    }
}

#[test]
fn tail_integrals_are_right_from_zero_to_the_largest_number() {
    // Ten roundings follow the polynomial, whose own condition number is 4: eight units in the last place.
    let mut worst = [(0.0, 0.0); 3];
    for [x, r, g, k] in fixtures::rows::<4>(include_str!("fixtures/tail_integrals.csv")) {
        let tail = TailIntegrals::at(x);
        for (worst, (value, exact)) in worst.iter_mut().zip([(tail.r(), r), (tail.g(), g), (tail.k(), k)]) {
            let error = ulps(value, exact);
            *worst = if error > worst.0 { (error, x) } else { *worst };
        }
    }
    println!("R, G, K in ulp: {worst:?}");
    assert!(worst.iter().all(|worst| worst.0 <= 8.0), "{worst:?}");
}

#[test]
fn tail_integrals_vanish_at_infinity_and_keep_nan() {
    let tail = TailIntegrals::at(f64::INFINITY);
    assert_eq!((tail.r(), tail.g(), tail.k()), (0.0, 0.0, 0.0));
    assert_eq!((tail.t0, tail.t1), (1.0, 1.0));
    let tail = TailIntegrals::at(f64::NAN);
    assert!(tail.r().is_nan() && tail.g().is_nan() && tail.k().is_nan());
}

#[test]
fn tail_integrals_obey_their_recurrence_and_fall() {
    // R = K + x·G holds by construction; G = 1 − x·R does not, and neither does that each integral decreases.
    let mut previous = TailIntegrals::at(0.0);
    for i in 1..200_000 {
        let x = f64::from(i) * 2.5e-4;
        let tail = TailIntegrals::at(x);
        assert!((tail.g() - (1.0 - x * tail.r())).abs() <= 4.0 * f64::EPSILON, "{x}");
        assert!(
            tail.r() < previous.r() && tail.g() < previous.g() && tail.k() < previous.k(),
            "{x}"
        );
        previous = tail;
    }
}

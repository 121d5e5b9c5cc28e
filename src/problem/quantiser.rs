//! Q of y = Q(Ax + n): from a real number to the cell that holds it.

use crate::error::{Error, Result};

/// The step of the uniform mid-rise quantiser with the least mean square error for a unit Gaussian
/// (Max 1960), for 2 to 8 bits. Where it stands, sum over cells of r·E[(x − r·step); cell] is 0,
/// r·step being the cell's middle.
const MAX_STEP: [f64; 7] = [
    0.995_686_685_943_506,
    0.586_019_441_443_487,
    0.335_200_612_199_973,
    0.188_138_790_279_918,
    0.104_063_009_442_015,
    0.056_867_672_382_358_5,
    0.030_762_387_582_324_6,
];

/// A scalar quantiser. It belongs to the problem, never to the images at hand.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantiser {
    /// 1 bit: the sign; 0 counts as +1.
    Sign,
    /// 2 to 8 bits: thresholds at k·step for |k| < 2^(bits − 1); the two outer cells are unbounded.
    Uniform { bits: u8, step: f64 },
}

impl Quantiser {
    /// The quantiser of `bits` bits with the given step, or with Max's step for a Gaussian of
    /// variance `variance`.
    ///
    /// # Errors
    /// [`Error::Usage`] if `bits` is not 1 to 8, if the step is not positive and finite, or if a
    /// step comes with 1 bit.
    pub fn new(bits: u8, step: Option<f64>, variance: f64) -> Result<Self> {
        match (bits, step) {
            (1, None) => Ok(Self::Sign),
            (1, Some(_)) => Err(Error::usage(
                "a 1-bit quantiser has no step: leave the step out or take 2 to 8 bits",
            )),
            (2..=8, Some(step)) => Self::uniform(bits, step),
            (2..=8, None) => Self::uniform(bits, MAX_STEP[usize::from(bits) - 2] * variance.sqrt()),
            _ => Err(bits_out_of_range(bits)),
        }
    }

    /// The uniform mid-rise quantiser of 2 to 8 bits.
    ///
    /// # Errors
    /// [`Error::Usage`] if `bits` is not 2 to 8 or `step` is not positive and finite.
    pub fn uniform(bits: u8, step: f64) -> Result<Self> {
        if !(2..=8).contains(&bits) {
            return Err(bits_out_of_range(bits));
        }
        if !(step.is_normal() && step > 0.0) {
            return Err(Error::usage(format!(
                "the quantiser's step is {step}: it must be positive and finite"
            )));
        }
        Ok(Self::Uniform { bits, step })
    }

    /// The number of bits, 1 to 8.
    pub fn bits(&self) -> u8 {
        match self {
            Self::Sign => 1,
            Self::Uniform { bits, .. } => *bits,
        }
    }

    /// The distance of two thresholds; a 1-bit quantiser has none.
    pub fn step(&self) -> Option<f64> {
        match self {
            Self::Sign => None,
            Self::Uniform { step, .. } => Some(*step),
        }
    }

    /// The cell `[lower, upper)` with lower ≤ value < upper. Infinite values fall into the outer
    /// cells.
    ///
    /// # Panics
    /// If `value` is NaN.
    pub fn cell(&self, value: f64) -> (f64, f64) {
        assert!(!value.is_nan(), "NaN lies in no cell");
        let (thresholds, step) = match *self {
            Self::Sign => (0.0, 1.0),
            Self::Uniform { bits, step } => (f64::from((1u32 << (bits - 1)) - 1), step),
        };
        // The cell's lower threshold is k·step; k = −thresholds − 1 and k = thresholds are the
        // unbounded cells.
        let mut k = (value / step).floor().clamp(-thresholds - 1.0, thresholds);
        // value/step may round across a threshold; the comparison with the threshold itself
        // decides.
        if k > -thresholds - 1.0 && value < k * step {
            k -= 1.0;
        } else if k < thresholds && value >= (k + 1.0) * step {
            k += 1.0;
        }
        let lower = if k < -thresholds { f64::NEG_INFINITY } else { k * step };
        let upper = if k >= thresholds {
            f64::INFINITY
        } else {
            (k + 1.0) * step
        };
        (lower, upper)
    }
}

fn bits_out_of_range(bits: u8) -> Error {
    Error::usage(format!("{bits} bits: a quantiser has 1 to 8 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn the_sign_of_zero_is_plus_one() {
        let q = Quantiser::new(1, None, 1.0).unwrap();
        for value in [0.0, -0.0, 1e-300, 3.0, INF] {
            assert_eq!(q.cell(value), (0.0, INF));
        }
        for value in [-1e-300, -f64::MIN_POSITIVE / 4.0, -3.0, -INF] {
            assert_eq!(q.cell(value), (-INF, 0.0));
        }
    }

    #[test]
    fn every_bit_count_has_its_cells_with_closed_lower_ends() {
        for bits in 2..=8u8 {
            let step = 0.3;
            let q = Quantiser::uniform(bits, step).unwrap();
            let half = 1i32 << (bits - 1);
            let mut cells = Vec::new();
            for k in -half..half {
                let lower = if k == -half { -INF } else { f64::from(k) * step };
                let upper = if k == half - 1 { INF } else { f64::from(k + 1) * step };
                let inside = (f64::from(k) + 0.5) * step;
                assert_eq!(q.cell(inside), (lower, upper), "{bits} bits, k = {k}");
                if lower.is_finite() {
                    assert_eq!(q.cell(lower), (lower, upper), "{bits} bits, lower end of k = {k}");
                }
                if upper.is_finite() {
                    assert_eq!(
                        q.cell(upper.next_down()),
                        (lower, upper),
                        "{bits} bits, below the end of k = {k}"
                    );
                }
                cells.push((lower, upper));
            }
            assert_eq!(cells.len(), 1 << bits);
            assert!(cells.windows(2).all(|w| w[0].1 == w[1].0), "cells tile the line");
            assert_eq!(q.cell(INF), cells[cells.len() - 1]);
            assert_eq!(q.cell(-INF), cells[0]);
        }
    }

    /// The derivative of the mean square error by the step, over −2·step⁰: sum of r·∫(x −
    /// r·step)·phi over the positive half, by Simpson's rule in each cell.
    fn slope(bits: u8, step: f64) -> f64 {
        let half = 1usize << (bits - 1);
        let phi = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        (0..half)
            .map(|k| {
                let r = k as f64 + 0.5;
                let (a, b) = (
                    k as f64 * step,
                    if k == half - 1 { 12.0 } else { (k as f64 + 1.0) * step },
                );
                let panels = 2000;
                let h = (b - a) / (2 * panels) as f64;
                let f = |i: usize| (a + i as f64 * h - r * step) * phi(a + i as f64 * h);
                let inner: f64 = (1..2 * panels)
                    .map(|i| if i % 2 == 1 { 4.0 * f(i) } else { 2.0 * f(i) })
                    .sum();
                r * h / 3.0 * (f(0) + inner + f(2 * panels))
            })
            .sum()
    }

    #[test]
    fn default_steps_minimise_the_mean_square_error_of_a_gaussian() {
        for bits in 2..=8u8 {
            let step = MAX_STEP[usize::from(bits) - 2];
            assert!(slope(bits, step * (1.0 - 1e-6)) > 0.0, "{bits} bits: too large");
            assert!(slope(bits, step * (1.0 + 1e-6)) < 0.0, "{bits} bits: too small");
        }
        for (bits, published) in [(2, 0.9957), (3, 0.5860), (4, 0.3352), (5, 0.1881)] {
            assert!(
                (MAX_STEP[bits - 2] - published).abs() < 5.1e-5,
                "{bits} bits against Max 1960"
            );
        }
    }

    #[test]
    fn the_default_step_scales_with_the_standard_deviation() {
        let q = Quantiser::new(3, None, 4.0).unwrap();
        assert_eq!(q.step(), Some(2.0 * MAX_STEP[1]));
        assert_eq!(Quantiser::new(3, Some(0.25), 4.0).unwrap().step(), Some(0.25));
    }

    #[test]
    fn settings_that_make_no_sense_are_usage_errors() {
        let refused = |bits, step| matches!(Quantiser::new(bits, step, 1.0), Err(Error::Usage(_)));
        assert!(refused(0, None) && refused(9, None) && refused(255, Some(0.1)));
        assert!(refused(1, Some(0.5)));
        for step in [0.0, -0.0, -1.0, f64::NAN, INF, -INF] {
            assert!(refused(2, Some(step)), "step {step}");
        }
        assert!(Quantiser::new(2, None, f64::NAN).is_err(), "a variance that is NaN");
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_cell(bits in 1u8..=8, exponent in -12i32..12, mantissa in 1.0f64..10.0,
                                    value in prop_oneof![-3.0f64..3.0, prop::num::f64::NORMAL, prop::num::f64::ZERO]) {
            let step = mantissa * 10f64.powi(exponent);
            let q = if bits == 1 { Quantiser::Sign } else { Quantiser::uniform(bits, step).unwrap() };
            for value in [value, value * step].into_iter().filter(|v| v.is_finite()) {
                let (lower, upper) = q.cell(value);
                prop_assert!(lower <= value && value < upper, "{value} not in [{lower}, {upper})");
            }
        }

        #[test]
        fn thresholds_and_their_neighbours_fall_on_the_right_side(bits in 2u8..=8, step in 1e-6f64..1e6, k in -127i32..=127) {
            let reach = (1i32 << (bits - 1)) - 1;
            let threshold = f64::from(k.clamp(-reach, reach)) * step;
            let q = Quantiser::uniform(bits, step).unwrap();
            prop_assert_eq!(q.cell(threshold).0, threshold);
            prop_assert_eq!(q.cell(threshold.next_down()).1, threshold);
        }
    }
}

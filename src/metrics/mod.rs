//! How good a reconstruction is: against the truth where there is one, against the measurements always.

mod calibration;
mod digits;
pub(crate) mod number;
mod ssim;
mod summary;

pub use calibration::{Bin, Calibration, Coverage, INTERVALS, Tally};
pub use digits::Digits;
pub use ssim::ssim;
pub use summary::Summary;

/// Peak signal-to-noise ratio in dB of an image clamped to [0, 1], data range 1.
///
/// Infinite where the two are equal; NaN where the image is. Panics if the lengths differ.
pub fn psnr(x: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(x.len(), truth.len(), "image and truth must have one shape");
    let squares: f64 = x
        .iter()
        .zip(truth)
        .map(|(&x, &truth)| (clamped(x) - clamped(truth)).powi(2))
        .sum();
    -10.0 * (squares / x.len() as f64).log10()
}

/// [`psnr`] of the image times the factor that brings it closest to the truth: what an image of the wrong contrast is worth, which signs
/// do not tell.
pub fn psnr_scaled(x: &[f32], truth: &[f32]) -> f64 {
    let sum = |f: fn(f64, f64) -> f64| -> f64 {
        let pairs = x.iter().zip(truth);
        pairs.map(|(&x, &truth)| f(clamped(x), clamped(truth))).sum()
    };
    let (along, own) = (sum(|x, truth| x * truth), sum(|x, _| x * x));
    // An image of zeros has no contrast to mend.
    let factor = if own > 0.0 { along / own } else { 1.0 };
    let scaled: Vec<f32> = x.iter().map(|&x| (factor * clamped(x)) as f32).collect();
    psnr(&scaled, truth)
}

/// The share of measurements whose `A·x` lies in its cell [lower, upper).
///
/// A lost measurement, (−inf, inf), is consistent with every finite value. NaN without measurements.
/// Panics if the lengths differ.
pub fn consistency(a_x: &[f64], lower: &[f64], upper: &[f64]) -> f64 {
    assert!(
        a_x.len() == lower.len() && a_x.len() == upper.len(),
        "each measurement has one cell"
    );
    let inside = a_x
        .iter()
        .zip(lower.iter().zip(upper))
        .filter(|&(value, (lower, upper))| lower <= value && value < upper)
        .count();
    inside as f64 / a_x.len() as f64
}

/// What an estimate's measurements are compared with: their cells, the squared norms of A's rows, and the noise.
pub struct Believed<'a> {
    pub lower: &'a [f64],
    pub upper: &'a [f64],
    /// diag(A·Aᵀ)
    pub diag: &'a [f64],
    pub sigma: f64,
    /// The root mean squared error per pixel that the estimate is believed to have
    pub error: f64,
}

/// Deviations beyond which nothing is an accident, and the share of measurements that may lie there all the same.
const FAR: f64 = 5.0;
const FEW: f64 = 0.02;
/// Of so many signs, a share of agreement up to the second is one that coins would have.
const SIGNS: usize = 50;
const CHANCE: f64 = 0.6;

/// Whether the measurements contradict an estimate: many lie farther from `A·x` than the noise and the believed error explain, or
/// only half-lines were measured and they agree with it no better than by chance.
pub fn contradicted(a_x: &[f64], believed: &Believed<'_>) -> bool {
    let (mut far, mut signs, mut agree) = (0, 0, 0);
    for (i, &z) in a_x.iter().enumerate() {
        let (lower, upper) = (believed.lower[i], believed.upper[i]);
        let deviation = (believed.diag[i] * believed.error.powi(2) + believed.sigma.powi(2)).sqrt();
        far += usize::from((lower - z).max(z - upper) > FAR * deviation);
        if lower.is_infinite() != upper.is_infinite() {
            signs += 1;
            agree += usize::from(lower <= z && z < upper);
        }
    }
    let by_chance = signs == a_x.len() && signs >= SIGNS && agree as f64 <= CHANCE * signs as f64;
    by_chance || far as f64 > FEW * a_x.len() as f64
}

/// The value that a picture shows.
pub(crate) fn clamped(value: f32) -> f64 {
    f64::from(value.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_square_error_of_one_hundredth_is_20_db() {
        let (x, truth) = ([0.5f32; 12], [0.6f32; 12]);
        assert!((psnr(&x, &truth) - 20.0).abs() < 1e-5);
    }

    #[test]
    fn the_best_scale_brings_back_an_image_of_half_the_contrast() {
        let truth: Vec<f32> = (0..64).map(|i| i as f32 / 64.0).collect();
        let half: Vec<f32> = truth.iter().map(|x| x / 2.0).collect();
        assert!(psnr(&half, &truth) < 11.0 && psnr_scaled(&half, &truth) > 100.0);
        assert_eq!(psnr_scaled(&[0.0; 64], &truth), psnr(&[0.0; 64], &truth));
    }

    #[test]
    fn equal_images_have_infinite_psnr_and_overshoot_beyond_the_range_costs_nothing() {
        assert_eq!(psnr(&[0.0, 1.0], &[0.0, 1.0]), f64::INFINITY);
        assert_eq!(psnr(&[-0.3, 1.2], &[0.0, 1.0]), f64::INFINITY);
    }

    #[test]
    fn an_image_with_a_nan_has_no_psnr() {
        assert!(psnr(&[f32::NAN, 0.5], &[0.0, 1.0]).is_nan());
    }

    #[test]
    fn measurements_contradict_what_they_are_far_from_and_what_they_agree_with_by_chance() {
        let inf = f64::INFINITY;
        let of = |cell: fn(usize) -> (f64, f64), z: f64| {
            let (lower, upper): (Vec<f64>, Vec<f64>) = (0..100).map(cell).unzip();
            let believed = Believed {
                lower: &lower,
                upper: &upper,
                diag: &[1.0; 100],
                sigma: 0.03,
                error: 0.04,
            };
            contradicted(&[z; 100], &believed)
        };
        // One deviation is 0.05.
        assert!(!of(|_| (1.0, 2.0), 0.8));
        assert!(of(|_| (1.0, 2.0), 0.7));
        assert!(
            !of(|i| if i < 2 { (1.0, 2.0) } else { (0.0, 1.0) }, 0.5),
            "two may be wrong"
        );
        assert!(!of(|_| (0.0, f64::INFINITY), 0.01));
        assert!(of(
            |i| if i % 2 == 0 {
                (0.0, f64::INFINITY)
            } else {
                (-f64::INFINITY, 0.0)
            },
            0.01
        ));
        assert!(
            !of(|_| (-f64::INFINITY, f64::INFINITY), inf.recip()),
            "lost ones say nothing"
        );
    }

    #[test]
    fn consistency_counts_cells_that_hold_their_lower_end_but_not_their_upper() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let a_x = [0.0, 1.0, -5.0, 0.5, nan];
        let lower = [0.0, 0.0, -inf, 1.0, -inf];
        let upper = [1.0, 1.0, 0.0, inf, inf];
        assert_eq!(consistency(&a_x, &lower, &upper), 2.0 / 5.0);
    }
}

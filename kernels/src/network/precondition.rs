//! How a network that knows the noise level is told it, and what its output means: the preconditioning of EDM (Karras et al., 2022).
//!
//! EDM's images lie in [-1, 1]: here x' = 2x − 1 and sigma' = 2·sigma, with s = ½ the deviation of the data and
//! t² = sigma'² + s². The network sees x'/t, whose variance is one at every level, and ln(sigma')/4; of its output F the
//! denoised image is (s/t)²·x' + (s·sigma'/t)·F, brought to [-1, 1] where it leaves it.

use crate::float::Float;
use crate::philox::ln;

const DATA_DEVIATION: f64 = 0.5;

/// What one state's level makes of it.
#[derive(Clone, Copy, Debug)]
pub struct Precondition {
    /// 1/t: of x' on its way in
    pub scale: f32,
    /// ln(sigma')/4
    pub level: f32,
    /// s/(t·sigma): of F in the score
    pub output: f32,
    /// 2/t²: of x' in the score, with a minus
    pub skip: f32,
    /// 1/sigma²: of an image minus x in the score
    pub precision: f32,
}

impl Precondition {
    /// For a noise level of images in [0, 1].
    pub fn new(sigma: f64) -> Self {
        let doubled = 2.0 * sigma;
        let variance = doubled * doubled + DATA_DEVIATION * DATA_DEVIATION;
        let total = variance.root();
        Self {
            scale: (1.0 / total) as f32,
            level: 0.25 * ln(doubled as f32),
            output: (DATA_DEVIATION / (total * sigma)) as f32,
            skip: (2.0 / variance) as f32,
            precision: (1.0 / (sigma * sigma)) as f32,
        }
    }

    /// A pixel of the network's input.
    pub fn input(&self, x: f32) -> f32 {
        self.scale * (2.0 * x - 1.0)
    }

    /// The score of a pixel `x`, where the network says `f`. The expected image lies where images lie, in [0, 1], also where the
    /// network, far from all it was trained on, says otherwise.
    pub fn score(&self, x: f32, f: f32) -> f32 {
        let score = self.output * f - self.skip * (2.0 * x - 1.0);
        let (lowest, highest) = (-x * self.precision, (1.0 - x) * self.precision);
        if score < lowest {
            lowest
        } else if score > highest {
            highest
        } else {
            score // or not a number, to be found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an output of zero the denoised image is s²/t² of the way from grey to x, at every level, as far as images go.
    #[test]
    fn without_a_network_the_denoised_image_is_that_of_gaussian_data() {
        for sigma in [0.001, 0.01, 0.33, 1.0, 5.0, 50.0] {
            let p = Precondition::new(sigma);
            for x in [-3.0f32, 0.0, 0.2, 1.0, 4.0] {
                let denoised = f64::from(x) + sigma * sigma * f64::from(p.score(x, 0.0));
                // Deviation ¼ about ½ in [0, 1]
                let expected = (0.5 + (f64::from(x) - 0.5) * 0.0625 / (0.0625 + sigma * sigma)).clamp(0.0, 1.0);
                assert!(
                    (denoised - expected).abs() < 1e-6 * (1.0 + expected.abs() + f64::from(x.abs())),
                    "{sigma} {x}: {denoised} {expected}"
                );
            }
        }
    }

    /// A network that has failed is not taken for one that says black or white.
    #[test]
    fn an_output_that_is_not_a_number_stays_so() {
        let p = Precondition::new(0.33);
        assert!(p.score(0.5, f32::NAN).is_nan() && p.score(f32::NAN, 0.5).is_nan());
        assert_eq!(p.score(0.5, f32::INFINITY), 0.5 * p.precision);
    }

    /// Whatever the output, as EDM writes it down, in f64, brought to where images lie.
    #[test]
    fn the_score_is_that_of_edms_denoised_image() {
        for sigma in [0.001, 0.01, 0.33, 1.0, 5.0, 50.0] {
            let p = Precondition::new(sigma);
            for (x, f) in [(0.3f32, 1.5f32), (-2.0, -0.7), (1.0, 0.01)] {
                let (x1, sigma1) = (2.0 * f64::from(x) - 1.0, 2.0 * sigma);
                let t = (sigma1 * sigma1 + 0.25).sqrt();
                let image = (0.5 / t).powi(2) * x1 + 0.5 * sigma1 / t * f64::from(f);
                let score = (((image + 1.0) / 2.0).clamp(0.0, 1.0) - f64::from(x)) / (sigma * sigma);
                let scale = score.abs() + (f64::from(p.output * f)).abs() + (f64::from(p.skip) * x1).abs();
                assert!(
                    (f64::from(p.score(x, f)) - score).abs() < 4e-7 * scale,
                    "{sigma}: {} {score}",
                    p.score(x, f)
                );
                assert!((f64::from(p.input(x)) - x1 / t).abs() < 4e-7 * (x1 / t).abs());
                assert!((f64::from(p.level) - sigma1.ln() / 4.0).abs() < 1e-7 * (1.0 + sigma1.ln().abs()));
            }
        }
    }
}

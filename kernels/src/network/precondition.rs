//! How a network that knows the noise level is given an image, and what its output means. Every kind of network fits one frame.
//!
//! Networks work on images in [-1, 1]: here x' = 2x − 1 and sigma' = 2·sigma. The network sees a·x', and of its output F the score
//! of x is output·F − skip·x'; the denoised image that belongs to it is brought to where images lie.
//!
//! | kind | a | output | skip |
//! |---|---|---|---|
//! | EDM (Karras et al., 2022), s = ½ the deviation of the data, t² = sigma'² + s² | 1/t | s/(t·sigma) | 2/t² |
//! | epsilon, the noise of a variance-preserving process | 1/√(1 + sigma'²) | −1/sigma | 0 |
//! | velocity of the same | 1/√(1 + sigma'²) | −1/(sigma·√(1 + sigma'²)) | 2/(1 + sigma'²) |
//! | sample, the image of the same | 1/√(1 + sigma'²) | 1/(2·sigma²) | 1/(2·sigma²) |
//! | exploding, the noise of a variance-exploding process, negated | 1 | 1/sigma | 0 |
//! | denoised: both images in [0, 1] | x itself | 1/sigma² | x/sigma² |

use crate::float::Float;
use crate::philox::ln;

const DATA_DEVIATION: f64 = 0.5;

/// What a network's output means; a kernel gets the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Parametrisation {
    /// EDM's mixture of noise and image
    Edm = 0,
    /// The noise of a variance-preserving process
    Epsilon = 1,
    /// Its velocity
    Velocity = 2,
    /// Its image
    Sample = 3,
    /// The negated noise of a variance-exploding process
    Exploding = 4,
    /// The image, both it and the input in [0, 1]
    Denoised = 5,
}

impl Parametrisation {
    /// That of a code; of an unknown one, the last.
    #[inline(always)]
    pub const fn of(code: u32) -> Self {
        match code {
            0 => Self::Edm,
            1 => Self::Epsilon,
            2 => Self::Velocity,
            3 => Self::Sample,
            4 => Self::Exploding,
            _ => Self::Denoised,
        }
    }

    /// What a kernel gets.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// What one state's level makes of it.
#[derive(Clone, Copy, Debug)]
pub struct Precondition {
    /// a, of x' on its way in
    pub scale: f32,
    /// 1: what is taken from 2x to give x'; 0 where the network's images are in [0, 1]
    pub centre: f32,
    /// What a channel of the input says of the level, where it has one: ln(sigma')/4, or sigma for a denoiser
    pub level: f32,
    /// Of F in the score
    pub output: f32,
    /// Of x' in the score, with a minus
    pub skip: f32,
    /// 1/sigma²: of an image minus x in the score
    pub precision: f32,
}

impl Precondition {
    /// For a noise level of images in [0, 1].
    #[inline(always)]
    pub fn new(kind: Parametrisation, sigma: f64) -> Self {
        let doubled = 2.0 * sigma;
        let deviation = match kind {
            Parametrisation::Edm => DATA_DEVIATION,
            _ => 1.0,
        };
        let variance = doubled * doubled + deviation * deviation;
        let total = variance.root();
        let precision = 1.0 / (sigma * sigma);
        let (scale, output, skip) = match kind {
            Parametrisation::Edm => (1.0 / total, DATA_DEVIATION / (total * sigma), 2.0 / variance),
            Parametrisation::Epsilon => (1.0 / total, -1.0 / sigma, 0.0),
            Parametrisation::Velocity => (1.0 / total, -1.0 / (total * sigma), 2.0 / variance),
            Parametrisation::Sample => (1.0 / total, 0.5 * precision, 0.5 * precision),
            Parametrisation::Exploding => (1.0, 1.0 / sigma, 0.0),
            Parametrisation::Denoised => (0.5, precision, 0.5 * precision),
        };
        Self {
            scale: scale as f32,
            centre: if kind == Parametrisation::Denoised { 0.0 } else { 1.0 },
            level: match kind {
                Parametrisation::Denoised => sigma as f32,
                _ => 0.25 * ln(doubled as f32),
            },
            output: output as f32,
            skip: skip as f32,
            precision: precision as f32,
        }
    }

    /// A pixel of the network's input.
    pub fn input(&self, x: f32) -> f32 {
        self.scale * (2.0 * x - self.centre)
    }

    /// The score of a pixel `x`, where the network says `f`. The expected image lies where images lie, in [0, 1], also where the
    /// network, far from all it was trained on, says otherwise.
    pub fn score(&self, x: f32, f: f32) -> f32 {
        let score = self.output * f - self.skip * (2.0 * x - self.centre);
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
            let p = Precondition::new(Parametrisation::Edm, sigma);
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
        let p = Precondition::new(Parametrisation::Edm, 0.33);
        assert!(p.score(0.5, f32::NAN).is_nan() && p.score(f32::NAN, 0.5).is_nan());
        assert_eq!(p.score(0.5, f32::INFINITY), 0.5 * p.precision);
    }

    /// Whatever the output, as EDM writes it down, in f64, brought to where images lie.
    #[test]
    fn the_score_is_that_of_edms_denoised_image() {
        for sigma in [0.001, 0.01, 0.33, 1.0, 5.0, 50.0] {
            let p = Precondition::new(Parametrisation::Edm, sigma);
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

    /// Each kind against its own definition: a network that says what the kind means of a known image gives that image's score.
    #[test]
    fn every_kind_gives_the_score_of_the_image_that_its_output_means() {
        for sigma in [0.01f64, 0.33, 5.0] {
            let (image, x) = (0.7f64, 0.7 + 0.8 * sigma);
            let (image1, x1, sigma1) = (2.0 * image - 1.0, 2.0 * x - 1.0, 2.0 * sigma);
            let (noise, root) = ((x1 - image1) / sigma1, (1.0 + sigma1 * sigma1).sqrt());
            let expected = (image - x) / (sigma * sigma);
            for (kind, said) in [
                (Parametrisation::Epsilon, noise),
                // With alpha = 1/root and deviation sigma'/root: alpha·noise − deviation·image
                (Parametrisation::Velocity, (noise - sigma1 * image1) / root),
                (Parametrisation::Sample, image1),
                (Parametrisation::Exploding, -noise),
                (Parametrisation::Denoised, image),
            ] {
                let p = Precondition::new(kind, sigma);
                let score = f64::from(p.score(x as f32, said as f32));
                let size = expected.abs() + f64::from((p.skip * (2.0 * x as f32)).abs());
                assert!(
                    (score - expected).abs() < 1e-6 * size,
                    "{kind:?} {sigma}: {score} {expected}"
                );
            }
        }
    }
}

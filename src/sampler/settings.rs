//! The sampler's settings.

use crate::engine::Step;
use crate::likelihood::{EpStart, Likelihood, Method};
use crate::prior::Schedule;
use crate::{Error, ImageShape, Result};

/// The factor of the likelihood score.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GammaRule {
    /// gamma = xi·‖prior score‖/‖likelihood score‖, per image and step
    Adaptive { xi: f64 },
    /// The same factor throughout
    Constant { gamma: f64 },
}

/// Everything that decides the samples, besides the prior, the noise levels and the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub likelihood: Likelihood,
    /// K, Langevin steps at each noise level
    pub steps_per_level: usize,
    /// epsilon/beta_T²: the step size is alpha_t = epsilon·beta_t²/beta_T² = step_scale·beta_t². Given this way it does
    /// not change meaning with the schedule's last level.
    pub step_scale: f64,
    /// The share of a step's movement that the next one repeats, at the next one's scale: 0 is the paper's sampler, larger
    /// shares cross the posterior in fewer steps. Underdamped Langevin dynamics with friction 1 − momentum.
    pub momentum: f64,
    pub gamma: GammaRule,
    /// Ends with x + beta_T²·score, NCSNv2's final denoising
    pub denoise: bool,
    /// Samples drawn for each image
    pub chains: usize,
    pub seed: u64,
    /// States worked on at once; changes speed and memory, never results
    pub batch: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            likelihood: Likelihood::default(),
            steps_per_level: 3,
            step_scale: 1.5,
            momentum: 0.0,
            gamma: GammaRule::Adaptive { xi: 0.5 },
            denoise: true,
            chains: 1,
            seed: 0,
            batch: 8,
        }
    }
}

impl Settings {
    /// # Errors
    /// If a number is out of its range; the message names the flag.
    pub fn check(&self) -> Result<()> {
        let positive = |name: &str, value: f64| {
            if value > 0.0 && value.is_finite() {
                Ok(())
            } else {
                Err(Error::usage(format!("{name} must be positive and finite, not {value}")))
            }
        };
        let at_least_one = |name: &str, value: usize| match value {
            0 => Err(Error::usage(format!("{name} must be at least 1"))),
            _ => Ok(()),
        };
        positive("the step (--step-scale or --epsilon)", self.step_scale)?;
        if !(0.0..1.0).contains(&self.momentum) {
            let momentum = self.momentum;
            return Err(Error::usage(format!(
                "--momentum must be at least 0 and below 1, not {momentum}"
            )));
        }
        match self.gamma {
            GammaRule::Adaptive { xi } => positive("--xi", xi)?,
            GammaRule::Constant { gamma } => positive("--gamma", gamma)?,
        }
        at_least_one("--steps-per-level", self.steps_per_level)?;
        at_least_one("--chains", self.chains)?;
        at_least_one("--batch", self.batch)?;
        if self.likelihood.method == Method::Ep {
            at_least_one("--ep-iters", self.likelihood.ep_iterations)?;
        }
        if self.chains >= 1 << 24 {
            return Err(Error::usage(
                "--chains must be below 2^24: the noise is keyed by 24 bits of it",
            ));
        }
        Ok(())
    }

    /// Whether a state has a velocity beside its x.
    pub fn has_velocity(&self) -> bool {
        self.momentum != 0.0
    }

    /// The step of this number at noise level `beta`, after one at `previous` if it is not the first. Movements are kept in
    /// units of the level, and the noise is what leaves a Gaussian as it is when the step is small.
    pub fn step(&self, beta: f64, previous: Option<f64>, index: u32) -> Step {
        let alpha = self.step_scale * beta * beta;
        Step {
            beta,
            alpha,
            noise: (2.0 * alpha * (1.0 - self.momentum)).sqrt(),
            momentum: previous.map_or(0.0, |previous| self.momentum * beta / previous),
            index,
        }
    }
}

/// The paper's settings for one data set, with a step that works.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    pub channels: usize,
    pub size: usize,
    /// M of the paper's experiments
    pub measurements: usize,
    pub sigma_begin: f64,
    pub sigma_end: f64,
    pub levels: usize,
    pub steps_per_level: usize,
    pub step_scale: f64,
    pub xi: f64,
    /// `E[x²]` over the data set's pixels; the quantiser's default step follows from it
    pub mean_square: f64,
}

/// Measured with the starter prior on ten of the last 500 MNIST training digits (1 bit, M = 400, kappa = 1000, T = 232,
/// K = 5): 18.8, 19.6, 19.9 and 19.3 dB (± 0.8) at 0.5, 1, 1.5 and 2. The released code's epsilon = 0.0002 is 2, the
/// limit of stability of a Gaussian prior; the paper's 0.002 is 20, at which nothing is recovered (12.3 dB).
const STEP_SCALE: f64 = 1.5;

pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "mnist",
        channels: 1,
        size: 28,
        measurements: 400,
        sigma_begin: 50.0,
        sigma_end: 0.01,
        levels: 232,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.5,
        mean_square: 0.1120,
    },
    Preset {
        name: "cifar10",
        channels: 3,
        size: 32,
        measurements: 2000,
        sigma_begin: 50.0,
        sigma_end: 0.01,
        levels: 232,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.5,
        mean_square: 0.2868,
    },
    Preset {
        name: "celeba",
        channels: 3,
        size: 64,
        measurements: 4000,
        sigma_begin: 90.0,
        sigma_end: 0.01,
        levels: 500,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.3,
        mean_square: 0.28,
    },
];

impl Preset {
    pub fn find(name: &str) -> Result<&'static Self> {
        PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            Error::usage(format!("unknown preset {name:?}; there are {}", names.join(", ")))
        })
    }

    /// The preset whose data have this shape.
    pub fn of_shape(shape: ImageShape) -> Option<&'static Self> {
        PRESETS
            .iter()
            .find(|p| ImageShape::new(p.channels, p.size, p.size) == shape)
    }

    pub fn schedule(&self) -> Schedule {
        Schedule::geometric(self.sigma_begin, self.sigma_end, self.levels).expect("presets hold valid schedules")
    }

    pub fn settings(&self) -> Settings {
        Settings {
            likelihood: Likelihood {
                method: Method::Ep,
                ep_iterations: 5,
                ep_start: EpStart::Unit,
            },
            steps_per_level: self.steps_per_level,
            step_scale: self.step_scale,
            gamma: GammaRule::Adaptive { xi: self.xi },
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid() {
        for preset in &PRESETS {
            assert_eq!(preset.schedule().len(), preset.levels);
            preset.settings().check().unwrap();
            assert!(preset.measurements < preset.channels * preset.size * preset.size);
            assert_eq!(Preset::find(preset.name).unwrap().name, preset.name);
        }
        assert!(Preset::find("imagenet").is_err());
    }

    /// The variance that the steps leave a Gaussian state of variance beta² with, by iterating its covariance with the
    /// previous movement.
    fn variance(settings: &Settings, beta: f64) -> f64 {
        let step = settings.step(beta, Some(beta), 1);
        let pull = step.alpha / (beta * beta);
        let (mut xx, mut xv, mut vv) = (1.0, 0.0, 0.0);
        for _ in 0..20_000 {
            // v' = momentum·v − pull·x + noise·z, x' = x + v'
            let next_vv =
                step.momentum.powi(2) * vv - 2.0 * step.momentum * pull * xv + pull * pull * xx + step.noise.powi(2);
            let x_next_v = step.momentum * xv - pull * xx;
            (xx, xv, vv) = (xx + 2.0 * x_next_v + next_vv, x_next_v + next_vv, next_vv);
        }
        xx
    }

    #[test]
    fn small_steps_keep_the_variance_of_a_gaussian_whatever_the_momentum() {
        for momentum in [0.0, 0.5, 0.9] {
            for (step_scale, beta) in [(0.01, 0.3), (0.01, 7.0), (1.5, 0.3)] {
                let settings = Settings {
                    step_scale,
                    momentum,
                    ..Settings::default()
                };
                let relative = variance(&settings, beta) / (beta * beta);
                // What is left is the step's own error, and momentum makes it smaller.
                let expected = 1.0 / (1.0 - step_scale / (2.0 * (1.0 + momentum)));
                assert!(
                    (relative / expected - 1.0).abs() < 1e-9,
                    "{settings:?}: {relative} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_movement_shrinks_with_the_noise_level() {
        let settings = Settings {
            momentum: 0.8,
            ..Settings::default()
        };
        assert_eq!(settings.step(2.0, None, 0).momentum, 0.0, "nothing has moved yet");
        assert_eq!(settings.step(1.0, Some(2.0), 1).momentum, 0.4);
        assert_eq!(settings.step(1.0, Some(1.0), 2).momentum, 0.8);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let good = Settings::default();
        good.check().unwrap();
        let bad = [
            Settings { chains: 0, ..good },
            Settings { batch: 0, ..good },
            Settings {
                steps_per_level: 0,
                ..good
            },
            Settings {
                step_scale: -1.0,
                ..good
            },
            Settings {
                step_scale: f64::NAN,
                ..good
            },
            Settings { momentum: 1.0, ..good },
            Settings {
                momentum: f64::NAN,
                ..good
            },
            Settings {
                gamma: GammaRule::Adaptive { xi: 0.0 },
                ..good
            },
            Settings {
                gamma: GammaRule::Constant { gamma: f64::INFINITY },
                ..good
            },
            Settings {
                chains: 1 << 24,
                ..good
            },
        ];
        for settings in bad {
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }
}

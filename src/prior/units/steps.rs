//! The numbered steps of a variance-preserving process, and the noise level of each.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How the variances of the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Betas {
    /// Even between the ends
    Linear,
    /// Their roots are even
    ScaledLinear,
    /// By a squared cosine
    #[serde(rename = "squaredcos_cap_v2")]
    Cosine,
    /// By a sigmoid
    Sigmoid,
}

/// A process of so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    pub betas: Betas,
    pub first: f64,
    pub last: f64,
    pub count: usize,
}

impl Steps {
    /// That of nearly all published networks.
    pub const LINEAR: Self = Self {
        betas: Betas::Linear,
        first: 1e-4,
        last: 0.02,
        count: 1000,
    };

    /// # Errors
    /// [`Error::Usage`] if it is no process.
    pub fn check(&self) -> Result<()> {
        let inside = |beta: f64| beta > 0.0 && beta < 1.0;
        if !(2..=100_000).contains(&self.count) || !inside(self.first) || !inside(self.last) {
            let Self { first, last, count, .. } = self;
            let reason = format!("{count} steps with variances from {first} to {last} are no process of noise");
            return Err(Error::usage(reason));
        }
        let logs = self.log_levels();
        if logs.windows(2).any(|pair| pair[0] >= pair[1]) || !logs.iter().all(|log| log.is_finite()) {
            return Err(Error::usage("the noise levels of the steps do not rise"));
        }
        Ok(())
    }

    fn variance(&self, step: usize) -> f64 {
        let (at, count) = (step as f64, self.count as f64);
        let share = at / (count - 1.0);
        let between = |first: f64, last: f64| first + (last - first) * share;
        match self.betas {
            Betas::Linear => between(self.first, self.last),
            Betas::ScaledLinear => between(self.first.sqrt(), self.last.sqrt()).powi(2),
            Betas::Sigmoid => self.first + (self.last - self.first) / (1.0 + (-between(-6.0, 6.0)).exp()),
            Betas::Cosine => {
                let signal = |u: f64| ((u + 0.008) / 1.008 * std::f64::consts::FRAC_PI_2).cos().powi(2);
                (1.0 - signal((at + 1.0) / count) / signal(at / count)).min(0.999)
            }
        }
    }

    /// ln sigma' of each step, sigma' the level of images in [-1, 1]: sigma'² = (1 − a)/a with a the product of 1 − variance so far.
    pub fn log_levels(&self) -> Vec<f64> {
        let mut signal = 1.0;
        let log = |step: usize| {
            signal *= 1.0 - self.variance(step);
            0.5 * ((1.0 - signal) / signal).ln()
        };
        (0..self.count).map(log).collect()
    }

    /// The least and the largest level of images in [0, 1].
    pub fn range(&self) -> (f64, f64) {
        let logs = self.log_levels();
        (logs[0].exp() / 2.0, logs[self.count - 1].exp() / 2.0)
    }
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last, count, .. } = self;
        let (least, most) = self.range();
        match self.betas {
            Betas::Linear => write!(f, "{count} steps, variances linear from {first} to {last}"),
            Betas::ScaledLinear => write!(f, "{count} steps, variances with linear roots from {first} to {last}"),
            Betas::Cosine => write!(f, "{count} steps by a squared cosine"),
            Betas::Sigmoid => write!(f, "{count} steps, variances by a sigmoid from {first} to {last}"),
        }?;
        write!(f, ": sigma {least:.4} to {most:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_the_known_schedules_are_the_published_ones() {
        let steps = |betas, first, last| Steps {
            betas,
            first,
            last,
            count: 1000,
        };
        let known = [
            (Steps::LINEAR, [0.010001, 0.95294, 3.42414, 17.24698, 157.41]),
            (
                steps(Betas::ScaledLinear, 0.00085, 0.012),
                [0.029167, 0.69320, 1.61289, 4.08173, 14.615],
            ),
            (
                steps(Betas::Cosine, 1e-4, 0.02),
                [0.006425, 0.42499, 1.01239, 2.43544, 20291.0],
            ),
        ];
        for (steps, expected) in known {
            steps.check().unwrap();
            let logs = steps.log_levels();
            for (at, expected) in [0, 249, 499, 749, 999].into_iter().zip(expected) {
                let level: f64 = logs[at].exp();
                assert!(
                    (level / expected - 1.0).abs() < 1e-4,
                    "{steps:?} {at}: {level} {expected}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_process_is_refused() {
        for wrong in [
            Steps {
                count: 1,
                ..Steps::LINEAR
            },
            Steps {
                first: 0.0,
                ..Steps::LINEAR
            },
            Steps {
                last: 1.0,
                ..Steps::LINEAR
            },
            Steps {
                last: f64::NAN,
                ..Steps::LINEAR
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}

//! Everything that decides a run, as TOML. Threads and device are not part of it: threads never change a result, and
//! a device only what rounding changes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Precision;
use crate::likelihood::{EpStart, Likelihood, Method};
use crate::prior::{Prior, Schedule};
use crate::sampler::{GammaRule, Settings};
use crate::{Error, ImageShape, Result};

use super::MeasureConfig;

/// A run, complete: the same configuration gives the same bits on the same kind of device.
///
/// Written to the run folder as `config.toml`. Keys are named as the flags of `qcs run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// A safetensors file, or [`Prior::SHIPPED`]
    #[serde(default = "shipped")]
    pub model: String,
    /// The images' shape "C,H,W", for a model file that does not say it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Likelihoods to run one after the other, on the same problem with the same noise
    pub methods: Vec<Method>,
    /// A problem file; either this or `[measure]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<PathBuf>,
    /// How many images of the problem to reconstruct, from its first; all if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Images to measure first; either this or `problem`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<MeasureConfig>,
    /// In which precision the network multiplies; that of the engine if absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    pub schedule: ScheduleConfig,
    pub sampler: SamplerConfig,
    /// What the named files held when the configuration was resolved
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// Hashes of what was read, to notice that a file has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub model: String,
    pub problem: String,
}

/// Annealed Langevin dynamics: see [`Settings`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerConfig {
    pub steps_per_level: usize,
    pub step_scale: f64,
    /// 0, the paper's sampler, if absent
    #[serde(default)]
    pub momentum: f64,
    /// Factor of the adaptive gamma; either this or `gamma`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xi: Option<f64>,
    /// A constant gamma
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    pub denoise: bool,
    pub ep_iterations: usize,
    pub ep_start: EpStart,
    pub chains: usize,
    pub seed: u64,
    pub batch: usize,
}

/// The noise levels: geometric, or a list where a model has another one.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma_begin: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma_end: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigmas: Option<Vec<f32>>,
}

fn shipped() -> String {
    Prior::SHIPPED.to_owned()
}

impl ScheduleConfig {
    pub fn geometric(begin: f64, end: f64, levels: usize) -> Self {
        Self {
            sigma_begin: Some(begin),
            sigma_end: Some(end),
            levels: Some(levels),
            sigmas: None,
        }
    }

    /// The description of a schedule: its two ends where they give the same bits, else every level.
    pub fn of(schedule: &Schedule) -> Self {
        let geometric = Self::ends_of(schedule);
        match geometric.schedule() {
            Ok(same) if same == *schedule => geometric,
            _ => Self {
                sigmas: Some(schedule.levels().to_vec()),
                ..Self::default()
            },
        }
    }

    /// The geometric schedule with the ends and the length of the given one.
    pub fn ends_of(schedule: &Schedule) -> Self {
        // 0.01 in f32 is 0.00999999977 in f64: its decimal form is what was meant.
        let meant = |level: f32| level.to_string().parse::<f64>().expect("a float's own text");
        Self::geometric(meant(schedule.begin()), meant(schedule.end()), schedule.len())
    }

    /// # Errors
    /// If the levels are incomplete, given twice, or not falling.
    pub fn schedule(&self) -> Result<Schedule> {
        match (self.sigma_begin, self.sigma_end, self.levels, &self.sigmas) {
            (Some(begin), Some(end), Some(count), None) => {
                if count > 1_000_000 {
                    return Err(Error::usage(format!("--levels {count}: at most 1000000")));
                }
                Schedule::geometric(begin, end, count)
            }
            (None, None, None, Some(sigmas)) => Schedule::new(sigmas.clone()),
            _ => Err(Error::usage(
                "[schedule] needs sigma_begin, sigma_end and levels, or sigmas alone",
            )),
        }
    }
}

impl SamplerConfig {
    /// The settings for one of the methods.
    ///
    /// # Errors
    /// As [`Settings::check`], and if both or neither of `xi` and `gamma` are given.
    pub fn settings(&self, method: Method) -> Result<Settings> {
        let gamma = match (self.xi, self.gamma) {
            (Some(xi), None) => GammaRule::Adaptive { xi },
            (None, Some(gamma)) => GammaRule::Constant { gamma },
            _ => return Err(Error::usage("[sampler] needs xi or gamma, and not both")),
        };
        let settings = Settings {
            likelihood: Likelihood {
                method,
                ep_iterations: self.ep_iterations,
                ep_start: self.ep_start,
            },
            steps_per_level: self.steps_per_level,
            step_scale: self.step_scale,
            momentum: self.momentum,
            gamma,
            denoise: self.denoise,
            chains: self.chains,
            seed: self.seed,
            batch: self.batch,
        };
        settings.check()?;
        Ok(settings)
    }

    /// The configuration of given settings.
    pub fn new(settings: &Settings) -> Self {
        let (xi, gamma) = match settings.gamma {
            GammaRule::Adaptive { xi } => (Some(xi), None),
            GammaRule::Constant { gamma } => (None, Some(gamma)),
        };
        Self {
            steps_per_level: settings.steps_per_level,
            step_scale: settings.step_scale,
            momentum: settings.momentum,
            xi,
            gamma,
            denoise: settings.denoise,
            ep_iterations: settings.likelihood.ep_iterations,
            ep_start: settings.likelihood.ep_start,
            chains: settings.chains,
            seed: settings.seed,
            batch: settings.batch,
        }
    }
}

impl RunConfig {
    /// Reads a configuration; relative paths in it are meant from the current folder.
    ///
    /// # Errors
    /// If the file cannot be read or is no configuration; the message names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, "read", e))?;
        toml::from_str(&text).map_err(|e: toml::de::Error| {
            let line = e
                .span()
                .map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Error::bad_file(path, format!("line {line}: {}", e.message().replace('\n', " ")))
        })
    }

    /// # Errors
    /// If a path is not UTF-8, which TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::usage(format!("the configuration cannot be written as TOML: {e}")))
    }

    /// The model's image shape, where the configuration says it.
    pub fn shape(&self) -> Result<Option<ImageShape>> {
        let parse = |text: &String| text.parse().map_err(|e| Error::usage(format!("shape: {e}")));
        self.shape.as_ref().map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_described_by_its_ends_only_where_they_give_the_same_bits() {
        let geometric = Schedule::geometric(50.0, 0.01, 232).unwrap();
        let config = ScheduleConfig::of(&geometric);
        assert_eq!(config, ScheduleConfig::geometric(50.0, 0.01, 232));
        assert_eq!(config.schedule().unwrap(), geometric);

        let other = Schedule::new(vec![3.0, 2.0, 0.1]).unwrap();
        let config = ScheduleConfig::of(&other);
        assert_eq!(config.sigmas.as_deref(), Some(&[3.0, 2.0, 0.1][..]));
        let text = toml::to_string(&config).unwrap();
        let back: ScheduleConfig = toml::from_str(&text).unwrap();
        assert_eq!(back.schedule().unwrap(), other, "{text}");
    }

    #[test]
    fn levels_that_are_incomplete_or_given_twice_are_refused() {
        let whole = ScheduleConfig::geometric(5.0, 0.1, 4);
        let half = ScheduleConfig {
            levels: None,
            ..whole.clone()
        };
        let twice = ScheduleConfig {
            sigmas: Some(vec![2.0, 1.0]),
            ..whole
        };
        for config in [half, twice, ScheduleConfig::default()] {
            assert!(config.schedule().is_err(), "{config:?}");
        }
    }

    #[test]
    fn one_rule_for_gamma_is_needed() {
        let good = SamplerConfig::new(&Settings::default());
        good.settings(Method::Ep).unwrap();
        let none = SamplerConfig {
            xi: None,
            ..good.clone()
        };
        let both = SamplerConfig {
            gamma: Some(1.0),
            ..good
        };
        assert!(none.settings(Method::Ep).is_err() && both.settings(Method::Ep).is_err());
    }

    #[test]
    fn every_digit_of_a_number_survives_toml() {
        let mut config = crate::run::demo::config();
        config.sampler.step_scale = 0.1 + 0.2;
        config.sampler.seed = i64::MAX as u64;
        config.schedule.sigma_end = Some(f64::from(0.01f32));
        let text = config.to_toml().unwrap();
        assert_eq!(toml::from_str::<RunConfig>(&text).unwrap(), config, "{text}");
    }
}

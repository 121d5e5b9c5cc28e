//! One run of a sweep.

use std::collections::BTreeMap;

use toml::Value;

use super::Grid;
use super::keys;
use crate::Result;
use crate::run::RunConfig;

/// A combination of the grid's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which grid of the sweep
    pub grid: usize,
    /// Every setting that the sweep gives, with the values of this point
    pub settings: BTreeMap<String, Value>,
    /// Those that differ from point to point, in order
    pub axes: Vec<String>,
}

impl Point {
    pub(super) fn new(grid: usize, of: &Grid, settings: BTreeMap<String, Value>) -> Self {
        let axes = of.axes().into_iter().map(str::to_owned).collect();
        Self { grid, settings, axes }
    }

    /// The run.
    ///
    /// # Errors
    /// If the settings are not those of a run.
    pub fn config(&self) -> Result<RunConfig> {
        keys::config(&self.settings)
    }

    /// What makes the point different from the others of its grid: "kappa=1e3 method=ep".
    pub fn name(&self) -> String {
        let one = |axis: &String| format!("{axis}={}", keys::shown(&self.settings[axis]));
        let parts: Vec<String> = self.axes.iter().map(one).collect();
        if parts.is_empty() {
            let method = self.shown("method");
            if method.is_empty() {
                "one run".to_owned()
            } else {
                method
            }
        } else {
            parts.join(" ")
        }
    }

    /// The value of a setting as it is shown; empty if the sweep does not give it.
    pub fn shown(&self, key: &str) -> String {
        self.settings.get(key).map_or(String::new(), keys::shown)
    }

    /// The value of a setting as a number, if it is one.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.settings.get(key).and_then(keys::number)
    }

    /// What decides how long the point takes: everything but the law of A, the noise and the seed.
    pub fn cost_key(&self) -> Vec<(&String, &Value)> {
        const FREE: [&str; 7] = ["matrix", "kappa", "rho", "sigma", "seed", "first", "step"];
        self.settings
            .iter()
            .filter(|(key, _)| !FREE.contains(&key.as_str()))
            .collect()
    }

    /// The name of the point's folder: readable, and ending with the digest of all that decides the run.
    pub(super) fn folder(&self, digest: &str) -> String {
        let name = self.name();
        let safe: String = name
            .chars()
            .map(|c| match c {
                ' ' => '_',
                c if c.is_ascii_alphanumeric() || "=.+-".contains(c) => c,
                _ => '-',
            })
            .take(100)
            .collect();
        if self.axes.is_empty() {
            digest.to_owned()
        } else {
            format!("{safe}_{digest}")
        }
    }
}

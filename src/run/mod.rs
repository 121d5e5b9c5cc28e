//! A run from end to end: its configuration, its files, its checkpoints and its results.
//!
//! [`RunConfig`] says everything that decides a run, [`Run`] has read what the configuration names, [`RunFolder`] keeps
//! what comes of it, and [`evaluate`] measures how good it is.

mod config;
pub mod demo;
mod evaluate;
mod fingerprint;
mod folder;
mod keeper;
mod measure;
mod results;

use std::path::Path;

pub use config::{Identity, RunConfig, SamplerConfig, ScheduleConfig};
pub use evaluate::evaluate;
pub use folder::{Found, RunFolder};
pub use keeper::Hooks;
pub use measure::{ENSEMBLES, MeasureConfig};
pub use results::{MethodSamples, Results};

use crate::engine::Engine;
use crate::prior::{Prior, Schedule};
use crate::problem::Problem;
use crate::sampler::{Checkpoint, Outcome, Sampler};
use crate::{Error, ImageShape, Result};
use keeper::Keeper;

/// A run that is ready to start: model and problem are loaded, every setting is checked.
pub struct Run {
    /// Resolved: every default is written down.
    pub config: RunConfig,
    pub prior: Prior,
    pub problem: Problem,
    pub schedule: Schedule,
    /// Something to tell the user that is no error: a file that has changed since the configuration was written
    pub notes: Vec<String>,
}

/// Loads a model by the name a configuration gives it.
///
/// # Errors
/// As [`Prior::open`].
pub fn load_prior(model: &str, shape: Option<ImageShape>) -> Result<Prior> {
    if model == Prior::SHIPPED {
        return Prior::shipped();
    }
    Prior::open(Path::new(model), shape)
}

impl Run {
    /// Loads what the configuration names and resolves what it leaves open.
    ///
    /// # Errors
    /// If a setting is out of range, a file cannot be used, or model and problem do not fit.
    pub fn load(config: RunConfig) -> Result<Self> {
        let prior = load_prior(&config.model, config.shape()?)?;
        Self::with_prior(config, prior)
    }

    /// The same with a model that is loaded already.
    ///
    /// # Errors
    /// As [`Run::load`].
    pub fn with_prior(mut config: RunConfig, prior: Prior) -> Result<Self> {
        if config.methods.is_empty() {
            return Err(Error::usage("methods is empty: name ep, diag or both"));
        }
        for &method in &config.methods {
            config.sampler.settings(method)?;
        }
        let schedule = config.schedule.schedule()?;
        let problem = match (&config.problem, &mut config.measure) {
            (Some(path), None) => Problem::read(path)?,
            (None, Some(measure)) => measure.resolve()?,
            _ => {
                return Err(Error::usage(
                    "a configuration names either `problem` or `[measure]`, and not both",
                ));
            }
        };
        config.count.get_or_insert(problem.cells().count());
        if config.count == Some(0) {
            return Err(Error::usage("--count must be at least 1"));
        }
        let identity = Identity {
            model: fingerprint::of_prior(&prior),
            problem: fingerprint::of_problem(&problem),
        };
        let notes = config
            .identity
            .as_ref()
            .map_or(Vec::new(), |then| changes(then, &identity));
        config.identity = Some(identity);
        let run = Self {
            config,
            prior,
            problem,
            schedule,
            notes,
        };
        run.sampler(0)?.check()?;
        Ok(run)
    }

    /// The number of images that are reconstructed.
    pub fn images(&self) -> usize {
        self.config.count.unwrap_or_else(|| self.problem.cells().count())
    }

    /// The largest batch that the engine has room for, whichever the method.
    ///
    /// # Errors
    /// As [`Sampler::largest_batch`].
    pub fn largest_batch(&self, engine: &dyn Engine) -> Result<usize> {
        let mut batches = (0..self.config.methods.len()).map(|index| self.sampler(index)?.largest_batch(engine));
        batches.try_fold(usize::MAX, |least, batch| Ok(least.min(batch?)))
    }

    /// Bytes of device memory that the run takes at its peak.
    ///
    /// # Errors
    /// [`Error::Usage`] if the settings are out of their ranges.
    pub fn device_bytes(&self, engine: &dyn Engine) -> Result<usize> {
        let batch = self
            .config
            .sampler
            .batch
            .min(self.images() * self.config.sampler.chains);
        (0..self.config.methods.len())
            .try_fold(0, |most, index| Ok(most.max(self.sampler(index)?.bytes(engine, batch))))
    }

    /// The sampler of method number `index`.
    fn sampler(&self, index: usize) -> Result<Sampler<'_>> {
        Ok(Sampler {
            prior: &self.prior,
            problem: Some(&self.problem),
            images: self.images(),
            schedule: &self.schedule,
            settings: self.config.sampler.settings(self.config.methods[index])?,
        })
    }

    /// Names the run and one of its methods, so that no checkpoint of another one is continued.
    fn fingerprint(&self, index: usize) -> Result<String> {
        let text = self.config.to_toml()?;
        Ok(format!(
            "{}-{}",
            self.config.methods[index].key(),
            fingerprint::of_text(&text)
        ))
    }

    /// Runs every method from its checkpoint in the folder, or from the start, and keeps checkpoints on the way.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the hooks said stop; whatever ended the run otherwise.
    pub fn execute(&self, engine: &mut dyn Engine, folder: &RunFolder, hooks: &mut dyn Hooks) -> Result<Results> {
        let mut methods = Vec::new();
        for (index, &method) in self.config.methods.iter().enumerate() {
            let (path, fingerprint) = (folder.checkpoint(method), self.fingerprint(index)?);
            let resume = path
                .exists()
                .then(|| Checkpoint::read(&path, &fingerprint))
                .transpose()?;
            hooks.begin(method, resume.is_some());
            let mut keeper = Keeper::new(&path, &fingerprint, hooks);
            let outcome = self.sampler(index)?.run(engine, resume, &mut keeper)?;
            hooks.end(method);
            match outcome {
                Outcome::Finished(samples) => {
                    // The results of all methods are written at the end; until then this keeps them.
                    Checkpoint::finished(&samples).write(&path, &fingerprint)?;
                    methods.push(MethodSamples { method, samples });
                }
                Outcome::Stopped => {
                    return Err(Error::Interrupted(format!(
                        "stopped; the state is saved: continue with `qcs run --resume --out {}`",
                        folder.path().display()
                    )));
                }
            }
        }
        Ok(Results::new(self, methods))
    }
}

fn changes(then: &Identity, now: &Identity) -> Vec<String> {
    let changed = [
        ("model", &then.model, &now.model),
        ("problem", &then.problem, &now.problem),
    ];
    changed
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(what, ..)| format!("the {what} is not the one this configuration was written with; results will differ"))
        .collect()
}

//! A run from end to end: its configuration, its files, its checkpoints and its results.
//!
//! [`RunConfig`] says everything that decides a run, [`Run`] has read what the configuration names, [`RunFolder`] keeps
//! what comes of it.

mod blocks;
mod cache;
mod config;
pub mod demo;
mod folder;
mod keeper;
mod kept;
mod lock;
mod measure;
mod merge;
mod results;
mod settings;
mod shard;
mod shared;
mod trial;
mod writer;

use std::path::Path;
use std::sync::Arc;

pub use cache::Cache;
pub use config::{Batch, Identity, Pictures, RunConfig};
pub use folder::{Found, RunFolder};
pub use keeper::Hooks;
pub use kept::Kept;
pub use lock::Lock;
pub use measure::{ENSEMBLES, MeasureConfig};
pub use merge::merge;
pub use results::Results;
pub use settings::Settings;
pub use shard::Shard;
pub use shared::Shared;

use crate::engine::Engine;
use crate::files::on_one_line;
use crate::methods::{Algorithm, Given, Kind, Options, Preset};
use crate::prior::{Denoiser, Prior};
use crate::problem::Problem;
use crate::reconstruct::{Driver, fingerprint};
use crate::{Error, ImageShape, Result, bundled};

/// A run that is ready to start: model and problem are loaded, every setting is checked.
pub struct Run {
    /// Resolved: every default is written down.
    pub config: RunConfig,
    pub prior: Arc<Prior>,
    pub problem: Problem,
    methods: Vec<Configured>,
    /// Something to tell the user that is no error: a file that has changed since the configuration was written
    pub notes: Vec<String>,
}

/// One of the run's methods with its settings.
struct Configured {
    kind: &'static Kind,
    algorithm: Box<dyn Algorithm>,
}

/// Loads a model by the name a configuration gives it.
///
/// # Errors
/// As [`Prior::open`].
pub fn load_prior(model: &str, shape: Option<ImageShape>) -> Result<Prior> {
    match bundled::is_name(model) {
        true => Prior::bundled(model, shape),
        false => Prior::open(Path::new(model), shape),
    }
}

/// A word on a model that was asked to work on images of another `shape` than its file says.
pub fn told_of_shape(model: &str, shape: Option<ImageShape>, prior: &Prior) -> Option<String> {
    shape?;
    let own = load_prior(model, None).ok()?.image();
    (own != prior.image()).then(|| at_other_shape(own, prior))
}

impl Run {
    /// Loads what the configuration names and resolves what it leaves open, for a run on this engine.
    ///
    /// # Errors
    /// If a setting is out of range, a file cannot be used, or model and problem do not fit.
    pub fn load(config: RunConfig, engine: &dyn Engine) -> Result<Self> {
        Self::load_sharing(config, engine, &mut Shared::default())
    }

    /// The same, for one of several runs: an A that an earlier one [left](Shared::keep) is neither drawn nor factorised
    /// again.
    ///
    /// # Errors
    /// As [`Run::load`].
    pub fn load_sharing(mut config: RunConfig, engine: &dyn Engine, shared: &mut Shared) -> Result<Self> {
        // What is cheap to refuse is refused first.
        config.kinds()?;
        let prior = shared.prior(&config.model, config.shape()?)?;
        if let (Some(preset), Some(measure)) = (&config.preset, &mut config.measure) {
            let preset = MeasureConfig::of_preset(Preset::find(preset)?);
            *measure = std::mem::take(measure).over(preset);
        }
        let begun = config.begin_problem()?;
        config.resolve_settings(&prior, begun.are_signs(&config))?;
        let configured = |kind: &'static Kind| {
            let algorithm = config.settings.of(kind).algorithm()?;
            Ok(Configured { kind, algorithm })
        };
        let methods: Vec<Configured> = config.kinds()?.into_iter().map(configured).collect::<Result<_>>()?;
        let named = |config: &RunConfig| config.measure.as_ref().and_then(|measure| measure.images.clone());
        let before = named(&config);
        let problem = config.finish_problem(begun, shared)?;
        let taken = named(&config).filter(|images| before.as_ref() != Some(images));
        let (prior, resized) = at_size_of(&problem, prior, &config, shared)?;
        let resized = resized.or_else(|| told_of_shape(&config.model, config.shape().ok()?, &prior));
        config.first = config.first.filter(|&first| first > 0);
        let there = problem.cells().count();
        config
            .count
            .get_or_insert(there.saturating_sub(config.first.unwrap_or(0)).max(1));
        if config.count == Some(0) {
            return Err(Error::setting("count", "must be at least 1"));
        }
        if let (Some(shard), Some(count)) = (config.shard, config.count)
            && shard.count > count
        {
            return Err(Error::setting(
                "shard",
                format!("{shard}: there are only {count} images to share"),
            ));
        }
        config.precision = Some(engine.precision());
        let identity = Identity {
            model: fingerprint::of_prior(&prior),
            problem: fingerprint::of_problem(&problem),
        };
        let mut notes = config
            .identity
            .as_ref()
            .map_or(Vec::new(), |then| changes(then, &identity));
        notes.extend(taken.map(|images| format!("of several arrays {} is taken", on_one_line(&images))));
        notes.extend(resized);
        config.identity = Some(identity);
        let (problem, mut told) = problem.balanced()?;
        notes.append(&mut told);
        let problem = shared.know(problem)?;
        let mut run = Self {
            config,
            prior,
            problem,
            methods,
            notes,
        };
        for index in 0..run.methods.len() {
            run.driver(index).check()?;
        }
        if run.config.batch == Batch::AUTO {
            let drivers = (0..run.methods.len()).map(|index| run.driver(index));
            let best = drivers.map(|driver| driver.best_batch(engine));
            let batch = best.reduce(|a, b| Ok(a?.min(b?))).expect("there is a method")?;
            run.config.batch = Batch::Of(batch);
        }
        Ok(run)
    }

    /// The first image of the problem that is reconstructed.
    pub fn first(&self) -> usize {
        self.config.first.unwrap_or(0) + self.share().start
    }

    /// The number of images that are reconstructed.
    pub fn images(&self) -> usize {
        self.share().len()
    }

    /// Of the images that the configuration asks for, those of its shard.
    fn share(&self) -> std::ops::Range<usize> {
        self.config.share()
    }

    /// Which pictures are written.
    pub fn pictures(&self) -> Pictures {
        let images = self.config.count.unwrap_or(0);
        self.config.pictures.unwrap_or_else(|| Pictures::of_so_many(images))
    }

    /// Evaluations of the network for one state, by method: at most, where a state may end early.
    pub fn evaluations(&self) -> Vec<(&'static Kind, usize)> {
        let of = |configured: &Configured| {
            let passes = configured.algorithm.passes(self.given());
            let steps = passes.iter().map(|pass| pass.steps().len()).sum();
            let direct = configured.algorithm.direct(self.given());
            (configured.kind, direct.map_or(steps, |direct| direct.steps()))
        };
        self.methods.iter().map(of).collect()
    }

    /// The number of stages of a state's first pass, whichever method has most.
    pub fn stages(&self) -> u32 {
        let last = |configured: &Configured| {
            let passes = configured.algorithm.passes(self.given());
            passes
                .first()
                .and_then(|pass| pass.steps().last().map(|step| step.stage))
        };
        self.methods.iter().filter_map(last).max().unwrap_or(0)
    }

    /// Bytes of device memory that the run takes at its peak.
    pub fn device_bytes(&self, engine: &dyn Engine) -> usize {
        let batch = self.config.batch.states().min(self.images() * self.config.chains);
        let bytes = (0..self.methods.len()).map(|index| self.driver(index).bytes(engine, batch));
        bytes.max().unwrap_or(0)
    }

    fn given(&self) -> Given<'_> {
        Given {
            prior: &self.prior,
            problem: Some(&self.problem),
            chains: self.config.chains,
        }
    }

    /// The driver of method number `index`.
    fn driver(&self, index: usize) -> Driver<'_> {
        Driver {
            algorithm: self.methods[index].algorithm.as_ref(),
            given: self.given(),
            first: self.first(),
            images: self.images(),
            seed: self.config.seed,
            batch: self.config.batch.states(),
        }
    }
}

/// The prior for images of the problem's size, and what to tell of it: a convolutional network serves any size that it can
/// halve, but what turbo knows of it was measured at one.
fn at_size_of(
    problem: &Problem,
    prior: Arc<Prior>,
    config: &RunConfig,
    shared: &mut Shared,
) -> Result<(Arc<Prior>, Option<String>)> {
    let trained = prior.image();
    let Some(shape) = problem.shape().filter(|&shape| {
        shape != trained
            && shape.channels == trained.channels
            && config.model != Prior::SHIPPED
            && config.shape.is_none()
    }) else {
        return Ok((prior, None));
    };
    let sized = shared.prior(&config.model, Some(shape))?;
    let words = at_other_shape(trained, &sized);
    Ok((sized, Some(words)))
}

/// What there is to tell of a prior that works on images of another shape than those it was trained at.
fn at_other_shape(trained: ImageShape, sized: &Prior) -> String {
    let shape = sized.image();
    let measured = sized
        .metadata
        .get(Denoiser::SHAPE)
        .map_or_else(|| trained.to_string(), String::clone);
    let table = match sized.denoiser() {
        Some(_) if measured != shape.to_string() => {
            format!("; turbo's table of its errors was measured at {measured}: calibrate it for {shape}")
        }
        _ => String::new(),
    };
    format!("the prior was trained at {trained} and runs at {shape}{table}")
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

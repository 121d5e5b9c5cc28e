//! A run from its configuration to its results: loaded, factorised, executed; or its time estimated.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::Part;
use super::estimate::Stopwatch;
use super::keeper::Keeper;
use super::model::{at_size_of, told_of_shape};
use super::writer::{MethodResults, MethodWriter};
use super::{Batch, Cache, Identity, MeasureConfig, Pictures, Results, Reuse, RunConfig, RunFolder};
use crate::engine::Engine;
use crate::files::on_one_line;
use crate::methods::{Algorithm, Inputs, Kind, Options, Preset};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::reconstruct::{Driver, Observer, Outcome, fingerprint};
use crate::{Error, Result};

/// A run that is ready to start: model and problem are loaded, every setting is checked.
pub struct Run {
    /// Resolved: every default is written down.
    pub config: RunConfig,
    pub prior: Arc<Prior>,
    pub problem: Problem,
    pub(super) methods: Vec<Configured>,
    /// Something to tell the user that is no error: a file that has changed since the configuration was written
    pub notes: Vec<String>,
}

/// One of the run's methods with its settings.
pub(super) struct Configured {
    pub kind: &'static Kind,
    algorithm: Box<dyn Algorithm>,
}

impl Run {
    /// Loads what the configuration names and resolves what it leaves open, for a run on this engine.
    ///
    /// # Errors
    /// If a setting is out of range, a file cannot be used, or model and problem do not fit.
    pub fn load(config: RunConfig, engine: &dyn Engine) -> Result<Self> {
        Self::load_sharing(config, engine, &mut Reuse::default())
    }

    /// The same, for one of several runs: an A that an earlier one [left](Reuse::keep) is neither drawn nor factorised
    /// again.
    ///
    /// # Errors
    /// As [`Run::load`].
    pub fn load_sharing(mut config: RunConfig, engine: &dyn Engine, shared: &mut Reuse) -> Result<Self> {
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
            let direct = configured.algorithm.on_host(self.given());
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

    fn given(&self) -> Inputs<'_> {
        Inputs {
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

    /// Has A factorised where a method needs its spectrum and a cache may hold it; without one the driver has it done when it
    /// comes to that. Returns notes for the user.
    ///
    /// # Errors
    /// If A cannot be factorised.
    pub fn factorise(&self, engine: &mut dyn Engine, cache: Option<&Cache>) -> Result<Vec<String>> {
        let needed = |one: &Configured| one.algorithm.needs_spectrum(self.given(), engine.target());
        match cache {
            Some(cache) if self.problem.known_spectrum().is_none() && self.methods.iter().any(needed) => {
                cache.factorise(&self.problem, engine)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The driver of method number `index` for some of the run's images.
    pub(super) fn driver_of(&self, index: usize, images: &Range<usize>) -> Driver<'_> {
        Driver {
            first: self.first() + images.start,
            images: images.len(),
            ..self.driver(index)
        }
    }

    /// Runs every method from its checkpoints in the folder, or from the start, keeps checkpoints on the way, and writes what
    /// each method brings block by block.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the observer said stop; whatever ended the run otherwise.
    pub fn execute(&self, engine: &mut dyn Engine, folder: &RunFolder, observer: &mut dyn Observer) -> Result<Results> {
        let mut methods = Vec::new();
        for index in 0..self.methods.len() {
            let kind = self.methods[index].kind;
            let parts = Part::all(&self.config, folder, kind)?;
            observer.begin(kind, parts.iter().any(|part| part.path.exists()));
            let brought = self.execute_method(index, &parts, engine, folder, observer);
            observer.end(kind);
            methods.push(brought?);
        }
        Ok(Results::new(methods))
    }

    fn execute_method(
        &self,
        index: usize,
        parts: &[Part],
        engine: &mut dyn Engine,
        folder: &RunFolder,
        observer: &mut dyn Observer,
    ) -> Result<MethodResults> {
        let mut writer = MethodWriter::begin(self, self.methods[index].kind, folder)?;
        let mut keeper = Keeper::new(self.images(), observer);
        for part in parts {
            let resume = part.path.exists().then(|| part.read()).transpose()?;
            keeper.begin(&part.path, &part.fingerprint, part.images.clone());
            match self.driver_of(index, &part.images).run(engine, resume, &mut keeper)? {
                // Its checkpoint keeps it until the whole run is complete.
                Outcome::Finished(samples) => writer.append(&samples)?,
                Outcome::Stopped => {
                    return Err(Error::Interrupted("stopped; the state is saved".to_owned()));
                }
            }
        }
        writer.finish()
    }

    /// Seconds that each method will take for all images, at most where images may settle earlier: measured on its first
    /// steps. Nothing is written.
    ///
    /// # Errors
    /// As [`Run::execute`].
    pub fn estimate_seconds(&self, engine: &mut dyn Engine) -> Result<Vec<(&'static Kind, f64)>> {
        let states = (self.images() * self.config.chains) as f64;
        let mut predicted = Vec::new();
        for (index, (kind, evaluations)) in self.evaluations().into_iter().enumerate() {
            let mut watch = Stopwatch::default();
            self.driver(index).run(engine, None, &mut watch)?;
            predicted.push((kind, watch.seconds_per_evaluation * evaluations as f64 * states));
        }
        Ok(predicted)
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

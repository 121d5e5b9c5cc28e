//! Annealed Langevin dynamics (Algorithm 1): from a problem and a prior to posterior samples.

mod checkpoint;
mod plan;
mod settings;

pub use checkpoint::Checkpoint;
pub use plan::SamplerPlan;
pub use settings::{GammaRule, PRESETS, Preset, Settings};

use std::time::Instant;

use crate::engine::{Constants, Engine, Session, State, Step};
use crate::likelihood::Method;
use crate::plan::{Program, Target};
use crate::prior::{Prior, Schedule};
use crate::problem::Problem;
use crate::{Error, ImageShape, Images, Result};

/// What is sampled: `images` measured images, or as many draws from the prior where there is no problem.
#[derive(Clone, Copy)]
pub struct Sampler<'a> {
    pub prior: &'a Prior,
    pub problem: Option<&'a Problem>,
    pub images: usize,
    pub schedule: &'a Schedule,
    pub settings: Settings,
}

/// Pixels of all states together: 16 GiB of them.
const MOST_VALUES: usize = 1 << 32;

/// How far a run has come. States are numbered image by image, chain by chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// States that are finished
    pub states_done: usize,
    pub states: usize,
    /// States that are being worked on
    pub batch: usize,
    /// Langevin steps of the current batch that are done
    pub step: usize,
    /// Langevin steps of a state: T·K
    pub steps: usize,
    pub levels: usize,
    pub steps_per_level: usize,
}

impl Progress {
    /// Current noise level, from 1 to T.
    pub fn level(&self) -> usize {
        (self.step / self.steps_per_level + 1).min(self.levels)
    }

    /// Whether a noise level has just ended.
    pub fn at_level_end(&self) -> bool {
        self.step.is_multiple_of(self.steps_per_level)
    }

    /// Share of the whole run's work that is done.
    pub fn fraction(&self) -> f64 {
        let in_batch = self.batch as f64 * self.step as f64 / self.steps as f64;
        (self.states_done as f64 + in_batch) / self.states as f64
    }
}

/// What the run is told to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// Hand the state over to [`Observer::checkpoint`], then continue
    Checkpoint,
    /// Hand the state over, then end with [`Outcome::Stopped`]
    Stop,
}

/// Whoever watches a run: asked after every step.
pub trait Observer {
    fn after_step(&mut self, progress: &Progress) -> Next;

    /// Hears how the run is set up.
    fn note(&mut self, _text: &str) {}

    /// Keeps the state; a run that starts from it gives the same bits.
    ///
    /// # Errors
    /// Ends the run.
    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()>;
}

/// Watches nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    fn after_step(&mut self, _: &Progress) -> Next {
        Next::Continue
    }

    fn checkpoint(&mut self, _: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

/// A state that would have become non-finite and kept its last value from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Divergence {
    pub image: usize,
    pub chain: usize,
    /// From 1 to T
    pub level: usize,
    /// Within the level, from 1 to K
    pub step: usize,
}

/// The samples of all images and chains.
#[derive(Clone, Debug)]
pub struct Samples {
    /// `[images · chains, C, H, W]`; the chains of an image follow each other
    pub states: Images,
    pub chains: usize,
    pub diverged: Vec<Divergence>,
    /// Time it took, over all sessions of the run
    pub seconds: f64,
}

impl Samples {
    /// The posterior mean of each image: its chains that did not diverge, averaged (all of them if every one did).
    pub fn mean(&self) -> Images {
        self.across_chains(|_, mean| mean)
    }

    /// The posterior standard deviation of each image (n − 1 in the denominator); `None` with a single chain.
    pub fn std(&self) -> Option<Images> {
        (self.chains > 1).then(|| {
            self.across_chains(|values, mean| {
                let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
                (squares / (values.len().max(2) - 1) as f64).sqrt()
            })
        })
    }

    /// Calls `f` with the values of a pixel over an image's chains and their mean.
    fn across_chains(&self, f: impl Fn(&[f64], f64) -> f64) -> Images {
        let n = self.states.shape.len();
        let images = self.states.count() / self.chains;
        let mut data = vec![0.0; images * n];
        let mut values = Vec::with_capacity(self.chains);
        for (image, result) in data.chunks_exact_mut(n).enumerate() {
            let alive: Vec<usize> = (0..self.chains)
                .filter(|&chain| !self.diverged.iter().any(|d| d.image == image && d.chain == chain))
                .collect();
            let used = if alive.is_empty() {
                (0..self.chains).collect()
            } else {
                alive
            };
            for (pixel, result) in result.iter_mut().enumerate() {
                let of = |&chain: &usize| f64::from(self.states.image(image * self.chains + chain)[pixel]);
                values.clear();
                values.extend(used.iter().map(of));
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                *result = f(&values, mean) as f32;
            }
        }
        Images::new(self.states.shape, data)
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    Finished(Samples),
    /// The observer said stop; it has the checkpoint.
    Stopped,
}

impl Sampler<'_> {
    /// Draws all samples.
    ///
    /// # Errors
    /// Settings out of range, a problem that does not fit the prior, a checkpoint of another run, a device that cannot
    /// hold a batch, or the observer's own error.
    pub fn run(
        &self,
        engine: &mut dyn Engine,
        resume: Option<Checkpoint>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        self.check()?;
        let mut run = match resume {
            Some(checkpoint) => {
                checkpoint.check(self.states(), self.shape(), self.steps(), &self.settings)?;
                checkpoint
            }
            None => Checkpoint::new(self.states(), self.shape()),
        };
        if let (Some(problem), Method::Ep) = (self.problem, self.settings.likelihood.method) {
            for note in engine.prepare(problem)? {
                observer.note(&note);
            }
        }
        let steps: Vec<Step> = (0..self.steps()).map(|index| self.step(index)).collect();
        // All batches but a shorter last one share a session: weights, A and U are packed and uploaded once.
        while run.next_state < self.states() {
            let batch = self.settings.batch.min(self.states() - run.next_state);
            if self.run_batches(engine, batch, &steps, &mut run, observer)? == Next::Stop {
                return Ok(Outcome::Stopped);
            }
        }
        Ok(Outcome::Finished(Samples {
            states: Images::new(self.shape(), run.x),
            chains: self.settings.chains,
            diverged: run.diverged,
            seconds: run.seconds,
        }))
    }

    fn states(&self) -> usize {
        self.images * self.settings.chains
    }

    fn shape(&self) -> ImageShape {
        self.prior.network.image
    }

    fn steps(&self) -> usize {
        self.schedule.len() * self.settings.steps_per_level
    }

    /// Refuses what [`Sampler::run`] would refuse, before anything is computed.
    ///
    /// # Errors
    /// As [`Sampler::run`].
    pub fn check(&self) -> Result<()> {
        self.settings.check()?;
        let values = self
            .images
            .checked_mul(self.settings.chains)
            .and_then(|states| states.checked_mul(self.shape().len()));
        if values.is_none_or(|values| values > MOST_VALUES) {
            let (images, chains) = (self.images, self.settings.chains);
            return Err(Error::usage(format!(
                "{images} images with {chains} chains each are more than fit into memory"
            )));
        }
        let Some(problem) = self.problem else { return Ok(()) };
        let (n, image) = (problem.a().cols(), self.shape());
        if n != image.len() || problem.shape().is_some_and(|shape| shape != image) {
            let shape = problem.shape().map_or_else(|| format!("N = {n}"), |s| format!("{s}"));
            return Err(Error::usage(format!(
                "the problem's images ({shape}) are not the prior's ({image}): choose a model trained for them"
            )));
        }
        if self.images > problem.cells().count() {
            let (asked, there) = (self.images, problem.cells().count());
            return Err(Error::usage(format!(
                "{asked} images asked for, but the problem holds {there}"
            )));
        }
        Ok(())
    }

    /// Bytes of device memory that a batch of so many states takes.
    pub fn bytes(&self, engine: &dyn Engine, batch: usize) -> usize {
        let steps = vec![Step::default(); self.steps()];
        let (compiled, constants) = self.compile(batch, &steps, engine.target());
        engine.bytes(&compiled.plan, constants)
    }

    /// The largest batch of the run's states that the device has room for, or the settings' where the device does not
    /// say how much it has.
    ///
    /// # Errors
    /// [`Error::Device`] if not even one state fits.
    pub fn largest_batch(&self, engine: &dyn Engine) -> Result<usize> {
        let Some(free) = engine.free_bytes() else {
            return Ok(self.settings.batch);
        };
        let fits = |batch: usize| self.bytes(engine, batch) <= free;
        if !fits(1) {
            let bytes = self.bytes(engine, 1);
            return Err(Error::Device(format!(
                "one state needs {bytes} bytes of device memory, but only {free} are free"
            )));
        }
        // The largest batch that fits lies between the two.
        let (mut low, mut high) = (1, self.states());
        while low < high {
            let middle = (low + high).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    /// The plan of a batch and what it computes with.
    fn compile<'a>(&'a self, batch: usize, steps: &'a [Step], target: &dyn Target) -> (SamplerPlan, Constants<'a>) {
        let compiled = SamplerPlan::new(&self.prior.network, self.problem, &self.settings, batch, target);
        let constants = Constants {
            prior: Some(self.prior),
            problem: self.problem,
            steps,
            seed: self.settings.seed,
        };
        (compiled, constants)
    }

    /// Runs all batches of this size that are left, or until the observer says stop.
    fn run_batches(
        &self,
        engine: &mut dyn Engine,
        batch: usize,
        steps: &[Step],
        run: &mut Checkpoint,
        observer: &mut dyn Observer,
    ) -> Result<Next> {
        let mut begun = Instant::now();
        let (compiled, constants) = self.compile(batch, steps, engine.target());
        let mut session = engine.session(&compiled.plan, constants)?;
        while self.states() - run.next_state >= batch {
            let next = self.run_batch(session.as_mut(), &compiled, steps.len(), begun, run, observer)?;
            if next == Next::Stop || run.next_state == self.states() {
                return Ok(next);
            }
            begun = Instant::now();
        }
        Ok(Next::Continue)
    }

    /// Runs one batch from where the checkpoint stands to its end, or to the observer's stop.
    fn run_batch(
        &self,
        session: &mut dyn Session,
        compiled: &SamplerPlan,
        steps: usize,
        begun: Instant,
        run: &mut Checkpoint,
        observer: &mut dyn Observer,
    ) -> Result<Next> {
        let (before, batch) = (run.seconds, compiled.plan.batch);
        let chains = self.settings.chains;
        let state = |s: usize| State {
            image: s / chains,
            chain: s % chains,
        };
        let states: Vec<State> = (run.next_state..run.next_state + batch).map(state).collect();
        session.bind(&states)?;
        if run.step == 0 {
            session.execute(Program::Start, 0)?;
        } else {
            session.write_f32(compiled.x, run.batch_x(batch))?;
            if let Some(velocity) = compiled.velocity {
                session.write_f32(velocity, &run.velocity)?;
            }
            session.write_u32(compiled.frozen, &run.frozen)?;
        }
        while run.step < steps {
            session.execute(Program::Step, run.step)?;
            run.step += 1;
            let mut progress = self.progress(run, batch);
            if progress.at_level_end() && session.end_level(compiled.frozen)? == batch {
                // No state will change any more.
                run.step = steps;
                progress = self.progress(run, batch);
            }
            let next = observer.after_step(&progress);
            if next != Next::Continue {
                run.take(session, compiled, batch)?;
                run.seconds = before + begun.elapsed().as_secs_f64();
                observer.checkpoint(run)?;
            }
            if next == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        if self.settings.denoise {
            session.execute(Program::Denoise, steps - 1)?;
        }
        run.take(session, compiled, batch)?;
        run.seconds = before + begun.elapsed().as_secs_f64();
        self.record_divergences(run, &states);
        run.next_state += batch;
        run.step = 0;
        run.velocity.clear();
        run.frozen.clear();
        Ok(Next::Continue)
    }

    fn step(&self, index: usize) -> Step {
        let beta = |index: usize| f64::from(self.schedule.levels()[index / self.settings.steps_per_level]);
        let previous = index.checked_sub(1).map(beta);
        self.settings.step(beta(index), previous, index as u32)
    }

    fn progress(&self, run: &Checkpoint, batch: usize) -> Progress {
        Progress {
            states_done: run.next_state,
            states: self.states(),
            batch,
            step: run.step,
            steps: self.steps(),
            levels: self.schedule.len(),
            steps_per_level: self.settings.steps_per_level,
        }
    }

    fn record_divergences(&self, run: &mut Checkpoint, states: &[State]) {
        for (state, &frozen) in states.iter().zip(&run.frozen) {
            if frozen != 0 {
                let step = frozen as usize - 1;
                run.diverged.push(Divergence {
                    image: state.image,
                    chain: state.chain,
                    level: step / self.settings.steps_per_level + 1,
                    step: step % self.settings.steps_per_level + 1,
                });
            }
        }
    }
}

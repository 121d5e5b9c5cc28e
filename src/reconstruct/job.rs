//! The front door: a problem, a prior and a method in, images out.

use std::ops::Range;

use super::{Checkpoint, Driver, Next, Observer, Outcome, Progress, compare_measurements, evaluate};
use crate::engine::{self, Device, Engine, Precision};
use crate::methods::{Algorithm, Divergence, Inputs, Method, Samples};
use crate::metrics::Calibration;
use crate::output::ImageMetrics;
use crate::prior::Prior;
use crate::problem::Problem;
use crate::{Error, Images, Result};

/// Reconstructs every image of a problem, with the settings that the prior advises where the method leaves them open.
///
/// ```
/// # #[cfg(feature = "bundled")] {
/// use qcs::{Prior, Problem, Turbo};
/// # use qcs::problem::{Ensemble, Sensing, Simulation};
///
/// # let sensing = Sensing::Drawn { ensemble: Ensemble::Gaussian, m: 300 };
/// # let simulation = Simulation::default();
/// # let problem = Problem::simulate(qcs::bundled::digits(5, Some(1))?, sensing, &simulation)?;
/// let found = qcs::reconstruct(&problem, &Prior::shipped()?, Turbo::default())?;
/// println!("{} dB, predicted error {:?}", found.psnr().unwrap(), found.predicted_error);
/// # assert!(found.psnr().unwrap() > 20.0);
/// # }
/// # Ok::<(), qcs::Error>(())
/// ```
///
/// # Errors
/// Settings out of range, a problem that does not fit the prior, a device that cannot hold a batch.
pub fn reconstruct(problem: &Problem, prior: &Prior, method: impl Into<Method>) -> Result<Reconstruction> {
    Job::new(problem, prior, method).run()
}

/// Draws `chains` samples of the posterior of every image.
///
/// ```
/// # #[cfg(feature = "bundled")] {
/// use qcs::{Prior, Problem, QcsSgmPlus};
/// # use qcs::problem::{Ensemble, Sensing, Simulation};
///
/// # let sensing = Sensing::Drawn { ensemble: Ensemble::Gaussian, m: 300 };
/// # let simulation = Simulation { bits: 2, ..Default::default() };
/// # let problem = Problem::simulate(qcs::bundled::digits(5, Some(1))?, sensing, &simulation)?;
/// let method = QcsSgmPlus { levels: Some(20), ..Default::default() };
/// let found = qcs::sample(&problem, &Prior::shipped()?, method, 4)?;
/// assert_eq!(found.samples.count(), 4);
/// assert!(found.std.is_some());
/// # }
/// # Ok::<(), qcs::Error>(())
/// ```
///
/// # Errors
/// As [`reconstruct`].
pub fn sample(problem: &Problem, prior: &Prior, method: impl Into<Method>, chains: usize) -> Result<Reconstruction> {
    Job::new(problem, prior, method).chains(chains).run()
}

/// A reconstruction that is still to run. Everything but problem, prior and method has a default.
///
/// ```no_run
/// # let problem = qcs::Problem::read(std::path::Path::new("problem.safetensors"))?;
/// # let prior = qcs::Prior::shipped()?;
/// use qcs::{Device, Job, Turbo};
///
/// let found = Job::new(&problem, &prior, Turbo::default())
///     .images(10..20)
///     .chains(8)
///     .seed(1)
///     .device(Device::Cuda(vec![0]))
///     .run()?;
/// # Ok::<(), qcs::Error>(())
/// ```
#[must_use = "nothing is computed before `run`"]
pub struct Job<'a> {
    problem: &'a Problem,
    prior: &'a Prior,
    method: Method,
    chains: usize,
    seed: u64,
    images: Option<Range<usize>>,
    batch: usize,
    device: Device,
    precision: Option<Precision>,
    threads: usize,
    engine: Option<&'a mut dyn Engine>,
    observer: Option<&'a mut dyn Observer>,
}

/// States worked on at once, unless [`Job::batch`] says otherwise.
const BATCH: usize = 8;

impl<'a> Job<'a> {
    /// Every image of the problem, one chain each, on the CPU with all of its threads.
    pub fn new(problem: &'a Problem, prior: &'a Prior, method: impl Into<Method>) -> Self {
        Self {
            problem,
            prior,
            method: method.into(),
            chains: 1,
            seed: 0,
            images: None,
            batch: BATCH,
            device: Device::Cpu,
            precision: None,
            threads: 0,
            engine: None,
            observer: None,
        }
    }

    /// Samples of each image.
    pub fn chains(mut self, chains: usize) -> Self {
        self.chains = chains;
        self
    }

    /// Keys all noise of the chains.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Some of the problem's images. Image 3 alone is the same bits as image 3 among others.
    pub fn images(mut self, images: Range<usize>) -> Self {
        self.images = Some(images);
        self
    }

    /// States worked on at once: changes speed and memory, never results.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Where it computes.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// In which precision the network multiplies.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Threads of the CPU engine; 0 is one to each core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// An engine that is open already, in the place of one that [`run`](Job::run) opens: device, precision and threads are its own.
    pub fn engine(mut self, engine: &'a mut dyn Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Is told after every step how far the run is, and may stop it.
    pub fn observer(mut self, observer: &'a mut dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Computes.
    ///
    /// # Errors
    /// As [`reconstruct`]; [`Error::Interrupted`] if the observer said stop.
    pub fn run(self) -> Result<Reconstruction> {
        let signs = self.problem.cells().are_signs();
        let method = self.method.completed(self.prior, None, signs)?;
        let algorithm = method.algorithm()?;
        let images = self.images.unwrap_or(0..self.problem.cells().count());
        let balanced = (!self.problem.is_balanced()).then(|| self.problem.clone().balanced());
        let balanced = balanced.transpose()?;
        let (problem, mut notes) = match &balanced {
            Some((problem, notes)) => (problem, notes.clone()),
            None => (self.problem, Vec::new()),
        };
        let given = Inputs {
            prior: self.prior,
            problem: Some(problem),
            chains: self.chains,
        };
        let driver = Driver {
            algorithm: algorithm.as_ref(),
            given,
            first: images.start,
            images: images.len(),
            seed: self.seed,
            batch: self.batch,
        };
        driver.check()?;
        let mut opened = None;
        let engine = match self.engine {
            Some(engine) => engine,
            None => {
                let found = engine::open(&self.device, self.precision, self.threads)?;
                notes.extend(found.note);
                opened.insert(found.engine).as_mut()
            }
        };
        let mut listener = Listener {
            observer: self.observer,
            notes: &mut notes,
        };
        match driver.run(engine, None, &mut listener)? {
            Outcome::Finished(samples) => {
                Reconstruction::new(method, algorithm.as_ref(), given, images.start, samples, notes)
            }
            Outcome::Stopped => Err(Error::Interrupted("stopped before it was finished".to_owned())),
        }
    }
}

/// Hands on what the driver tells, and keeps its notes.
struct Listener<'a, 'o> {
    observer: Option<&'o mut dyn Observer>,
    notes: &'a mut Vec<String>,
}

impl Observer for Listener<'_, '_> {
    fn after_step(&mut self, progress: &Progress) -> Next {
        let told = self.observer.as_mut().map(|observer| observer.after_step(progress));
        told.unwrap_or(Next::Continue)
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
        if let Some(observer) = &mut self.observer {
            observer.note(text);
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let kept = self.observer.as_mut().map(|observer| observer.checkpoint(checkpoint));
        kept.unwrap_or(Ok(()))
    }
}

/// The result of a [`Job`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reconstruction {
    /// The method with every setting that it ran with
    pub method: Method,
    /// The posterior mean of each image: turbo's own estimate, or the mean of its chains that did not diverge
    pub mean: Images,
    /// `[images · chains, C, H, W]`, the chains of an image one after the other
    pub samples: Images,
    pub chains: usize,
    /// The posterior standard deviation of each pixel, where there are several chains
    pub std: Option<Images>,
    /// Predicted root mean squared error of each image's mean, where the method predicts it
    pub predicted_error: Option<Vec<f64>>,
    /// Evaluations of the network for each image, over all of its chains
    pub evaluations: Vec<usize>,
    /// PSNR and SSIM where the problem knows the truth, and the share of measurements that the mean agrees with
    pub metrics: Vec<ImageMetrics>,
    /// Whether the chains are spread as the truth is: coverage of central intervals, ranks; with several chains and a truth
    pub calibration: Option<Calibration>,
    /// Chains that left the range of images; they are in no mean
    pub diverged: Vec<Divergence>,
    /// What was said of how the run was set up
    pub notes: Vec<String>,
    pub seconds: f64,
}

impl Reconstruction {
    fn new(
        method: Method,
        algorithm: &dyn Algorithm,
        given: Inputs<'_>,
        first: usize,
        samples: Samples,
        notes: Vec<String>,
    ) -> Result<Self> {
        let (mean, std) = (samples.mean(), samples.std());
        let (count, chains) = (mean.count(), samples.chains);
        let truth = given.problem.and_then(Problem::truth);
        let truth = truth.map(|truth| truth.part(first, count));
        let mut metrics = evaluate(method.kind().key(), &mean, first, truth.as_ref(), given.problem)?;
        let calibration = truth
            .filter(|_| chains > 1 && samples.diverged.is_empty())
            .and_then(|truth| Calibration::of(&samples.states, chains, &truth));
        let evaluations = evaluations(algorithm, given, &samples, count);
        for (index, row) in metrics.iter_mut().enumerate() {
            row.diverged = samples.is_lost(index);
            row.evaluations = Some(evaluations[index]);
            row.predicted_error = samples.estimate.as_ref().map(|own| own.predicted_error[index]);
            row.ep_iterations = samples.estimate.as_ref().map(|own| own.ep_iterations[index]);
        }
        if let Some(problem) = given.problem {
            compare_measurements(&mut metrics, &mean, first, problem);
        }
        Ok(Self {
            method,
            mean,
            std,
            chains,
            predicted_error: samples.estimate.map(|own| own.predicted_error),
            samples: samples.states,
            evaluations,
            metrics,
            calibration,
            diverged: samples.diverged,
            notes,
            seconds: samples.seconds,
        })
    }

    /// The mean PSNR of the images that did not diverge, in dB; `None` without a truth.
    pub fn psnr(&self) -> Option<f64> {
        let alive = self.metrics.iter().filter(|row| !row.diverged);
        let all = alive.map(|row| row.psnr).collect::<Option<Vec<f64>>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }
}

/// Evaluations of the network for each image: what a pass counts of each image itself, else the pass's steps.
fn evaluations(algorithm: &dyn Algorithm, given: Inputs<'_>, samples: &Samples, images: usize) -> Vec<usize> {
    let of_passes = |first: usize| -> usize {
        let passes = algorithm.passes(given);
        let states = |per_chain: bool| if per_chain { samples.chains } else { 1 };
        let passes = passes.iter().skip(first);
        passes.map(|pass| pass.steps().len() * states(pass.per_chain())).sum()
    };
    match &samples.estimate {
        Some(own) => {
            let rest = of_passes(1);
            own.evaluations.iter().map(|counted| counted + rest).collect()
        }
        None => vec![of_passes(0); images],
    }
}

//! What is timed, and how.

use std::rc::Rc;
use std::time::Instant;

use qcs::engine::{Constants, Engine, Products, State};
use qcs::likelihood::{Diag, Ep, Likelihood};
use qcs::methods::langevin::LangevinSettings;
use qcs::methods::turbo::TurboSettings;
use qcs::methods::{Algorithm, Inputs, PRESETS, Preset, QcsSgmPlus, ScorePlan, Turbo};
use qcs::plan::{Contents, Langevin, Plan, PlanBuilder, ProductOp, Program, SamplerOp, Step, TensorId};
use qcs::prior::{Denoiser, Prior, Schedule, UNet};
use qcs::problem::{Ensemble, Measurements, Problem, Sensing, Simulation, Structure};
use qcs::reconstruct::{Driver, Outcome, Unobserved};
use qcs::{Error, ImageShape, Images, Result};

use super::{Architecture, What};

/// What is measured: a model, or a network with random weights.
pub struct Subject {
    /// The paper's settings for its images; for images of another shape, with half as many measurements as values
    pub preset: Preset,
    /// The model's name, or the kind of network
    pub network: String,
    /// The width of a random network
    pub ngf: Option<usize>,
    what: Weights,
}

enum Weights {
    Random(Architecture, usize),
    Model(Rc<Prior>),
}

/// Where no preset has images of that shape, what is said of the preset.
const NO_PRESET: &str = "none";

impl Subject {
    pub fn random(preset: Preset, network: Architecture, ngf: usize) -> Self {
        Self {
            preset,
            network: network.name().to_owned(),
            ngf: Some(ngf),
            what: Weights::Random(network, ngf),
        }
    }

    /// The model, knowing enough of itself for turbo.
    pub fn of_model(name: String, prior: Prior) -> Result<Self> {
        let image = prior.image();
        let prior = prior.with_denoiser(denoiser(image))?;
        let other = || Preset {
            name: NO_PRESET,
            channels: image.channels,
            measurements: image.len().div_ceil(2),
            ..PRESETS[PRESETS.len() - 1]
        };
        Ok(Self {
            preset: Preset::of_shape(image).copied().unwrap_or_else(other),
            network: name,
            ngf: None,
            what: Weights::Model(Rc::new(prior)),
        })
    }

    /// The prior, knowing enough of itself for turbo.
    pub fn prior(&self) -> Result<Rc<Prior>> {
        let prior = match &self.what {
            Weights::Random(Architecture::Ncsnv2, ngf) => Prior::random_of_width(*ngf, self.preset.image(), 0),
            Weights::Random(Architecture::Unet, ngf) => Prior::random(UNet::of_width(*ngf, self.preset.image()), 0),
            Weights::Model(prior) => return Ok(Rc::clone(prior)),
        };
        let table = denoiser(prior.image());
        prior.with_denoiser(table).map(Rc::new)
    }
}

/// One combination of the lists.
pub struct Setting<'a> {
    pub subject: &'a Subject,
    pub prior: &'a Prior,
    pub batch: usize,
    pub measurements: usize,
    pub levels: usize,
    pub repetitions: usize,
    pub warm_up: usize,
    /// Who multiplies by U
    pub products: Products,
}

/// The seconds of each repetition, and what was done in one.
pub struct Timing {
    pub name: &'static str,
    pub seconds: Vec<f64>,
    /// Floating-point operations of the products
    pub flops: u64,
    /// Langevin steps, where whole steps were taken
    pub steps: Option<usize>,
}

impl Setting<'_> {
    /// Times every part and hands it to `report` at once.
    pub fn run(
        &self,
        whats: &[What],
        engine: &mut dyn Engine,
        report: &mut dyn FnMut(Timing) -> Result<()>,
    ) -> Result<()> {
        let (prior, image) = (self.prior, self.prior.image());
        let measured = whats.iter().any(|what| !matches!(what, What::Forward | What::Langevin));
        let problem = measured.then(|| self.problem(image)).transpose()?;
        for &what in whats {
            let timings = match (what, &problem) {
                (What::Forward, _) => vec![self.forward(engine, prior)?],
                (What::Langevin, _) => vec![self.langevin(engine, image)?],
                (What::Ep, Some(problem)) => {
                    vec![self.likelihood(engine, problem, what, &Likelihood::Ep(Ep::default()))?]
                }
                (What::Diag, Some(problem)) => vec![self.likelihood(engine, problem, what, &Likelihood::Diag(Diag))?],
                // An operator without a matrix has no U to multiply by.
                (What::Products, Some(problem)) if problem.a().matrix().is_none() => Vec::new(),
                (What::Products, Some(problem)) => self.rotations(engine, problem)?,
                (What::Step, Some(problem)) => vec![self.step(engine, prior, problem)?],
                (What::Turbo, Some(problem)) => vec![self.turbo(engine, prior, problem)?],
                (What::Run, Some(problem)) => vec![self.reconstruct(engine, prior, problem)?],
                _ => unreachable!("a list of parts, and a problem wherever one is measured"),
            };
            timings.into_iter().try_for_each(&mut *report)?;
        }
        Ok(())
    }

    /// One bit, kappa = 1000, the hardest of the paper's; for images that it does not have, Hadamard.
    fn problem(&self, image: ImageShape) -> Result<Problem> {
        let simulation = Simulation {
            sigma: 0.05,
            bits: 1,
            step: None,
            mean_square: self.subject.preset.mean_square,
            dither: false,
            seed: 0,
        };
        let sensing = match self.subject.preset.name {
            NO_PRESET => {
                let count = Some(Measurements::Count(self.measurements));
                Sensing::Inputs(Structure::Hadamard.draw(image, count, 0)?)
            }
            _ => Sensing::Drawn {
                ensemble: Ensemble::IllConditioned { kappa: 1000.0 },
                m: self.measurements,
            },
        };
        let images = Images::new(image, vec![0.5; self.batch * image.len()]);
        Problem::simulate(images, sensing, &simulation)
    }

    fn settings(&self) -> Result<LangevinSettings> {
        QcsSgmPlus::of_preset(&self.subject.preset).settings(Likelihood::default())
    }

    fn forward(&self, engine: &mut dyn Engine, prior: &Prior) -> Result<Timing> {
        let compiled = ScorePlan::of_prior(prior, self.batch, engine.target());
        let constants = Constants {
            prior: Some(prior),
            ..Constants::default()
        };
        let level = Some((compiled.level, self.unit_levels()));
        self.time(What::Forward, engine, &compiled.plan, constants, level)
    }

    fn likelihood(
        &self,
        engine: &mut dyn Engine,
        problem: &Problem,
        what: What,
        likelihood: &Likelihood,
    ) -> Result<Timing> {
        let compiled = ScorePlan::of_likelihood(likelihood, problem, self.batch, engine.target());
        if compiled.plan.needs_spectrum() {
            engine.factorise(problem)?;
        }
        let constants = Constants {
            problem: Some(problem),
            ..Constants::default()
        };
        let level = Some((compiled.level, self.unit_levels()));
        self.time(what, engine, &compiled.plan, constants, level)
    }

    fn langevin(&self, engine: &mut dyn Engine, image: ImageShape) -> Result<Timing> {
        let mut plan = PlanBuilder::new(self.batch, engine.target());
        let [x, prior, likelihood] = [(); 3].map(|()| plan.persistent(Contents::F32(image.len())));
        let frozen = plan.persistent(Contents::U32(1));
        plan.begin(Program::Step);
        let gamma = plan.temporary(Contents::F64(1));
        plan.push(SamplerOp::Gamma {
            prior,
            likelihood,
            rule: self.settings()?.gamma,
            gamma,
        });
        plan.push(Langevin {
            x,
            prior,
            likelihood: Some((likelihood, gamma)),
            velocity: None,
            frozen,
        });
        let plan = plan.finish(engine.target());
        self.time(What::Langevin, engine, &plan, Constants::default(), None)
    }

    /// U·d by our own code, and by the library if there is one that may be used.
    fn rotations(&self, engine: &mut dyn Engine, problem: &Problem) -> Result<Vec<Timing>> {
        engine.factorise(problem)?;
        let mut plan = PlanBuilder::new(self.batch, engine.target());
        let [input, output] = [(); 2].map(|()| plan.persistent(Contents::F64(self.measurements)));
        plan.begin(Program::Step);
        plan.push(ProductOp::RotateOut { input, output });
        let plan = plan.finish(engine.target());
        let constants = Constants {
            problem: Some(problem),
            ..Constants::default()
        };
        engine.choose_products(Products::Own);
        let mut timings = vec![self.time(What::Products, engine, &plan, constants, None)?];
        if self.products != Products::Own && engine.choose_products(Products::Library) {
            timings.push(Timing {
                name: "products_cublas",
                ..self.time(What::Products, engine, &plan, constants, None)?
            });
        }
        engine.choose_products(self.products);
        Ok(timings)
    }

    fn step(&self, engine: &mut dyn Engine, prior: &Prior, problem: &Problem) -> Result<Timing> {
        engine.factorise(problem)?;
        let settings = self.settings()?;
        let plan = sampling(&settings, self.given(prior, problem), self.batch, engine);
        let constants = Constants {
            prior: Some(prior),
            problem: Some(problem),
            ..Constants::default()
        };
        let timing = self.time(What::Step, engine, &plan, constants, None)?;
        Ok(Timing {
            steps: Some(1),
            ..timing
        })
    }

    /// An image is never settled here: every repetition is an iteration of all of them.
    fn turbo(&self, engine: &mut dyn Engine, prior: &Prior, problem: &Problem) -> Result<Timing> {
        engine.factorise(problem)?;
        let most = (self.warm_up + self.repetitions + 1) as u32;
        let settings = TurboSettings {
            evaluations: most,
            tolerance: f64::MIN_POSITIVE,
            ..Turbo::base().settings()?
        };
        let given = self.given(prior, problem);
        settings.check(given)?;
        let compiled = settings.passes(given)[0].compile(self.batch, engine.target());
        let constants = Constants {
            prior: Some(prior),
            problem: Some(problem),
            ..Constants::default()
        };
        let begins = compiled.counter.map(|counter| (counter, vec![0; 4 * self.batch]));
        let timing = self.time(What::Turbo, engine, &compiled.plan, constants, begins)?;
        Ok(Timing {
            steps: Some(1),
            ..timing
        })
    }

    /// Noise level 1 for each state, as a tensor holds it.
    fn unit_levels(&self) -> Vec<u8> {
        1f64.to_ne_bytes().repeat(self.batch)
    }

    fn given<'a>(&self, prior: &'a Prior, problem: &'a Problem) -> Inputs<'a> {
        Inputs {
            prior,
            problem: Some(problem),
            chains: 1,
        }
    }

    /// Executes the step program again and again, at noise level 1, with a tensor set to what it is to hold `first`. Every repetition is the next step: a device goes on by itself.
    fn time(
        &self,
        what: What,
        engine: &mut dyn Engine,
        plan: &Plan,
        constants: Constants<'_>,
        first: Option<(TensorId, Vec<u8>)>,
    ) -> Result<Timing> {
        let step = |index| Step::plain(1.0, 1e-4, index);
        let steps: Vec<Step> = (0..(self.warm_up + self.repetitions) as u32).map(step).collect();
        let mut session = engine.session(
            plan,
            Constants {
                steps: &steps,
                ..constants
            },
        )?;
        let states: Vec<State> = (0..self.batch).map(|image| State { image, chain: 0 }).collect();
        session.bind(&states)?;
        if let Some((tensor, bytes)) = first {
            session.write(tensor, &bytes)?;
        }
        session.execute(Program::Start, 0)?;
        let mut execute = |step: usize| {
            let begun = Instant::now();
            session.execute(Program::Step, step)?;
            session.wait()?;
            Ok::<f64, Error>(begun.elapsed().as_secs_f64())
        };
        for warm_up in 0..self.warm_up {
            execute(warm_up)?;
        }
        let repetitions = self.warm_up..self.warm_up + self.repetitions;
        Ok(Timing {
            name: what.name(),
            seconds: repetitions.map(execute).collect::<Result<_>>()?,
            flops: plan.flops(Program::Step),
            steps: None,
        })
    }

    /// A whole run over the first levels of the preset's schedule, from the upload to the samples.
    fn reconstruct(&self, engine: &mut dyn Engine, prior: &Prior, problem: &Problem) -> Result<Timing> {
        let settings = self.settings()?;
        let settings = LangevinSettings {
            denoise: false,
            schedule: Schedule::new(settings.schedule.levels()[..self.levels].to_vec())?,
            ..settings
        };
        let driver = Driver {
            algorithm: &settings,
            given: self.given(prior, problem),
            first: 0,
            images: self.batch,
            seed: 0,
            batch: self.batch,
        };
        let steps = settings.steps().len();
        let plan = sampling(&settings, driver.given, self.batch, engine);
        let mut run = || {
            let begun = Instant::now();
            match driver.run(engine, None, &mut Unobserved)? {
                Outcome::Finished(_) => Ok(begun.elapsed().as_secs_f64()),
                Outcome::Stopped => Err(Error::Failed("the run was stopped".to_owned())),
            }
        };
        for _ in 0..self.warm_up {
            run()?;
        }
        Ok(Timing {
            name: What::Run.name(),
            seconds: (0..self.repetitions).map(|_| run()).collect::<Result<_>>()?,
            flops: steps as u64 * plan.flops(Program::Step),
            steps: Some(steps),
        })
    }
}

/// What a prior of such images may know of itself; the numbers change no time.
fn denoiser(image: ImageShape) -> Denoiser {
    let levels: Vec<f32> = (0..14).map(|i| 0.01 * 2f32.powi(i)).collect();
    let errors = levels
        .iter()
        .map(|level| 0.05 * level * level / (0.2 + level))
        .collect();
    Denoiser {
        mean: vec![0.5; image.len()],
        variance: 0.08,
        levels,
        errors,
        peak: None,
    }
}

/// The plan of a batch.
fn sampling(settings: &LangevinSettings, given: Inputs<'_>, batch: usize, engine: &dyn Engine) -> Plan {
    settings.passes(given)[0].compile(batch, engine.target()).plan
}

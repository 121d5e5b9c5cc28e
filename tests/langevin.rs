//! Annealed Langevin dynamics on a small random network: what its steps are, what its results must not depend on, and what happens when
//! a state diverges.

mod small;

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Engine, SeveralEngines};
use qcs::likelihood::{Diag, Likelihood, SettledEp};
use qcs::methods::QcsSgmPlus;
use qcs::methods::langevin::{Dynamics, LangevinSettings, LangevinSteps};
use qcs::methods::{Divergence, Inputs, Options, Preset, Samples, prior_score};
use qcs::plan::GammaRule;
use qcs::prior::Prior;
use qcs::problem::Problem;
use qcs::reconstruct::{Checkpoint, Driver, Outcome, Unobserved};
use qcs::{ImageShape, Images};
use qcs_kernels::philox::{Domain, Stream};
use small::{IMAGE, IMAGES, StopAfter, finished};

struct Fixture {
    prior: Prior,
    problem: Problem,
    settings: LangevinSettings,
    chains: usize,
    seed: u64,
    batch: usize,
}

fn fixture() -> Fixture {
    let options = QcsSgmPlus {
        steps_per_level: Some(2),
        step_scale: Some(0.1),
        momentum: Some(0.6),
        ..QcsSgmPlus::geometric(5.0, 0.05, 4)
    };
    let preset = QcsSgmPlus::of_preset(Preset::find("mnist").unwrap());
    Fixture {
        prior: small::prior(),
        problem: small::problem(),
        settings: options.over(preset).settings(Likelihood::default()).unwrap(),
        chains: 2,
        seed: 42,
        batch: 8,
    }
}

impl Fixture {
    fn driver(&self) -> Driver<'_> {
        Driver {
            algorithm: &self.settings,
            given: Inputs {
                prior: &self.prior,
                problem: Some(&self.problem),
                chains: self.chains,
            },
            first: 0,
            images: IMAGES,
            seed: self.seed,
            batch: self.batch,
        }
    }

    fn run(&self, threads: usize) -> Samples {
        finished(self.driver().run(&mut CpuEngine::new(threads), None, &mut Unobserved))
    }

    fn langevin(&mut self) -> &mut LangevinSteps {
        langevin(&mut self.settings)
    }

    /// The random numbers of the first image's first chain.
    fn stream(&self, domain: Domain, step: u32) -> Stream {
        Stream {
            seed: self.seed,
            domain,
            image: 0,
            chain: 0,
            step,
        }
    }
}

fn langevin(settings: &mut LangevinSettings) -> &mut LangevinSteps {
    match &mut settings.dynamics {
        Dynamics::Langevin(steps) => steps,
        Dynamics::Reverse => panic!("these have no Langevin steps"),
    }
}

fn assert_same_bits(a: &Samples, b: &Samples, what: &str) {
    assert_eq!(a.states.data.len(), b.states.data.len());
    let same = a
        .states
        .data
        .iter()
        .zip(&b.states.data)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same && a.diverged == b.diverged, "{what}");
}

#[test]
fn a_run_without_a_problem_is_the_definition_written_out() {
    let mut fixture = fixture();
    fixture.chains = 1;
    for momentum in [0.0, 0.6] {
        fixture.langevin().momentum = momentum;
        let steps_per_level = fixture.langevin().steps_per_level;
        let mut driver = fixture.driver();
        (driver.given.problem, driver.images) = (None, 1);
        let samples = finished(driver.run(&mut CpuEngine::new(1), None, &mut Unobserved));

        let mut engine = CpuEngine::new(1);
        let stream = |domain, step| fixture.stream(domain, step);
        let mut x = Images::new(IMAGE, vec![0.0; IMAGE.len()]);
        stream(Domain::Start, 0).fill_uniforms(0, &mut x.data);
        let (mut movement, mut z) = (vec![0.0; IMAGE.len()], vec![0.0; IMAGE.len()]);
        let mut step = 0;
        for &beta in fixture.settings.schedule.levels() {
            for _ in 0..steps_per_level {
                let score = prior_score(&mut engine, &fixture.prior, &x, f64::from(beta)).unwrap();
                stream(Domain::Noise, step).fill_normals(0, &mut z);
                let alpha = 0.1 * f64::from(beta).powi(2);
                let noise = (2.0 * alpha * (1.0 - momentum)).sqrt();
                // Movements are kept in units of the noise level.
                for (e, x) in x.data.iter_mut().enumerate() {
                    let forced = alpha * f64::from(score.data[e]) + noise * f64::from(z[e]);
                    movement[e] = momentum * movement[e] + forced / f64::from(beta);
                    *x += (f64::from(beta) * movement[e]) as f32;
                }
                step += 1;
            }
        }
        let beta = fixture.settings.schedule.end();
        let score = prior_score(&mut engine, &fixture.prior, &x, f64::from(beta)).unwrap();
        for ((x, score), sample) in x.data.iter().zip(&score.data).zip(&samples.states.data) {
            let expected = x + beta * beta * score;
            assert!(
                (sample - expected).abs() < 1e-4,
                "momentum {momentum}: {sample} {expected}"
            );
        }
    }
}

#[test]
fn the_reverse_sde_is_its_definition_written_out() {
    let mut fixture = fixture();
    fixture.settings.dynamics = Dynamics::Reverse;
    let levels: Vec<f64> = fixture
        .settings
        .schedule
        .levels()
        .iter()
        .copied()
        .map(f64::from)
        .collect();
    for denoise in [false, true] {
        fixture.settings.denoise = denoise;
        let mut driver = fixture.driver();
        (driver.given.problem, driver.given.chains, driver.images) = (None, 1, 1);
        let samples = finished(driver.run(&mut CpuEngine::new(1), None, &mut Unobserved));

        let mut engine = CpuEngine::new(1);
        let stream = |domain, step| fixture.stream(domain, step);
        let (mut x, mut z) = (vec![0.0; IMAGE.len()], vec![0.0; IMAGE.len()]);
        stream(Domain::Start, 0).fill_uniforms(0, &mut x);
        stream(Domain::Noise, 0).fill_normals(0, &mut z);
        x.iter_mut().zip(&z).for_each(|(x, z)| *x += levels[0] as f32 * z);
        let mut denoised = |x: &[f32], level: f64| -> Vec<f64> {
            let noisy = Images::new(IMAGE, x.to_vec());
            let score = prior_score(&mut engine, &fixture.prior, &noisy, level).unwrap();
            let image = |(x, score): (&f32, &f32)| f64::from(*x) + level * level * f64::from(*score);
            x.iter().zip(&score.data).map(image).collect()
        };
        for (step, pair) in levels.windows(2).enumerate() {
            let (a, b) = (pair[0], pair[1]);
            let d = denoised(&x, a);
            stream(Domain::Noise, step as u32 + 1).fill_normals(0, &mut z);
            // x given its image and x at level a is Gaussian: the share (b/a)² of the noise stays.
            let (kept, fresh) = ((b / a).powi(2), b * (1.0 - (b / a).powi(2)).sqrt());
            for (e, x) in x.iter_mut().enumerate() {
                *x = (d[e] + kept * (f64::from(*x) - d[e]) + fresh * f64::from(z[e])) as f32;
            }
        }
        let end = levels[levels.len() - 1];
        let expected: Vec<f64> = match denoise {
            true => denoised(&x, end),
            false => x.iter().copied().map(f64::from).collect(),
        };
        for (sample, expected) in samples.states.data.iter().zip(&expected) {
            assert!(
                (f64::from(*sample) - expected).abs() < 1e-4,
                "{denoise}: {sample} {expected}"
            );
        }
    }
}

#[test]
fn samples_do_not_depend_on_batch_size_or_threads() {
    for likelihood in [Likelihood::default(), Likelihood::Diag(Diag), settled()] {
        let mut fixture = fixture();
        fixture.settings.likelihood = likelihood;
        let reference = fixture.run(2);
        assert!(reference.diverged.is_empty());
        for (batch, threads) in [(1, 1), (1, 2), (3, 2), (8, 1), (8, 3), (100, 2)] {
            fixture.batch = batch;
            assert_same_bits(
                &fixture.run(threads),
                &reference,
                &format!("{likelihood:?}, batch {batch}, {threads} threads"),
            );
        }
    }
}

#[test]
fn samples_do_not_depend_on_how_engines_share_a_batch() {
    let mut fixture = fixture();
    fixture.chains = 1;
    let reference = fixture.run(1);
    for (batch, count) in [(4, 2), (4, 3), (3, 2), (2, 3), (1, 2)] {
        fixture.batch = batch;
        let engines = (0..count).map(|_| Box::new(CpuEngine::new(1)) as Box<dyn Engine>);
        let mut several = SeveralEngines::new(engines.collect());
        let samples = finished(fixture.driver().run(&mut several, None, &mut Unobserved));
        assert_same_bits(&samples, &reference, &format!("batch {batch}, {count} engines"));
    }
}

#[test]
fn an_images_samples_do_not_depend_on_how_many_chains_or_images_come_after_it() {
    let mut fixture = fixture();
    let two = fixture.run(2);
    fixture.chains = 1;
    let mut driver = fixture.driver();
    driver.images = 2;
    let one = finished(driver.run(&mut CpuEngine::new(2), None, &mut Unobserved));
    for image in 0..2 {
        assert_eq!(one.states.image(image), two.states.image(2 * image));
    }
}

#[test]
fn seeds_chains_and_images_give_different_samples() {
    let mut fixture = fixture();
    let first = fixture.run(2);
    fixture.seed += 1;
    let second = fixture.run(2);
    assert_ne!(first.states.image(0), second.states.image(0));
    assert_ne!(first.states.image(0), first.states.image(1));
    assert_ne!(first.states.image(0), first.states.image(2));
}

#[test]
fn a_run_stopped_anywhere_and_resumed_gives_the_same_bits() {
    let mut fixture = fixture();
    fixture.batch = 3;
    stopped_anywhere(&fixture);
    // With sites that go on from step to step.
    fixture.settings.likelihood = settled();
    stopped_anywhere(&fixture);
}

fn settled() -> Likelihood {
    Likelihood::Settled(SettledEp {
        iterations: 3,
        tolerance: SettledEp::TOLERANCE,
    })
}

fn stopped_anywhere(fixture: &Fixture) {
    let reference = fixture.run(2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    // 8 steps a batch: within a level, at its end, at the end of a batch, and in the last, smaller batch.
    for steps in [1, 2, 5, 8, 9, 20, 24] {
        let mut stop = StopAfter {
            steps,
            path: path.clone(),
        };
        let outcome = fixture.driver().run(&mut CpuEngine::new(2), None, &mut stop).unwrap();
        assert!(matches!(outcome, Outcome::Stopped));
        let checkpoint = Checkpoint::read(&path, "this run").unwrap();
        let resumed = fixture
            .driver()
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved);
        assert_same_bits(&finished(resumed), &reference, &format!("stopped after {steps} steps"));
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let fixture = fixture();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut stop = StopAfter {
        steps: 3,
        path: path.clone(),
    };
    fixture.driver().run(&mut CpuEngine::new(1), None, &mut stop).unwrap();
    assert!(Checkpoint::read(&path, "another run").is_err());
    let mut smaller = fixture.driver();
    smaller.images = 2;
    let checkpoint = Checkpoint::read(&path, "this run").unwrap();
    assert!(
        smaller
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved)
            .is_err()
    );
    let checkpoint = Checkpoint::read(&path, "this run").unwrap();
    let mut plain = fixture.settings.clone();
    langevin(&mut plain).momentum = 0.0;
    let mut driver = fixture.driver();
    driver.algorithm = &plain;
    assert!(
        driver
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved)
            .is_err()
    );
    let whole = std::fs::read(&path).unwrap();
    let right = Checkpoint::read(&path, "this run").unwrap();
    for at in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        // Spaces behind the header are nobody's.
        let read = Checkpoint::read(&path, "this run");
        assert!(read.is_err() || read.is_ok_and(|read| read == right), "byte {at}");
    }
    for length in [0, 4, 8, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(Checkpoint::read(&path, "this run").is_err(), "{length} bytes");
    }
}

#[test]
fn a_diverging_state_is_frozen_and_named_while_the_others_finish_unchanged() {
    let mut fixture = fixture();
    fixture.chains = 1;
    fixture.settings.gamma = GammaRule::Constant { gamma: 1.0 };
    let healthy = fixture.run(2);
    assert!(healthy.diverged.is_empty());
    // One measurement of image 2 at the edge of what f64 holds drives its likelihood score out of f32's range.
    let cells = fixture.problem.cells();
    let (mut lower, mut upper) = (cells.lower().to_vec(), cells.upper().to_vec());
    lower[2 * cells.m() + 3] = 1e200;
    upper[2 * cells.m() + 3] = f64::INFINITY;
    let cells = qcs::problem::Cells::new(cells.m(), lower, upper).unwrap();
    let spectrum = fixture.problem.spectrum().unwrap().clone();
    let problem = Problem::new(fixture.problem.a().clone(), cells, 0.05).unwrap();
    fixture.problem = problem.with_spectrum(spectrum).unwrap();
    let one_bad = fixture.run(2);
    let named: Vec<_> = one_bad
        .diverged
        .iter()
        .map(|d| (d.image, d.chain, d.level, d.step))
        .collect();
    assert_eq!(named, [(2, 0, 1, 1)]);
    assert!(one_bad.states.data.iter().all(|v| v.is_finite()));
    for image in [0, 1, 3] {
        assert_eq!(
            one_bad.states.image(image),
            healthy.states.image(image),
            "image {image}"
        );
    }
    fixture.batch = 1;
    assert_same_bits(&fixture.run(1), &one_bad, "batch of one");
}

#[test]
fn a_step_that_is_too_large_diverges_everywhere_and_says_so() {
    let mut fixture = fixture();
    fixture.langevin().step_scale = 1e38;
    let samples = fixture.run(2);
    assert_eq!(samples.diverged.len(), IMAGES * 2);
    assert!(samples.states.data.iter().all(|v| v.is_finite()));
}

#[test]
fn finite_states_that_are_no_images_have_diverged_at_the_end() {
    let mut fixture = fixture();
    fixture.langevin().step_scale = 1e30;
    let samples = fixture.run(2);
    assert!(samples.states.data.iter().all(|v| v.is_finite()));
    assert_eq!(samples.diverged.len(), IMAGES * 2);
    let (levels, steps) = (fixture.settings.schedule.len(), fixture.langevin().steps_per_level);
    for d in &samples.diverged {
        assert_eq!((d.level, d.step), (levels, steps));
        assert!(d.reach.unwrap() > 1e20);
    }
    assert!((0..IMAGES).all(|image| samples.is_lost(image)));
}

#[test]
fn without_a_problem_the_prior_is_sampled() {
    let fixture = fixture();
    let mut driver = fixture.driver();
    driver.given.problem = None;
    let prior_only = finished(driver.run(&mut CpuEngine::new(2), None, &mut Unobserved));
    assert!(prior_only.diverged.is_empty());
    assert_ne!(prior_only.states.data, fixture.run(2).states.data);
}

#[test]
fn mean_and_standard_deviation_leave_diverged_chains_out() {
    let shape = ImageShape::new(1, 1, 1);
    let samples = Samples {
        states: Images::new(shape, vec![1.0, 3.0, 100.0]),
        chains: 3,
        diverged: vec![Divergence {
            image: 0,
            chain: 2,
            level: 1,
            step: 1,
            reach: None,
        }],
        seconds: 0.0,
        estimate: None,
    };
    assert_eq!(samples.mean().data, [2.0]);
    assert_eq!(samples.std().unwrap().data, [2f32.sqrt()]);
}

#[test]
fn a_problem_of_another_size_is_refused() {
    let fixture = fixture();
    let other = Prior::random_of_width(8, ImageShape::new(1, 14, 14), 5);
    let mut driver = fixture.driver();
    driver.given.prior = &other;
    assert!(driver.run(&mut CpuEngine::new(1), None, &mut Unobserved).is_err());
}

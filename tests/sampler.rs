//! The sampler on a small random network: what its steps are, what its results must not depend on, and what happens when
//! a state diverges.

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Engine, SeveralEngines};
use qcs::likelihood::{Likelihood, Method};
use qcs::prior::{Ncsnv2, Prior, Schedule};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::sampler::{Checkpoint, GammaRule, Next, Observer, Outcome, Progress, Sampler, Samples, Settings, Unobserved};
use qcs::{ImageShape, Images, Result};
use qcs_kernels::philox::{Domain, Stream};

const IMAGE: ImageShape = ImageShape::new(1, 12, 12);
const IMAGES: usize = 4;

struct Fixture {
    prior: Prior,
    problem: Problem,
    schedule: Schedule,
    settings: Settings,
}

fn fixture() -> Fixture {
    let prior = Prior::random(Ncsnv2 { ngf: 8, image: IMAGE }, 5);
    let data = (0..IMAGES * IMAGE.len())
        .map(|i| (i * 7919 % 101) as f32 / 100.0)
        .collect();
    let simulation = Simulation {
        bits: 2,
        step: None,
        sigma: 0.05,
        mean_square: 0.3,
        seed: 11,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 100.0 },
        m: 40,
    };
    Fixture {
        prior,
        problem: Problem::simulate(Images::new(IMAGE, data), sensing, &simulation).unwrap(),
        schedule: Schedule::geometric(5.0, 0.05, 4).unwrap(),
        settings: Settings {
            steps_per_level: 2,
            step_scale: 0.1,
            momentum: 0.6,
            chains: 2,
            seed: 42,
            batch: 8,
            ..Settings::default()
        },
    }
}

impl Fixture {
    fn sampler(&self) -> Sampler<'_> {
        Sampler {
            prior: &self.prior,
            problem: Some(&self.problem),
            images: IMAGES,
            schedule: &self.schedule,
            settings: self.settings,
        }
    }

    fn run(&self, threads: usize) -> Samples {
        finished(self.sampler().run(&mut CpuEngine::new(threads), None, &mut Unobserved))
    }
}

fn finished(outcome: Result<Outcome>) -> Samples {
    match outcome.unwrap() {
        Outcome::Finished(samples) => samples,
        Outcome::Stopped => panic!("nobody stopped the run"),
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
    fixture.settings.chains = 1;
    for momentum in [0.0, 0.6] {
        fixture.settings.momentum = momentum;
        let mut sampler = fixture.sampler();
        (sampler.problem, sampler.images) = (None, 1);
        let samples = finished(sampler.run(&mut CpuEngine::new(1), None, &mut Unobserved));

        let mut engine = CpuEngine::new(1);
        let stream = |domain, step| Stream {
            seed: fixture.settings.seed,
            domain,
            image: 0,
            chain: 0,
            step,
        };
        let mut x = Images::new(IMAGE, vec![0.0; IMAGE.len()]);
        stream(Domain::Start, 0).fill_uniforms(0, &mut x.data);
        let (mut movement, mut z) = (vec![0.0; IMAGE.len()], vec![0.0; IMAGE.len()]);
        let mut step = 0;
        for &beta in fixture.schedule.levels() {
            for _ in 0..fixture.settings.steps_per_level {
                let score = fixture.prior.score(&mut engine, &x, f64::from(beta)).unwrap();
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
        let beta = fixture.schedule.end();
        let score = fixture.prior.score(&mut engine, &x, f64::from(beta)).unwrap();
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
fn samples_do_not_depend_on_batch_size_or_threads() {
    for method in [Method::Ep, Method::Diag] {
        let mut fixture = fixture();
        fixture.settings.likelihood = Likelihood {
            method,
            ..Likelihood::default()
        };
        let reference = fixture.run(2);
        assert!(reference.diverged.is_empty());
        for (batch, threads) in [(1, 1), (1, 2), (3, 2), (8, 1), (8, 3), (100, 2)] {
            fixture.settings.batch = batch;
            assert_same_bits(
                &fixture.run(threads),
                &reference,
                &format!("{method:?}, batch {batch}, {threads} threads"),
            );
        }
    }
}

#[test]
fn samples_do_not_depend_on_how_engines_share_a_batch() {
    let mut fixture = fixture();
    fixture.settings.chains = 1;
    let reference = fixture.run(1);
    for (batch, count) in [(4, 2), (4, 3), (3, 2), (2, 3), (1, 2)] {
        fixture.settings.batch = batch;
        let engines = (0..count).map(|_| Box::new(CpuEngine::new(1)) as Box<dyn Engine>);
        let mut several = SeveralEngines::new(engines.collect());
        let samples = finished(fixture.sampler().run(&mut several, None, &mut Unobserved));
        assert_same_bits(&samples, &reference, &format!("batch {batch}, {count} engines"));
    }
}

#[test]
fn an_images_samples_do_not_depend_on_how_many_chains_or_images_come_after_it() {
    let mut fixture = fixture();
    let two = fixture.run(2);
    fixture.settings.chains = 1;
    let mut sampler = fixture.sampler();
    sampler.images = 2;
    let one = finished(sampler.run(&mut CpuEngine::new(2), None, &mut Unobserved));
    for image in 0..2 {
        assert_eq!(one.states.image(image), two.states.image(2 * image));
    }
}

#[test]
fn seeds_chains_and_images_give_different_samples() {
    let mut fixture = fixture();
    let first = fixture.run(2);
    fixture.settings.seed += 1;
    let second = fixture.run(2);
    assert_ne!(first.states.image(0), second.states.image(0));
    assert_ne!(first.states.image(0), first.states.image(1));
    assert_ne!(first.states.image(0), first.states.image(2));
}

/// Stops after a number of steps and keeps the checkpoint, through its file.
struct StopAfter {
    steps: usize,
    path: std::path::PathBuf,
}

impl Observer for StopAfter {
    fn after_step(&mut self, _: &Progress) -> Next {
        self.steps -= 1;
        if self.steps == 0 { Next::Stop } else { Next::Continue }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.write(&self.path, "this run")
    }
}

#[test]
fn a_run_stopped_anywhere_and_resumed_gives_the_same_bits() {
    let mut fixture = fixture();
    fixture.settings.batch = 3;
    let reference = fixture.run(2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    // 8 steps a batch: within a level, at its end, at the end of a batch, and in the last, smaller batch.
    for steps in [1, 2, 5, 8, 9, 20, 24] {
        let mut stop = StopAfter {
            steps,
            path: path.clone(),
        };
        let outcome = fixture.sampler().run(&mut CpuEngine::new(2), None, &mut stop).unwrap();
        assert!(matches!(outcome, Outcome::Stopped));
        let checkpoint = Checkpoint::read(&path, "this run").unwrap();
        let resumed = fixture
            .sampler()
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
    fixture.sampler().run(&mut CpuEngine::new(1), None, &mut stop).unwrap();
    assert!(Checkpoint::read(&path, "another run").is_err());
    let mut smaller = fixture.sampler();
    smaller.images = 2;
    let checkpoint = Checkpoint::read(&path, "this run").unwrap();
    assert!(
        smaller
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved)
            .is_err()
    );
    let checkpoint = Checkpoint::read(&path, "this run").unwrap();
    let mut plain = fixture.sampler();
    plain.settings.momentum = 0.0;
    assert!(
        plain
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved)
            .is_err()
    );
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 4, 8, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(Checkpoint::read(&path, "this run").is_err(), "{length} bytes");
    }
}

#[test]
fn a_diverging_state_is_frozen_and_named_while_the_others_finish_unchanged() {
    let mut fixture = fixture();
    fixture.settings.chains = 1;
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
    fixture.settings.batch = 1;
    assert_same_bits(&fixture.run(1), &one_bad, "batch of one");
}

#[test]
fn a_step_that_is_too_large_diverges_everywhere_and_says_so() {
    let mut fixture = fixture();
    fixture.settings.step_scale = 1e38;
    let samples = fixture.run(2);
    assert_eq!(samples.diverged.len(), IMAGES * 2);
    assert!(samples.states.data.iter().all(|v| v.is_finite()));
}

#[test]
fn without_a_problem_the_prior_is_sampled() {
    let fixture = fixture();
    let mut sampler = fixture.sampler();
    sampler.problem = None;
    let prior_only = finished(sampler.run(&mut CpuEngine::new(2), None, &mut Unobserved));
    assert!(prior_only.diverged.is_empty());
    assert_ne!(prior_only.states.data, fixture.run(2).states.data);
}

#[test]
fn mean_and_standard_deviation_leave_diverged_chains_out() {
    let shape = ImageShape::new(1, 1, 1);
    let samples = Samples {
        states: Images::new(shape, vec![1.0, 3.0, 100.0]),
        chains: 3,
        diverged: vec![qcs::sampler::Divergence {
            image: 0,
            chain: 2,
            level: 1,
            step: 1,
        }],
        seconds: 0.0,
    };
    assert_eq!(samples.mean().data, [2.0]);
    assert_eq!(samples.std().unwrap().data, [2f32.sqrt()]);
}

#[test]
fn a_problem_of_another_size_is_refused() {
    let fixture = fixture();
    let other = Prior::random(
        Ncsnv2 {
            ngf: 8,
            image: ImageShape::new(1, 14, 14),
        },
        5,
    );
    let mut sampler = fixture.sampler();
    sampler.prior = &other;
    assert!(sampler.run(&mut CpuEngine::new(1), None, &mut Unobserved).is_err());
}

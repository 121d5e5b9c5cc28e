//! Turbo: against the reference in float64, and what its results must not depend on.

mod small;

use std::path::PathBuf;

use qcs::bundled;
use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Engine, SeveralEngines};
use qcs::files::npy;
use qcs::methods::turbo::TurboSettings;
use qcs::methods::{Inputs, Method, Samples, TURBO, Turbo};
use qcs::prior::{Denoiser, Prior};
use qcs::problem::{Cells, Measurements, Problem};
use qcs::reconstruct::{Checkpoint, Driver, Outcome, Unobserved};
use qcs::run::MeasureConfig;
use qcs::{ImageShape, Images};
use small::{IMAGES, StopAfter, finished};

struct Fixture {
    prior: Prior,
    problem: Problem,
    settings: TurboSettings,
    chains: usize,
    batch: usize,
}

fn fixture() -> Fixture {
    let options = Turbo {
        evaluations: Some(12),
        tolerance: Some(0.2),
        draw_steps: Some(4),
        draw_spread: Some(1.1),
    };
    Fixture {
        prior: small::prior(),
        problem: small::problem(),
        settings: options.settings().unwrap(),
        chains: 1,
        batch: IMAGES,
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
            seed: 3,
            batch: self.batch,
        }
    }

    fn run(&self, engine: &mut dyn Engine) -> Samples {
        finished(self.driver().run(engine, None, &mut Unobserved))
    }
}

fn assert_same(a: &Samples, b: &Samples, what: &str) {
    let bits = |images: &Images| images.data.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&a.states), bits(&b.states), "{what}");
    let (a, b) = (a.estimate.as_ref().unwrap(), b.estimate.as_ref().unwrap());
    assert_eq!(bits(&a.mean), bits(&b.mean), "{what}");
    assert_eq!(
        (&a.evaluations, &a.ep_iterations, &a.predicted_error),
        (&b.evaluations, &b.ep_iterations, &b.predicted_error),
        "{what}"
    );
}

/// `fixtures/turbo/make.py` computed the estimates after 1, 4 and 10 iterations in float64. The bound is ten times the largest error
/// measured, 4.6e-6.
#[test]
fn estimates_are_those_of_the_reference_in_float64() {
    let mut measure = MeasureConfig {
        images: Some(bundled::DIGITS.to_owned()),
        first: Some(2),
        count: Some(3),
        matrix: Some("ill-conditioned".to_owned()),
        kappa: Some(1000.0),
        measurements: Some(Measurements::Count(150)),
        ..MeasureConfig::default()
    };
    // The reference is of NCSNv2.
    let weights = [env!("CARGO_MANIFEST_DIR"), "weights/mnist.safetensors"];
    let prior = Prior::open(&weights.iter().collect::<PathBuf>(), None).unwrap();
    let problem = measure.resolve().unwrap();
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/turbo/reference.npy"]
        .iter()
        .collect::<PathBuf>();
    let reference = npy::read(&path).unwrap();
    assert_eq!(reference.shape, [3, 3, 784]);
    let reference = reference.to_f32();
    for (evaluations, expected) in [1, 4, 10].into_iter().zip(reference.chunks(3 * 784)) {
        let settings = TurboSettings {
            evaluations,
            tolerance: 1e-30,
            draw_steps: 2,
            draw_spread: 1.0,
        };
        let driver = Driver {
            algorithm: &settings,
            given: Inputs {
                prior: &prior,
                problem: Some(&problem),
                chains: 1,
            },
            first: 0,
            images: 3,
            seed: 0,
            batch: 3,
        };
        for mut engine in [CpuEngine::new(2), CpuEngine::portable(2)] {
            let samples = finished(driver.run(&mut engine, None, &mut Unobserved));
            let error = samples
                .states
                .data
                .iter()
                .zip(expected)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            println!("{evaluations} evaluations, {}: {error:.1e}", engine.describe());
            assert!(error < 4.6e-5, "{evaluations} evaluations: {error:e}");
        }
    }
}

#[test]
fn results_do_not_depend_on_batch_threads_or_engines() {
    let mut fixture = fixture();
    for chains in [1, 3] {
        fixture.chains = chains;
        fixture.batch = 100;
        let reference = fixture.run(&mut CpuEngine::new(2));
        assert_eq!(reference.states.count(), IMAGES * chains);
        for (batch, threads) in [(1, 1), (2, 2), (3, 1)] {
            fixture.batch = batch;
            let what = format!("{chains} chains, batch {batch}, {threads} threads");
            assert_same(&fixture.run(&mut CpuEngine::new(threads)), &reference, &what);
        }
        let engines = (0..2).map(|_| Box::new(CpuEngine::new(1)) as Box<dyn Engine>);
        fixture.batch = 3;
        let mut several = SeveralEngines::new(engines.collect());
        assert_same(&fixture.run(&mut several), &reference, "two engines");
    }
}

#[test]
fn where_signs_leave_the_scale_open_the_prior_tells_it_whatever_the_batch() {
    let mut fixture = fixture();
    let knowing = || {
        let table = small::prior().denoiser().unwrap().clone();
        let peak = Some((-1.0, 0.2));
        small::prior().with_denoiser(Denoiser { peak, ..table }).unwrap()
    };
    let two_bits = fixture.run(&mut CpuEngine::new(1));
    fixture.prior = knowing();
    assert_same(
        &fixture.run(&mut CpuEngine::new(1)),
        &two_bits,
        "two bits tell the scale",
    );

    let m = fixture.problem.a().rows();
    let signs: Vec<f64> = (0..IMAGES * m).map(|i| (i as f64 * 2.1).sin()).collect();
    let cells = Cells::from_signs(m, &signs).unwrap();
    fixture.problem = Problem::new(fixture.problem.a().clone(), cells, 0.05).unwrap();
    let bright = fixture.run(&mut CpuEngine::new(2));
    fixture.prior = small::prior();
    let open = fixture.run(&mut CpuEngine::new(1));
    assert_ne!(bright.states.data, open.states.data);
    let errors = |samples: &Samples| samples.estimate.clone().unwrap().predicted_error;
    let wider = errors(&bright)
        .into_iter()
        .zip(errors(&open))
        .all(|(with, without)| with > without);
    assert!(wider, "{:?} {:?}", errors(&bright), errors(&open));
    fixture.prior = knowing();
    fixture.batch = 1;
    assert_same(&fixture.run(&mut CpuEngine::new(1)), &bright, "one by one");
}

#[test]
fn images_stop_by_themselves_and_say_how_long_they_took() {
    let mut fixture = fixture();
    let reference = fixture.run(&mut CpuEngine::new(1));
    let estimate = reference.estimate.unwrap();
    assert!(
        estimate.evaluations.iter().all(|n| (3..=12).contains(n)),
        "{:?}",
        estimate.evaluations
    );
    assert!(
        estimate.ep_iterations.iter().all(|&n| n >= 12),
        "{:?}",
        estimate.ep_iterations
    );
    assert!(estimate.predicted_error.iter().all(|e| e.is_finite() && *e > 0.0));
    fixture.settings.evaluations = 2;
    let short = fixture.run(&mut CpuEngine::new(1)).estimate.unwrap();
    assert_eq!(short.evaluations, [2; IMAGES]);
}

#[test]
fn a_run_stopped_anywhere_and_resumed_gives_the_same_bits() {
    let mut fixture = fixture();
    (fixture.chains, fixture.batch) = (2, 3);
    let reference = fixture.run(&mut CpuEngine::new(2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut stopped = 0;
    for steps in 1..60 {
        let mut stop = StopAfter {
            steps,
            path: path.clone(),
        };
        if let Outcome::Finished(_) = fixture.driver().run(&mut CpuEngine::new(2), None, &mut stop).unwrap() {
            break;
        }
        stopped += 1;
        let checkpoint = Checkpoint::read(&path, "this run").unwrap();
        let resumed = fixture
            .driver()
            .run(&mut CpuEngine::new(1), Some(checkpoint), &mut Unobserved);
        assert_same(&finished(resumed), &reference, &format!("stopped after {steps} steps"));
    }
    assert!(stopped > 15, "both passes were interrupted");
}

#[test]
fn a_prior_without_its_table_is_refused_with_the_command_that_measures_it() {
    let mut fixture = fixture();
    fixture.prior = Prior::random_of_width(8, small::IMAGE, 5);
    let error = fixture.driver().check().unwrap_err();
    assert!(
        error.to_string().contains("`calibrate` measures them") && error.exit_code() == 3,
        "{error}"
    );
    fixture.prior = Prior::random_of_width(8, ImageShape::new(1, 14, 14), 5);
    let error = fixture.driver().check().unwrap_err().to_string();
    assert!(error.contains("1,12,12") && error.contains("1,14,14"), "{error}");
}

#[test]
fn settings_out_of_range_are_refused_by_their_name() {
    let good = Method::advised(TURBO, &small::prior(), None, false).unwrap();
    good.algorithm().unwrap();
    for (name, value) in [
        ("evaluations", "0"),
        ("tolerance", "-0.1"),
        ("draw_steps", "1"),
        ("draw_spread", "0.5"),
    ] {
        let mut above = TURBO.open();
        above.set(name, value).unwrap();
        let error = above.over(good.clone()).algorithm().err().unwrap().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

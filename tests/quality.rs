//! A gate for what a user sees: turbo on the ten digits of the demo, with the shipped prior and its own advice. A prior with wrong
//! advice, or a method that lost a decibel, does not pass. `.ci/run` holds the demo's other methods to theirs.

use qcs::problem::{Ensemble, Sensing, Simulation};
use qcs::{Prior, Problem, Turbo};

/// A decibel below what is reached: 25.16 dB.
const FLOOR: f64 = 24.16;

#[test]
fn turbo_is_as_good_as_it_was_and_knows_its_error() {
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 1000.0 },
        m: 400,
    };
    let simulation = Simulation::default();
    let digits = qcs::bundled::digits(0, None).unwrap();
    let problem = Problem::simulate(digits, sensing, &simulation).unwrap();
    let found = qcs::reconstruct(&problem, &Prior::shipped().unwrap(), Turbo::default()).unwrap();
    let psnr = found.psnr().unwrap();
    assert!(psnr > FLOOR, "{psnr} dB");
    let mean = |squares: Vec<f64>| (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    let errors = found.metrics.iter().map(|row| 10f64.powf(-row.psnr.unwrap() / 10.0));
    let predicted = found
        .predicted_error
        .as_ref()
        .unwrap()
        .iter()
        .map(|error| error * error);
    let (error, predicted) = (mean(errors.collect()), mean(predicted.collect()));
    assert!(
        (predicted / error - 1.0).abs() < 0.15,
        "predicted {predicted}, true {error}"
    );
    let evaluations = found.evaluations.iter().sum::<usize>() as f64 / 10.0;
    assert!(evaluations < 22.0, "{evaluations} evaluations for a digit");
}

#[test]
fn an_image_alone_is_the_same_as_among_others() {
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::Gaussian,
        m: 200,
    };
    let simulation = Simulation {
        bits: 2,
        seed: 1,
        ..Default::default()
    };
    let problem = Problem::simulate(qcs::bundled::digits(0, Some(4)).unwrap(), sensing, &simulation).unwrap();
    let prior = Prior::shipped().unwrap();
    let job = || qcs::Job::new(&problem, &prior, Turbo::default()).chains(2).seed(9);
    let (all, alone) = (job().run().unwrap(), job().images(3..4).run().unwrap());
    assert_eq!(all.mean.image(3), alone.mean.image(0));
    assert_eq!(all.samples.image(7), alone.samples.image(1));
    assert_eq!(all.metrics[3], alone.metrics[0]);
}

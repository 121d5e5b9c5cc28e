//! A small simulated problem and a random network for its images: what most tests of whole runs work on.

use qcs::methods::Samples;
use qcs::prior::{Denoiser, Prior};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::reconstruct::{Checkpoint, Next, Observer, Outcome, Progress};
use qcs::{ImageShape, Images, Result};

pub const IMAGE: ImageShape = ImageShape::new(1, 12, 12);
pub const IMAGES: usize = 4;

/// A network with random weights that is said to denoise well.
pub fn prior() -> Prior {
    let levels: Vec<f32> = (0..12).map(|i| 0.01 * 2f32.powi(i)).collect();
    let errors = levels.iter().map(|s| 0.05 * s * s / (0.2 + s)).collect();
    let denoiser = Denoiser {
        mean: vec![0.5; IMAGE.len()],
        variance: 0.08,
        levels,
        errors,
        peak: None,
    };
    Prior::random_of_width(8, IMAGE, 5).with_denoiser(denoiser).unwrap()
}

/// 40 measurements of 2 bits of each image, with an ill-conditioned matrix.
#[allow(dead_code)] // not every test measures so
pub fn problem() -> Problem {
    problem_by(Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 100.0 },
        m: 40,
    })
}

/// Measurements of 2 bits of each image.
pub fn problem_by(sensing: Sensing) -> Problem {
    let data = (0..IMAGES * IMAGE.len())
        .map(|i| (i * 7919 % 101) as f32 / 100.0)
        .collect();
    let simulation = Simulation {
        bits: 2,
        step: None,
        sigma: 0.05,
        mean_square: 0.3,
        dither: false,
        seed: 11,
    };
    Problem::simulate(Images::new(IMAGE, data), sensing, &simulation).unwrap()
}

/// The samples of a run that nobody stopped.
#[allow(dead_code)] // not every test runs one
pub fn finished(outcome: Result<Outcome>) -> Samples {
    match outcome.unwrap() {
        Outcome::Finished(samples) => samples,
        Outcome::Stopped => panic!("nobody stopped the run"),
    }
}

/// Stops after a number of steps and keeps the checkpoint, through its file.
#[allow(dead_code)] // not every test stops
pub struct StopAfter {
    pub steps: usize,
    pub path: std::path::PathBuf,
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

//! Reconstruct an image from your own A and y.
//!
//! `cargo run --release --example 2_reconstruct`

use qcs::engine::cpu::CpuEngine;
use qcs::metrics::psnr;
use qcs::prior::{Prior, Schedule};
use qcs::problem::{Cells, Matrix, Problem};
use qcs::run::demo;
use qcs::sampler::{Next, Observer, Outcome, Progress, Sampler, Settings};
use qcs::{Error, Result};

/// Measurements and pixels.
const M: usize = 300;
const N: usize = 784;

fn main() -> Result<()> {
    // Signs that look random: any matrix will do.
    let sign = |i: usize| if (i * i % 7919).is_multiple_of(2) { 1.0 } else { -1.0 };
    let entry = |i: usize| sign(i) / (M as f64).sqrt();
    let a = Matrix::from_f64(M, N, (0..M * N).map(entry).collect())?;

    // Your measurements: here the signs of A·x for a digit, each as the interval that it stands for.
    let truth = demo::digits(5, Some(1))?;
    let x: Vec<f64> = truth.data.iter().map(|&pixel| f64::from(pixel)).collect();
    let (lower, upper) = a
        .times(&x)
        .into_iter()
        .map(|value| {
            if value >= 0.0 {
                (0.0, f64::INFINITY)
            } else {
                (f64::NEG_INFINITY, 0.0)
            }
        })
        .unzip();
    let problem = Problem::new(a, Cells::new(M, lower, upper)?, 0.01)?;

    // The prior, the noise levels and the settings; this is a short run, the defaults of `qcs run` are longer.
    let prior = Prior::shipped()?;
    let schedule = Schedule::geometric(10.0, 0.01, 25)?;
    let settings = Settings {
        steps_per_level: 2,
        chains: 2,
        ..Settings::default()
    };
    let sampler = Sampler {
        prior: &prior,
        problem: Some(&problem),
        images: 1,
        schedule: &schedule,
        settings,
    };

    let Outcome::Finished(samples) = sampler.run(&mut CpuEngine::new(0), None, &mut Levels)? else {
        return Err(Error::Failed("nobody said stop".to_owned()));
    };
    println!(
        "posterior mean of 2 samples: {:.1} dB",
        psnr(samples.mean().image(0), truth.image(0))
    );
    Ok(())
}

/// Whoever watches the run may also stop it and keep its state.
struct Levels;

impl Observer for Levels {
    fn after_step(&mut self, progress: &Progress) -> Next {
        let done = progress.step / progress.steps_per_level;
        if progress.at_level_end() && done.is_multiple_of(5) {
            println!("level {done} of {} is done", progress.levels);
        }
        Next::Continue
    }

    fn checkpoint(&mut self, _: &qcs::sampler::Checkpoint) -> Result<()> {
        Ok(())
    }
}

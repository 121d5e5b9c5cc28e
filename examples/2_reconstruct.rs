//! Reconstruct an image from your own A and y.
//!
//! `cargo run --release --example 2_reconstruct`

use qcs::engine::cpu::CpuEngine;
use qcs::methods::{Given, Method, QCS_SGM_PLUS};
use qcs::metrics::psnr;
use qcs::prior::Prior;
use qcs::problem::{Cells, Matrix, Problem};
use qcs::run::{Checkpoint, Driver, Next, Observer, Outcome, Progress, demo};
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

    // The shipped prior, and a method with the settings that the prior's file advises.
    let prior = Prior::shipped()?;
    let method = Method::advised(QCS_SGM_PLUS, &prior, None, problem.cells().are_signs())?.algorithm()?;
    let driver = Driver {
        algorithm: method.as_ref(),
        given: Given {
            prior: &prior,
            problem: Some(&problem),
            chains: 2,
        },
        first: 0,
        images: 1,
        seed: 0,
        batch: 2,
    };

    let Outcome::Finished(samples) = driver.run(&mut CpuEngine::new(0), None, &mut Watcher)? else {
        return Err(Error::Failed("nobody said stop".to_owned()));
    };
    println!(
        "posterior mean of 2 samples: {:.1} dB",
        psnr(samples.mean().image(0), truth.image(0))
    );
    Ok(())
}

/// Whoever watches the run may also stop it and keep its state.
struct Watcher;

impl Observer for Watcher {
    fn after_step(&mut self, progress: &Progress) -> Next {
        let (name, stage, stages) = progress.stage;
        if progress.at_stage_end && stage.is_multiple_of(10) {
            println!("{name} {stage} of {stages} is done");
        }
        Next::Continue
    }

    fn checkpoint(&mut self, _: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

//! A denoiser of your own as prior: here shrinkage towards the mean digit, in its place whatever you can call.
//!
//! `cargo run --release --example 8_own_prior`

use qcs::engine::cpu::CpuEngine;
use qcs::methods::turbo::calibrate;
use qcs::problem::{Ensemble, Sensing, Simulation};
use qcs::{Prior, Problem, Turbo};

fn main() -> qcs::Result<()> {
    // Mean and variance of every pixel.
    let digits = qcs::bundled::digits(0, Some(8))?;
    let n = digits.shape.len();
    let average = |f: &dyn Fn(usize, f32) -> f32| -> Vec<f32> {
        let of_pixel = |i: usize| digits.iter().map(|digit| f(i, digit[i])).sum::<f32>() / 8.0;
        (0..n).map(of_pixel).collect()
    };
    let mean = average(&|_, x| x);
    let variance = average(&|i, x| (x - mean[i]).powi(2) + 1e-4);

    // x and the levels of a batch in, the expected clean images out.
    let prior = Prior::from_fn(digits.shape, move |x, levels, clean| {
        for ((x, clean), level) in x.chunks(n).zip(clean.chunks_mut(n)).zip(levels) {
            for i in 0..n {
                let gain = variance[i] / (variance[i] + (level * level) as f32);
                clean[i] = mean[i] + gain * (x[i] - mean[i]);
            }
        }
        Ok(())
    });
    // Turbo wants to know how large the denoiser's errors are.
    let table = calibrate(&mut CpuEngine::new(0), &prior, &digits, 8, &mut |_, _| ())?;
    let prior = prior.with_denoiser(table)?;

    let (ensemble, m) = (Ensemble::Gaussian, 500);
    let simulation = Simulation {
        bits: 3,
        ..Default::default()
    };
    let problem = Problem::simulate(
        qcs::bundled::digits(8, Some(2))?,
        Sensing::Drawn { ensemble, m },
        &simulation,
    )?;
    println!(
        "{:.1} dB",
        qcs::reconstruct(&problem, &prior, Turbo::default())?
            .psnr()
            .unwrap_or(0.0)
    );
    Ok(())
}

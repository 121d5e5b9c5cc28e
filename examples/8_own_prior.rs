//! A denoiser of your own as prior: here shrinkage towards grey, in its place whatever you can call.
//!
//! `cargo run --release --example 8_own_prior`

use qcs::engine::cpu::CpuEngine;
use qcs::methods::turbo::calibrate;
use qcs::problem::{Ensemble, Sensing, Simulation};
use qcs::{Prior, Problem, Turbo, bundled};

/// Of a pixel, over the digits.
const MEAN: f32 = 0.13;
const VARIANCE: f32 = 0.09;

fn main() -> qcs::Result<()> {
    // x and the levels of a batch in, the expected clean images out.
    let digits = bundled::digits(0, Some(8))?;
    let n = digits.shape.len();
    let prior = Prior::from_fn(digits.shape, move |x, levels, clean| {
        for ((x, clean), level) in x.chunks(n).zip(clean.chunks_mut(n)).zip(levels) {
            let gain = VARIANCE / (VARIANCE + (level * level) as f32);
            for (x, clean) in x.iter().zip(clean) {
                *clean = MEAN + gain * (x - MEAN);
            }
        }
        Ok(())
    });
    // Turbo wants to know how large the denoiser's errors are.
    let table = calibrate(&mut CpuEngine::new(0), &prior, &digits, 8, &mut |_, _| ())?;
    let prior = prior.with_denoiser(table)?;

    let sensing = Sensing::Drawn {
        ensemble: Ensemble::Gaussian,
        m: 700,
    };
    let problem = Problem::simulate(bundled::digits(8, Some(2))?, sensing, &Simulation::default())?;
    let found = qcs::reconstruct(&problem, &prior, Turbo::default())?;
    println!("{:.1} dB", found.psnr().unwrap_or(0.0));
    Ok(())
}

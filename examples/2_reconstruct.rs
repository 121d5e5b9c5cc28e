//! Reconstruct an image from your own A and the signs of your measurements.
//!
//! `cargo run --release --example 2_reconstruct`

use qcs::metrics::psnr;
use qcs::{Cells, Matrix, Prior, Problem, Turbo};

/// Measurements and pixels.
const M: usize = 300;
const N: usize = 784;

fn main() -> qcs::Result<()> {
    // Signs that look random: any matrix will do.
    let sign = |i: usize| if (i * i % 7919).is_multiple_of(2) { 1.0 } else { -1.0 };
    let a = Matrix::from_f64(M, N, (0..M * N).map(|i| sign(i) / (M as f64).sqrt()).collect())?;

    // Your measurements: here A·x of a digit, of which only the signs are kept.
    let truth = qcs::bundled::digits(5, Some(1))?;
    let x: Vec<f64> = truth.data.iter().map(|&pixel| f64::from(pixel)).collect();
    let y = a.times(&x);

    let problem = Problem::new(a, Cells::from_signs(M, &y)?, 0.01)?;
    let found = qcs::reconstruct(&problem, &Prior::shipped()?, Turbo::default())?;
    println!(
        "{:.1} dB after {} evaluations of the network",
        psnr(found.mean.image(0), truth.image(0)),
        found.evaluations[0]
    );
    Ok(())
}

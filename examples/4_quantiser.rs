//! A quantiser of your own: an ADC with four uneven codes and some lost samples.
//!
//! `cargo run --release --example 4_quantiser`

use qcs::problem::Ensemble;
use qcs::{Cells, Prior, Problem, Turbo};

fn main() -> qcs::Result<()> {
    let truth = qcs::bundled::digits(3, Some(1))?;
    let (a, _) = Ensemble::Gaussian.build(300, truth.shape.len(), 0)?;
    let x: Vec<f64> = truth.data.iter().map(|&pixel| f64::from(pixel)).collect();

    // The ADC counts how many of its thresholds a value has reached.
    let thresholds = [-0.6, 0.1, 0.7];
    let code = |z: &f64| thresholds.iter().filter(|&t| z >= t).count();
    let codes: Vec<usize> = a.times(&x).iter().map(code).collect();
    let cells = Cells::from_codes(300, &codes, &thresholds)?;

    // A measurement is nothing but an interval, so a lost one is the whole line.
    let (mut lower, mut upper) = (cells.lower().to_vec(), cells.upper().to_vec());
    for lost in (0..300).step_by(10) {
        (lower[lost], upper[lost]) = (f64::NEG_INFINITY, f64::INFINITY);
    }
    let problem = Problem::new(a, Cells::new(300, lower, upper)?, 0.02)?.with_truth(truth)?;

    let found = qcs::reconstruct(&problem, &Prior::shipped()?, Turbo::default())?;
    println!("{:.1} dB", found.psnr().expect("the truth is known"));
    Ok(())
}

//! Draw several images from the posterior and ask whether their spread can be trusted.
//!
//! `cargo run --release --example 3_uncertainty`

use qcs::problem::{Ensemble, Sensing, Simulation};
use qcs::{Prior, Problem, Turbo};

fn main() -> qcs::Result<()> {
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::Gaussian,
        m: 200,
    };
    let simulation = Simulation::default();
    let problem = Problem::simulate(qcs::bundled::digits(0, None)?, sensing, &simulation)?;
    let found = qcs::sample(&problem, &Prior::shipped()?, Turbo::default(), 8)?;

    let std = found.std.as_ref().expect("eight chains have a spread");
    for (index, predicted) in found.predicted_error.iter().flatten().enumerate() {
        let spread = std.image(index).iter().map(|s| s * s).sum::<f32>() / std.shape.len() as f32;
        println!(
            "digit {index}: predicted error {predicted:.3}, spread {:.3}",
            spread.sqrt()
        );
    }
    // Of draws of the posterior, half of the truths lie in the central half of the draws, and so on.
    let calibration = found.calibration.expect("the truth is known");
    for coverage in &calibration.coverage {
        println!(
            "{:.0} % intervals hold {:.0} %",
            100.0 * coverage.interval,
            100.0 * coverage.held
        );
    }
    Ok(())
}

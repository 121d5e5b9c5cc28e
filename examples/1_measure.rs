//! Measure images with two bits each and look at what is left of them.
//!
//! `cargo run --release --example 1_measure`

use qcs::Problem;
use qcs::problem::{Ensemble, Sensing, Simulation};

fn main() -> qcs::Result<()> {
    // Images are [B, C, H, W] in [0, 1]. These come with the program; `qcs::files::load_images` reads your own.
    let images = qcs::bundled::digits(0, None)?;
    println!("{} images of shape {}", images.count(), images.shape);

    // A has M rows: here from a law, `Sensing::Inputs` takes a matrix of yours.
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::Correlated { rho: 0.4 },
        m: 300,
    };

    // Without a step, the quantiser takes the best one for data of this mean square: it belongs to the problem, never
    // to the images at hand.
    let simulation = Simulation {
        bits: 2,
        seed: 1,
        ..Default::default()
    };
    let problem = Problem::simulate(images, sensing, &simulation)?;
    println!("{:?}", problem.quantiser());

    // A measurement is the interval that A·x + n lies in.
    let (lower, upper) = problem.cells().image(0);
    for (lower, upper) in lower.iter().zip(upper).take(4) {
        println!("[{lower:.3}, {upper:.3})");
    }
    // `problem.write("problem.safetensors")?` keeps it for `qcs run`.
    Ok(())
}

//! The problem that both benches solve.

use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::{ImageShape, Images};

/// One-bit measurements by an ill-conditioned A; the images are grey, since no time depends on them.
pub fn problem(image: ImageShape, m: usize, batch: usize) -> qcs::Result<Problem> {
    let images = Images::new(image, vec![0.5; batch * image.len()]);
    let simulation = Simulation {
        sigma: 0.05,
        bits: 1,
        step: None,
        mean_square: 0.25,
        dither: false,
        seed: 0,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 1000.0 },
        m,
    };
    Problem::simulate(images, sensing, &simulation)
}

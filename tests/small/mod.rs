//! A small simulated problem and a random network for its images: what most tests of whole runs work on.

use qcs::prior::Prior;
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::{ImageShape, Images};

pub const IMAGE: ImageShape = ImageShape::new(1, 12, 12);
pub const IMAGES: usize = 4;

/// A network with random weights.
pub fn prior() -> Prior {
    Prior::random_of_width(8, IMAGE, 5)
}

/// 40 measurements of 2 bits of each image, with an ill-conditioned matrix.
pub fn problem() -> Problem {
    let data = (0..IMAGES * IMAGE.len())
        .map(|i| (i * 7919 % 101) as f32 / 100.0)
        .collect();
    let simulation = Simulation {
        bits: 2,
        step: None,
        sigma: 0.05,
        mean_square: 0.3,
        seed: 11,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 100.0 },
        m: 40,
    };
    Problem::simulate(Images::new(IMAGE, data), sensing, &simulation).unwrap()
}

//! The paper's settings for its three data sets.

use crate::{Error, ImageShape, Result};

/// What the paper says of one data set, with a step that works.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    pub channels: usize,
    pub size: usize,
    /// M of the paper's experiments
    pub measurements: usize,
    /// `E[x²]` over the data set's pixels; the quantiser's default step follows from it
    pub mean_square: f64,
    pub sigma_begin: f64,
    pub sigma_end: f64,
    pub levels: usize,
    pub steps_per_level: usize,
    pub step_scale: f64,
    pub xi: f64,
}

/// Measured with the starter prior on ten of the last 500 MNIST training digits (1 bit, M = 400, kappa = 1000, T = 232,
/// K = 5): 18.8, 19.6, 19.9 and 19.3 dB (± 0.8) at 0.5, 1, 1.5 and 2. The released code's epsilon = 0.0002 is 2, the
/// limit of stability of a Gaussian prior; the paper's 0.002 is 20, at which nothing is recovered (12.3 dB).
const STEP_SCALE: f64 = 1.5;

pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "mnist",
        channels: 1,
        size: 28,
        measurements: 400,
        mean_square: 0.1120,
        sigma_begin: 50.0,
        sigma_end: 0.01,
        levels: 232,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.5,
    },
    Preset {
        name: "cifar10",
        channels: 3,
        size: 32,
        measurements: 2000,
        mean_square: 0.2868,
        sigma_begin: 50.0,
        sigma_end: 0.01,
        levels: 232,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.5,
    },
    Preset {
        name: "celeba",
        channels: 3,
        size: 64,
        measurements: 4000,
        mean_square: 0.28,
        sigma_begin: 90.0,
        sigma_end: 0.01,
        levels: 500,
        steps_per_level: 5,
        step_scale: STEP_SCALE,
        xi: 0.3,
    },
];

impl Preset {
    /// # Errors
    /// [`Error::Usage`] for an unknown name; the message lists the known ones.
    pub fn find(name: &str) -> Result<&'static Self> {
        PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            Error::usage(format!("unknown preset {name:?}; there are {}", names.join(", ")))
        })
    }

    /// The preset whose data have this shape.
    pub fn of_shape(shape: ImageShape) -> Option<&'static Self> {
        PRESETS.iter().find(|p| p.image() == shape)
    }

    pub fn image(&self) -> ImageShape {
        ImageShape::new(self.channels, self.size, self.size)
    }
}

//! The likelihood: products with A and U, and expectation propagation in f64.
//!
//! Vectors are `[states, M]`, scalars `[states]`. Every sum has a fixed shape that depends on M or N only, so a state's
//! numbers do not depend on its batch.

pub mod diag_gradient;
pub mod ep_gradient;
pub mod ep_moments;
pub mod ep_separate;
pub mod ep_start;
pub mod matrix_times;
pub mod transposed_times;

use crate::float::Float;

/// The Gaussian N(h/tau, 1/tau) seen from a cell: z + n must lie in [lower, upper).
#[derive(Clone, Copy)]
struct Message {
    tau: f64,
    /// sqrt(tau)
    s: f64,
}

impl Message {
    #[inline(always)]
    fn new(tau: f64) -> Self {
        Self { tau, s: tau.root() }
    }

    /// The cell's bounds l̃ and ũ in standard deviations from the mean.
    #[inline(always)]
    fn bounds(self, z: f64, h: f64, lower: f64, upper: f64) -> (f64, f64) {
        let centre = -self.s * z - h / self.s;
        (centre + lower * self.s, centre + upper * self.s)
    }
}

/// A matrix element or a vector element, widened to f64 for the products.
#[cfg(target_arch = "nvptx64")]
trait Element: crate::global::Word {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
}

#[cfg(target_arch = "nvptx64")]
impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

#[cfg(target_arch = "nvptx64")]
impl Element for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
}

//! The likelihood: expectation propagation and its diagonal forerunner, in f64.
//!
//! Vectors are `[states, M]`, scalars `[states]`. Every sum has a fixed shape that depends on M or N only, so a state's
//! numbers do not depend on its batch.

pub mod diag_gradient;
pub mod ep_carry;
pub mod ep_damp;
pub mod ep_gradient;
pub mod ep_moments;
pub mod ep_reset;
pub mod ep_separate;
pub mod ep_settle;
pub mod ep_start;

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

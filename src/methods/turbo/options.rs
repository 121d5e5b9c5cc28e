//! Turbo's settings: nothing in them needs tuning.

use super::super::Options;
use super::super::options::{Setting, between, options, positive};
use crate::{Error, Result};

options! {
    /// Turbo: EP and the denoiser exchange messages until the posterior mean stands still. What is left open is the prior's
    /// advice; nothing needs tuning.
    ///
    /// ```
    /// let method = qcs::Turbo { evaluations: Some(50), ..Default::default() };
    /// assert_eq!(method.tolerance, None);
    /// ```
    pub struct Turbo {
        /// The most evaluations of the network for an image; few need them all [default: 30]
        pub evaluations: usize = "N",
        /// An image is settled once its estimate moves, twice running, by less than this share of its predicted error
        /// [default: 0.02]
        pub tolerance: f64 = "SHARE",
        /// Evaluations of the network for each draw, where several `chains` are asked for [default: 20]
        pub draw_steps: usize = "N",
        /// Noise level that a draw begins at, over that of the message it is drawn from, at least 1 [default: 1.12]
        pub draw_spread: f64 = "FACTOR",
    }
}

impl Options for Turbo {
    const SETTINGS: &'static [Setting] = Self::FIELDS;

    fn over(self, below: Self) -> Self {
        self.or(below)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<()> {
        self.set_field(name, text)
    }
}

impl Turbo {
    /// The defaults.
    pub fn base() -> Self {
        Self {
            evaluations: Some(30),
            tolerance: Some(0.02),
            draw_steps: Some(20),
            draw_spread: Some(1.12),
        }
    }

    /// The settings, every one in its range.
    ///
    /// # Errors
    /// [`Error::Setting`] if a number is out of its range.
    pub fn settings(&self) -> Result<TurboSettings> {
        let Self {
            evaluations: Some(evaluations),
            tolerance: Some(tolerance),
            draw_steps: Some(draw_steps),
            draw_spread: Some(draw_spread),
        } = *self
        else {
            return Err(Error::usage("a setting of turbo is missing"));
        };
        if !(1.0..=100.0).contains(&draw_spread) {
            let reason = format!("must be from 1 to 100, not {draw_spread}");
            return Err(Error::setting("draw_spread", reason));
        }
        Ok(TurboSettings {
            evaluations: between("evaluations", 1, 100_000, evaluations)? as u32,
            tolerance: positive("tolerance", tolerance)?,
            draw_steps: between("draw_steps", 2, 100_000, draw_steps)? as u32,
            draw_spread,
        })
    }
}

/// [`Turbo`] with every setting in its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurboSettings {
    pub evaluations: u32,
    pub tolerance: f64,
    pub draw_steps: u32,
    pub draw_spread: f64,
}

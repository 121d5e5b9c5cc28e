//! Turbo's settings: nothing in them needs tuning.

use super::super::Options;
use super::super::options::{between, options, positive};
use crate::prior::Prior;
use crate::{Error, Result};

options! {
    /// Turbo.
    pub struct TurboOptions {
        /// The most evaluations of the network for an image; few need them all [default: 30]
        #[arg(long, value_name = "N")]
        pub evaluations: usize,
        /// An image is settled once its estimate moves, twice running, by less than this share of its predicted error
        /// [default: 0.02]
        #[arg(long, value_name = "SHARE")]
        pub tolerance: f64,
        /// Evaluations of the network for each draw, where `--chains` asks for several [default: 20]
        #[arg(long, value_name = "N")]
        pub draw_steps: usize,
        /// Noise level that a draw begins at, over that of the message it is drawn from, at least 1 [default: 1.12]
        #[arg(long, value_name = "FACTOR")]
        pub draw_spread: f64,
    }
}

impl Options for TurboOptions {
    const NAMES: &'static [&'static str] = Self::FIELDS;

    fn over(self, below: Self) -> Self {
        self.or(below)
    }
}

impl TurboOptions {
    /// What holds if nobody says otherwise.
    pub fn base() -> Self {
        Self {
            evaluations: Some(30),
            tolerance: Some(0.02),
            draw_steps: Some(20),
            draw_spread: Some(1.12),
        }
    }

    /// See [`Kind::defaults`](super::super::Kind).
    pub(super) fn defaults(prior: &Prior, signs: bool) -> Result<Self> {
        Ok(Self::advised(prior, super::TURBO.key, signs)?.over(Self::base()))
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

/// See [`TurboOptions`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurboSettings {
    pub evaluations: u32,
    pub tolerance: f64,
    pub draw_steps: u32,
    pub draw_spread: f64,
}

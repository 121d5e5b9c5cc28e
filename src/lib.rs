//! Posterior sampling of images from quantised measurements y = Q(Ax + n).

mod error;
pub mod files;
mod images;
pub mod metrics;
pub mod output;

pub use error::{Error, Result};
pub use images::{ImageShape, Images};

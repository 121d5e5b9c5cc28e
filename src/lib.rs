//! Posterior sampling of images from quantised measurements y = Q(Ax + n).

mod error;
mod images;

pub use error::{Error, Result};
pub use images::{ImageShape, Images};

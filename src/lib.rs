//! Posterior sampling of images from quantised measurements y = Q(Ax + n).

pub mod engine;
mod error;
pub mod files;
mod images;
pub mod likelihood;
pub mod methods;
pub mod metrics;
pub mod output;
pub mod plan;
pub mod prior;
pub mod problem;
pub mod run;
pub mod sweep;

pub use error::{Error, Remedy, Result};
pub use images::{ImageShape, Images};

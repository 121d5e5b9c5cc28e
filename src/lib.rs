//! Images from coarsely quantised measurements: y = Q(Ax + n), a known A, Gaussian noise, 1 to 8 bits.
//!
//! ```
//! # #[cfg(feature = "bundled")] {
//! use qcs::{Cells, Matrix, Prior, Problem, Turbo};
//!
//! // Your A and the signs that a sensor kept of A·x + n, here of a digit.
//! let a = Matrix::from_f64(300, 784, (0..300 * 784_usize).map(|i| (i * i % 7919) as f64 / 4e4 - 0.1).collect())?;
//! # let x: Vec<f64> = qcs::bundled::digits(5, Some(1))?.data.iter().map(|&v| v.into()).collect();
//! # let y = a.times(&x);
//! let problem = Problem::new(a, Cells::from_signs(300, &y)?, 0.05)?;
//!
//! let found = qcs::reconstruct(&problem, &Prior::shipped()?, Turbo::default())?;
//! println!("{} evaluations, predicted error {:?}", found.evaluations[0], found.predicted_error);
//! # }
//! # Ok::<(), qcs::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`Problem`] | what was measured: A, the [cell](Cells) of every measurement, the noise |
//! | [`Prior`] | a score network and its weights; [`Prior::shipped`] or [`Prior::open`] |
//! | [`Turbo`], [`QcsSgmPlus`], [`QcsSgm`] | the methods; what is left open is the prior's advice |
//! | [`reconstruct()`], [`sample`] | from these to images; [`Job`] for device, seed, batch, an [observer](Observer) |
//!
//! Features, both on by default: `cli` brings the command line, run folders and sweeps; `bundled` a prior for MNIST and ten
//! digits to try it on.

pub mod bundled;
pub mod engine;
mod error;
pub mod files;
mod images;
pub mod likelihood;
pub mod methods;
pub mod metrics;
pub mod output;
pub mod plan;
mod pool;
pub mod prior;
pub mod problem;
pub mod reconstruct;
#[cfg(feature = "cli")]
pub mod run;
#[cfg(feature = "cli")]
pub mod sweep;

pub use engine::{Device, Precision};
pub use error::{Error, Remedy, Result};
pub use images::{ImageShape, Images};
pub use methods::{Linear, Method, Projection, QcsSgm, QcsSgmPlus, Turbo};
pub use pool::use_threads;
pub use prior::Prior;
pub use problem::{Cells, Matrix, Operator, Problem, Quantiser};
pub use reconstruct::{Job, Next, Observer, Progress, Reconstruction, reconstruct, sample};

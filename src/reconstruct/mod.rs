//! From a problem and a prior to images: [`reconstruct`] and [`sample`] for most callers, [`Job`] for all that may be chosen.
//!
//! Below them stands the [`Driver`], which every run goes through, in memory or in a folder: it deals states to batches, tells
//! an [`Observer`] how far it is, and hands over [checkpoints](Checkpoint) that a run goes on from to the same bits.

mod checkpoint;
mod driver;
mod evaluate;
pub mod fingerprint;
mod host;
mod job;

pub use checkpoint::Checkpoint;
pub use driver::{Driver, Next, Observer, Outcome, Progress, Unobserved};
pub use evaluate::{compare_digits, compare_measurements, evaluate};
pub use job::{Job, Reconstruction, reconstruct, sample};

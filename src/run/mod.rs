//! A run from end to end: its configuration, its files, its checkpoints and its results.
//!
//! [`RunConfig`] says everything that decides a run, [`Run`] has read what the configuration names, [`RunFolder`] keeps
//! what comes of it.

mod blocks;
mod cache;
mod config;
pub mod demo;
mod estimate;
mod folder;
mod keeper;
mod lock;
mod measure;
mod merge;
mod model;
mod results;
mod reuse;
#[allow(clippy::module_inception)] // the room is named after what stands in it
mod run;
mod settings;
mod shard;
mod solo_checkpoint;
mod writer;

pub use cache::Cache;
pub use config::{Batch, Identity, Pictures, RunConfig};
pub use folder::{Found, RunFolder};
pub use lock::Lock;
pub use measure::{ENSEMBLES, MeasureConfig};
pub use merge::merge;
pub use model::{load_prior, told_of_shape};
pub use results::Results;
pub use reuse::Reuse;
pub use run::Run;
pub use settings::Settings;
pub use shard::Shard;
pub use solo_checkpoint::SoloCheckpoint;

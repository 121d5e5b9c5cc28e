//! A run in blocks of images: only one is held at a time, however many there are.

use std::ops::Range;
use std::path::PathBuf;

use super::{RunConfig, RunFolder};
use crate::Result;
use crate::methods::Kind;
use crate::reconstruct::{Checkpoint, fingerprint};

/// States of a block: some megabytes of small images, and so many batches that it does not matter how the last one is filled.
const STATES: usize = 1024;
const BATCHES: usize = 16;

/// A block of a method's images, its checkpoint, and what is written there to tell it from others.
pub(super) struct Part {
    pub images: Range<usize>,
    pub path: PathBuf,
    pub fingerprint: String,
}

impl Part {
    /// The blocks of a method, as a resolved configuration has them, and where their states are kept.
    pub fn all(config: &RunConfig, folder: &RunFolder, kind: &Kind) -> Result<Vec<Self>> {
        let images = config.share().len();
        let states = STATES.max(BATCHES.saturating_mul(config.batch.states()));
        let block = config.block.unwrap_or(states / config.chains).max(1);
        let fingerprint = format!("{}-{}", kind.key(), fingerprint::of_text(&config.to_toml()?));
        let part = |index: usize| Self {
            images: index * block..images.min((index + 1) * block),
            path: folder.checkpoint(kind, index),
            fingerprint: match index {
                0 => fingerprint.clone(),
                _ => format!("{fingerprint}-{index}"),
            },
        };
        Ok((0..images.div_ceil(block)).map(part).collect())
    }

    pub fn read(&self) -> Result<Checkpoint> {
        Checkpoint::read(&self.path, &self.fingerprint)
    }
}

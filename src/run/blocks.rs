//! A run in blocks of images: only one is held at a time, however many there are.

use std::ops::Range;
use std::path::PathBuf;

use super::keeper::Keeper;
use super::writer::{Brought, MethodWriter};
use super::{Hooks, Results, Run, RunConfig, RunFolder};
use crate::engine::Engine;
use crate::methods::Kind;
use crate::reconstruct::{Checkpoint, Driver, Outcome, fingerprint};
use crate::{Error, Result};

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

impl Run {
    /// The driver of method number `index` for some of the run's images.
    pub(super) fn driver_of(&self, index: usize, images: &Range<usize>) -> Driver<'_> {
        Driver {
            first: self.first() + images.start,
            images: images.len(),
            ..self.driver(index)
        }
    }

    /// Runs every method from its checkpoints in the folder, or from the start, keeps checkpoints on the way, and writes what
    /// each method brings block by block.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the hooks said stop; whatever ended the run otherwise.
    pub fn execute(&self, engine: &mut dyn Engine, folder: &RunFolder, hooks: &mut dyn Hooks) -> Result<Results> {
        let mut methods = Vec::new();
        for index in 0..self.methods.len() {
            let kind = self.methods[index].kind;
            let parts = Part::all(&self.config, folder, kind)?;
            hooks.begin(kind, parts.iter().any(|part| part.path.exists()));
            let brought = self.execute_method(index, &parts, engine, folder, hooks);
            hooks.end(kind);
            methods.push(brought?);
        }
        Ok(Results::new(methods))
    }

    fn execute_method(
        &self,
        index: usize,
        parts: &[Part],
        engine: &mut dyn Engine,
        folder: &RunFolder,
        hooks: &mut dyn Hooks,
    ) -> Result<Brought> {
        let mut writer = MethodWriter::begin(self, self.methods[index].kind, folder)?;
        let mut keeper = Keeper::new(self.images(), hooks);
        for part in parts {
            let resume = part.path.exists().then(|| part.read()).transpose()?;
            keeper.begin(&part.path, &part.fingerprint, part.images.clone());
            match self.driver_of(index, &part.images).run(engine, resume, &mut keeper)? {
                // Its checkpoint keeps it until the whole run is complete.
                Outcome::Finished(samples) => writer.append(&samples)?,
                Outcome::Stopped => {
                    return Err(Error::Interrupted("stopped; the state is saved".to_owned()));
                }
            }
        }
        writer.finish()
    }
}

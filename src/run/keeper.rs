//! Watches a driver: shows its progress, keeps its checkpoints, passes on the wish to stop.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Checkpoint, Next, Observer, Progress};
use crate::Result;
use crate::methods::Kind;

/// Checkpoints are at least this far apart: a run loses no more, and writing them costs nothing that counts.
const EVERY: Duration = Duration::from_secs(3);

/// What the caller of a run wants to know and to decide.
pub trait Hooks {
    /// A method begins, from its start or from a checkpoint.
    fn begin(&mut self, method: &dyn Kind, resumed: bool);

    /// How the run is set up.
    fn note(&mut self, _text: &str) {}

    /// A step is done.
    fn progress(&mut self, progress: &Progress);

    /// A method has ended, or was stopped.
    fn end(&mut self, method: &dyn Kind);

    /// Asked after every step; `true` saves the state and ends the run.
    fn stop(&mut self) -> bool;
}

/// Nobody watches, nothing stops.
impl Hooks for () {
    fn begin(&mut self, _: &dyn Kind, _: bool) {}
    fn progress(&mut self, _: &Progress) {}
    fn end(&mut self, _: &dyn Kind) {}
    fn stop(&mut self) -> bool {
        false
    }
}

pub(super) struct Keeper<'a> {
    path: &'a Path,
    fingerprint: &'a str,
    hooks: &'a mut dyn Hooks,
    last: Instant,
}

impl<'a> Keeper<'a> {
    pub fn new(path: &'a Path, fingerprint: &'a str, hooks: &'a mut dyn Hooks) -> Self {
        Self {
            path,
            fingerprint,
            hooks,
            last: Instant::now(),
        }
    }
}

impl Observer for Keeper<'_> {
    fn after_step(&mut self, progress: &Progress) -> Next {
        self.hooks.progress(progress);
        if self.hooks.stop() {
            Next::Stop
        } else if progress.at_stage_end && self.last.elapsed() >= EVERY {
            Next::Checkpoint
        } else {
            Next::Continue
        }
    }

    fn note(&mut self, text: &str) {
        self.hooks.note(text);
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.write(self.path, self.fingerprint)?;
        self.last = Instant::now();
        Ok(())
    }
}

//! Watches a driver: shows its progress, keeps its checkpoints, passes on the wish to stop.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Result;
use crate::reconstruct::{Checkpoint, Next, Observer, Progress};

/// Checkpoints are at least this far apart: a run loses no more, and writing them costs nothing that counts.
const EVERY: Duration = Duration::from_secs(3);

/// The environment may say another number of seconds, for slow disks and for tests.
const VARIABLE: &str = "QCS_CHECKPOINT_SECONDS";

fn every() -> Duration {
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(EVERY)
}

/// Keeps the blocks of a run, one after the other.
pub(super) struct Keeper<'a> {
    observer: &'a mut dyn Observer,
    last: Instant,
    every: Duration,
    /// Of the whole run
    images: usize,
    /// The block in work: its images, its file, and what is written into it to tell it from others
    block: Range<usize>,
    path: PathBuf,
    fingerprint: String,
    /// Evaluations in this session: in the blocks before, and in all
    evaluations: (usize, usize),
    /// Every block would tell the same
    told: Vec<String>,
}

impl<'a> Keeper<'a> {
    pub fn new(images: usize, observer: &'a mut dyn Observer) -> Self {
        Self {
            observer,
            last: Instant::now(),
            every: every(),
            images,
            block: 0..0,
            path: PathBuf::new(),
            fingerprint: String::new(),
            evaluations: (0, 0),
            told: Vec::new(),
        }
    }

    /// Turns to a block.
    pub fn begin(&mut self, path: &Path, fingerprint: &str, block: Range<usize>) {
        path.clone_into(&mut self.path);
        fingerprint.clone_into(&mut self.fingerprint);
        self.block = block;
        self.evaluations.0 = self.evaluations.1;
    }

    /// The progress of the whole run, from that of the block.
    fn of_run(&self, block: &Progress) -> Progress {
        let (before, within) = (self.block.start, self.block.len());
        // A pass has one state of each image, or one for each of its chains.
        let per_image = block.states / within;
        Progress {
            fraction: (before as f64 + block.fraction * within as f64) / self.images as f64,
            evaluations: self.evaluations.0 + block.evaluations,
            done: before * per_image + block.done,
            states: self.images * per_image,
            ..*block
        }
    }
}

impl Observer for Keeper<'_> {
    fn after_step(&mut self, progress: &Progress) -> Next {
        self.evaluations.1 = self.evaluations.0 + progress.evaluations;
        let of_run = self.of_run(progress);
        match self.observer.after_step(&of_run) {
            Next::Continue if progress.at_stage_end && self.last.elapsed() >= self.every => Next::Checkpoint,
            next => next,
        }
    }

    fn note(&mut self, text: &str) {
        if !self.told.iter().any(|told| told == text) {
            self.told.push(text.to_owned());
            self.observer.note(text);
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.write(&self.path, &self.fingerprint)?;
        self.last = Instant::now();
        Ok(())
    }
}

//! How long a run will take, from its first steps.

use std::time::Instant;

use super::Run;
use crate::Result;
use crate::engine::Engine;
use crate::methods::Kind;
use crate::reconstruct::{Checkpoint, Next, Observer, Progress};

/// Steps that are timed; the one before them is not: it finds nothing in the caches.
const TIMED: usize = 2;

/// Lets a few steps pass, and notes the time that all but the first took.
#[derive(Default)]
struct Stopwatch {
    first: Option<(Instant, usize)>,
    steps: usize,
    seconds_per_evaluation: f64,
}

impl Observer for Stopwatch {
    fn after_step(&mut self, progress: &Progress) -> Next {
        let (begun, before) = *self.first.get_or_insert_with(|| (Instant::now(), progress.evaluations));
        let counted = progress.evaluations - before;
        if counted > 0 {
            self.seconds_per_evaluation = begun.elapsed().as_secs_f64() / counted as f64;
        }
        self.steps += 1;
        if self.steps > TIMED { Next::Stop } else { Next::Continue }
    }

    fn checkpoint(&mut self, _: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

impl Run {
    /// Seconds that each method will take for all images, at most where images may settle earlier: measured on its first
    /// steps. Nothing is written.
    ///
    /// # Errors
    /// As [`Run::execute`].
    pub fn predicted_seconds(&self, engine: &mut dyn Engine) -> Result<Vec<(&'static Kind, f64)>> {
        let states = (self.images() * self.config.chains) as f64;
        let mut predicted = Vec::new();
        for (index, (kind, evaluations)) in self.evaluations().into_iter().enumerate() {
            let mut watch = Stopwatch::default();
            self.driver(index).run(engine, None, &mut watch)?;
            predicted.push((kind, watch.seconds_per_evaluation * evaluations as f64 * states));
        }
        Ok(predicted)
    }
}

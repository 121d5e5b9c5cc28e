//! How long a run will take, from its first steps.

use std::time::Instant;

use crate::reconstruct::{Next, Observer, Progress};

/// Steps that are timed; the one before them is not: it finds nothing in the caches.
const TIMED: usize = 2;

/// Lets a few steps pass, and notes the time that all but the first took.
#[derive(Default)]
pub(super) struct Stopwatch {
    first: Option<(Instant, usize)>,
    steps: usize,
    pub(super) seconds_per_evaluation: f64,
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
}

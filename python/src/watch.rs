//! Who watches a run from Python: the interpreter's signals, and a function that is told how far it is.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use qcs::reconstruct::{Next, Observer, Progress};

use crate::errors;

/// Signals are looked for this often: nobody feels it, and threads that wait for the interpreter hardly do.
const EVERY: Duration = Duration::from_millis(50);

/// Watches one run.
pub struct Watch<'a> {
    /// Called after every step with the fields of `qcs.Progress`; `False` is the wish to stop
    callback: Option<&'a Py<PyAny>>,
    last: Instant,
    /// What the interpreter or the callback raised: it goes to whoever called
    raised: Option<PyErr>,
    wants_to_stop: bool,
}

/// Works with the interpreter free. What a signal or the callback raised comes back before the error that it ended the work with.
pub fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut Watch<'_>) -> qcs::Result<T> + Send,
) -> PyResult<T> {
    let (ended, stopped_by) = py.detach(|| {
        let mut watch = Watch::new(callback);
        let ended = work(&mut watch);
        (ended, watch.raised)
    });
    match stopped_by {
        Some(exception) => Err(exception),
        None => ended.map_err(errors::raised),
    }
}

impl<'a> Watch<'a> {
    fn new(callback: Option<&'a Py<PyAny>>) -> Self {
        Self {
            callback,
            last: Instant::now(),
            raised: None,
            wants_to_stop: false,
        }
    }

    fn look(&mut self, progress: &Progress) {
        if self.callback.is_none() && self.last.elapsed() < EVERY {
            return;
        }
        self.last = Instant::now();
        let told = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = self.callback else {
                return Ok(true);
            };
            let (stage, at, of) = progress.stage;
            let Progress {
                fraction,
                evaluations,
                done,
                states,
                ..
            } = *progress;
            let answer = callback
                .bind(py)
                .call1((fraction, evaluations, done, states, stage, at, of))?;
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        match told {
            Ok(go_on) => self.wants_to_stop = !go_on,
            Err(raised) => {
                self.raised = Some(raised);
                self.wants_to_stop = true;
            }
        }
    }
}

impl Observer for Watch<'_> {
    fn after_step(&mut self, progress: &Progress) -> Next {
        self.look(progress);
        if self.wants_to_stop { Next::Stop } else { Next::Continue }
    }
}

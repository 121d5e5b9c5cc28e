//! Ctrl-C and SIGTERM: the first asks the run to stop at its next step, the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use qcs::{Error, Result};

use super::terminal;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on a signal only asks to stop. Before that it ends the program as usual: there is nothing to save.
pub fn catch() -> Result<()> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        terminal::note("\nstopping after this step; once more to quit at once");
    };
    ctrlc::set_handler(handler).map_err(|e| Error::Failed(format!("cannot watch for Ctrl-C: {e}")))
}

/// Whether a signal has come.
pub fn stop() -> bool {
    STOP.load(Ordering::Relaxed)
}

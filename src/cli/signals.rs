//! Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop at its next step, the second ends the program at once. SIGUSR1, by
//! which batch systems announce that time is up, asks as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use qcs::{Error, Result};

use super::terminal;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on a signal only asks to stop. Before that it ends the program as usual: there is nothing to save. A command of
/// several runs says it again for each.
pub fn catch() -> Result<()> {
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    if CAUGHT.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let cannot = |e: &dyn std::fmt::Display| Error::Failed(format!("cannot watch for signals: {e}"));
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        terminal::note("\nstopping after this step; once more to quit at once");
    };
    ctrlc::set_handler(handler).map_err(|e| cannot(&e))?;
    #[cfg(unix)]
    {
        let announced = ANNOUNCED.get_or_init(|| Arc::new(AtomicBool::new(false)));
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, announced.clone()).map_err(|e| cannot(&e))?;
    }
    Ok(())
}

/// Lets a write beyond the largest file that the user may have be an error like that of a full disk, and not the end.
pub fn survive_file_limits() {
    #[cfg(unix)]
    {
        // Where it cannot be set, everything is as it was.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Set by SIGUSR1.
static ANNOUNCED: std::sync::OnceLock<Arc<AtomicBool>> = std::sync::OnceLock::new();

/// Whether a signal has come.
pub fn stop() -> bool {
    STOP.load(Ordering::Relaxed) || ANNOUNCED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

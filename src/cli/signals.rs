//! Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop at its next step, the second ends the program at once. SIGUSR1, by
//! which batch systems announce that time is up, asks as well. Elsewhere than on Unix a signal ends the program as it always does.

use std::sync::atomic::{AtomicBool, Ordering};

use qcs::Result;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on a signal only asks to stop. Before that it ends the program as usual: there is nothing to save. A command of
/// several runs says it again for each.
pub fn catch() -> Result<()> {
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    if CAUGHT.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    #[cfg(unix)]
    unix::listen().map_err(|e| qcs::Error::Failed(format!("cannot watch for signals: {e}")))?;
    Ok(())
}

/// Lets a write beyond the largest file that the user may have be an error like that of a full disk, and not the end.
pub fn survive_file_limits() {
    #[cfg(unix)]
    {
        use std::sync::Arc;
        // Where it cannot be set, everything is as it was.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

/// Whether a signal has come.
pub fn stop() -> bool {
    STOP.load(Ordering::Relaxed)
}

#[cfg(unix)]
mod unix {
    use std::sync::atomic::Ordering;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    use signal_hook::iterator::Signals;

    use super::STOP;
    use crate::cli::terminal;

    /// Hears signals in a thread of its own.
    pub fn listen() -> std::io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])?;
        let hear = move || {
            let mut asked = false;
            for signal in signals.forever() {
                STOP.store(true, Ordering::Relaxed);
                // An announcement is no impatience: what follows it is the first to ask.
                if signal == SIGUSR1 {
                    continue;
                }
                if asked {
                    std::process::exit(130);
                }
                asked = true;
                terminal::note("\nstopping after this step; once more to quit at once");
            }
        };
        let thread = std::thread::Builder::new().name("qcs-signals".to_owned());
        thread.spawn(hear).map(|_| ())
    }
}

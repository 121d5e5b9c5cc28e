//! The threads that work outside of engines: drawing and factorising A, metrics, the baselines. They are the library's own,
//! never the process's global pool, and a process that was forked makes its own.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

/// A pool, and the process that its threads belong to.
struct Owned {
    process: u32,
    pool: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Owned>> = Mutex::new(None);

/// More threads than any machine has; each costs memory.
const MOST_THREADS: usize = 4096;

/// Says how many threads work outside of engines from now on; 0 is one to each core. An engine has its own.
///
/// # Errors
/// [`Error::Setting`] if there are absurdly many, [`Error::Failed`] if they cannot be started.
pub fn use_threads(threads: usize) -> Result<()> {
    if threads > MOST_THREADS {
        return Err(Error::setting(
            "threads",
            format!("must be at most {MOST_THREADS}, not {threads}"),
        ));
    }
    let pool = build(threads).map_err(|e| Error::Failed(format!("cannot start {threads} threads: {e}")))?;
    replace(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner), pool);
    Ok(())
}

/// Does the work with all of the threads; with those of the caller's pool, where it calls from one.
pub(crate) fn install<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    match current() {
        Some(pool) => pool.install(work),
        // Not one thread could be started: rayon's own rules hold, and where these fail too it says so.
        None => work(),
    }
}

fn current() -> Option<Arc<ThreadPool>> {
    let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Some(owned) if owned.process == std::process::id() => Some(Arc::clone(&owned.pool)),
        _ => build(0).ok().map(|pool| replace(&mut slot, pool)),
    }
}

fn build(threads: usize) -> Result<ThreadPool, rayon::ThreadPoolBuildError> {
    let name = |index| format!("qcs-{index}");
    ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()
}

fn replace(slot: &mut Option<Owned>, pool: ThreadPool) -> Arc<ThreadPool> {
    let process = std::process::id();
    let pool = Arc::new(pool);
    let owned = Owned {
        process,
        pool: Arc::clone(&pool),
    };
    // The threads of a parent process are not here to be ended.
    if let Some(parents) = slot.replace(owned).filter(|old| old.process != process) {
        std::mem::forget(parents);
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_threads_of_our_own() {
        let name = install(|| std::thread::current().name().map(str::to_owned));
        assert!(name.is_some_and(|name| name.starts_with("qcs-")));
        assert_eq!(install(|| install(|| 3)), 3, "also from within");
    }

    #[test]
    fn absurdly_many_threads_are_refused() {
        assert!(use_threads(1 << 20).unwrap_err().to_string().contains("threads"));
    }
}

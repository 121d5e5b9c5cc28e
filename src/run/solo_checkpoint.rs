//! A driver without a folder: its state is kept in one file beside what it writes.

use std::path::{Path, PathBuf};

use super::keeper::Keeper;
use crate::Result;
use crate::engine::Engine;
use crate::files::{remove_file, remove_leftovers};
use crate::reconstruct::{Checkpoint, Driver, Observer, Outcome, fingerprint};

/// The file of an unfinished run's state.
pub struct SoloCheckpoint {
    path: PathBuf,
}

impl SoloCheckpoint {
    /// Beside the file that the run will write.
    pub fn beside(out: &Path) -> Self {
        let mut name = out.as_os_str().to_owned();
        name.push(".checkpoint");
        Self { path: name.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Runs from the kept state, if it is to `resume` and there is one, or from the start. `settings` says all that decides the
    /// result beside the prior: no other run's state is continued.
    ///
    /// # Errors
    /// As [`Driver::run`] and [`Checkpoint::read`].
    pub fn run(
        &self,
        driver: &Driver<'_>,
        engine: &mut dyn Engine,
        settings: &str,
        resume: bool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        remove_leftovers(&self.path);
        let prior = fingerprint::of_prior(driver.given.prior);
        let name = fingerprint::of_text(&format!("{settings} {prior} {} {}", driver.images, driver.seed));
        let from = (resume && self.exists()).then(|| Checkpoint::read(&self.path, &name));
        let mut keeper = Keeper::new(driver.images, observer);
        keeper.begin(&self.path, &name, 0..driver.images);
        driver.run(engine, from.transpose()?, &mut keeper)
    }

    /// Forgets the state of a run that is complete.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(&self) -> Result<()> {
        remove_file(&self.path)
    }
}

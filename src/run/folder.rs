//! The folder of a run: one name for each file, and no earlier run overwritten unasked.

use std::path::{Path, PathBuf};

use super::RunConfig;
use crate::files::write_atomically;
use crate::methods::{Kind, METHODS};
use crate::{Error, Result};

/// A folder that holds one run:
///
/// ```text
/// config.toml            what `qcs run --config` takes back
/// metrics.json, .csv     written last
/// grid.png               truth | reconstructions | deviation
/// truth.npy              where the problem knows it
/// ep/samples.npy         [images, chains, C, H, W]
/// ep/0000.png, …         the samples, or with several chains their means
/// ep/mean.npy, std.npy, samples/   with several chains
/// checkpoint-ep.safetensors        until the run is complete
/// ```
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

/// What a folder holds.
#[derive(Debug)]
pub enum Found {
    /// It does not exist, or is empty
    Nothing,
    /// Files that are no run
    Other,
    Unfinished(RunConfig),
    Finished(RunConfig),
}

impl RunFolder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    pub fn metrics_json(&self) -> PathBuf {
        self.path.join("metrics.json")
    }

    pub fn metrics_csv(&self) -> PathBuf {
        self.path.join("metrics.csv")
    }

    pub fn grid(&self) -> PathBuf {
        self.path.join("grid.png")
    }

    pub fn truth(&self) -> PathBuf {
        self.path.join("truth.npy")
    }

    pub fn checkpoint(&self, method: &dyn Kind) -> PathBuf {
        self.path.join(format!("checkpoint-{}.safetensors", method.key()))
    }

    pub fn samples(&self, method: &dyn Kind) -> PathBuf {
        self.path.join(method.key()).join("samples.npy")
    }

    /// The method's folder, created if it does not exist.
    pub(super) fn method(&self, method: &dyn Kind) -> Result<PathBuf> {
        let path = self.path.join(method.key());
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "create", e))?;
        Ok(path)
    }

    /// Looks what is there.
    ///
    /// # Errors
    /// If the folder cannot be read, or is a file.
    pub fn find(&self) -> Result<Found> {
        if self.config().exists() {
            let config = RunConfig::read(&self.config())?;
            let finished = self.metrics_json().exists();
            return Ok(if finished {
                Found::Finished(config)
            } else {
                Found::Unfinished(config)
            });
        }
        match std::fs::read_dir(&self.path) {
            Ok(mut entries) => Ok(if entries.next().is_some() {
                Found::Other
            } else {
                Found::Nothing
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(e) => Err(Error::io(&self.path, "use as the run's folder", e)),
        }
    }

    /// Makes the folder this run's: with `force` an earlier run is removed from it, but no other file.
    ///
    /// # Errors
    /// [`Error::Usage`] if it holds something and `force` is not given, [`Error::Io`] if it cannot be written.
    pub fn claim(&self, config: &RunConfig, force: bool) -> Result<()> {
        let shown = self.path.display();
        if !force {
            match self.find()? {
                Found::Nothing => {}
                Found::Other => {
                    return Err(Error::usage(format!(
                        "--out {shown} is not empty: choose another folder, or --force to write into it"
                    )));
                }
                Found::Unfinished(_) => {
                    return Err(Error::usage(format!(
                        "--out {shown} holds an unfinished run: --resume continues it, --force starts over"
                    )));
                }
                Found::Finished(_) => {
                    return Err(Error::usage(format!(
                        "--out {shown} holds an earlier run: choose another folder, or --force to replace it"
                    )));
                }
            }
        }
        std::fs::create_dir_all(&self.path).map_err(|e| Error::io(&self.path, "create", e))?;
        self.clear()?;
        let text = format!(
            "# Repeat this run with `qcs run --config config.toml --out FOLDER`.\n{}",
            config.to_toml()?
        );
        let path = self.config();
        write_atomically(&path, |w| {
            w.write_all(text.as_bytes()).map_err(|e| Error::io(&path, "write", e))
        })
    }

    /// Removes the checkpoints of a run that is complete.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_checkpoints(&self) -> Result<()> {
        METHODS.iter().try_for_each(|&method| remove(&self.checkpoint(method)))
    }

    /// Removes what an earlier run has left, its metrics first: without them it does not count as complete.
    fn clear(&self) -> Result<()> {
        for path in [
            self.metrics_json(),
            self.metrics_csv(),
            self.grid(),
            self.truth(),
            self.config(),
        ] {
            remove(&path)?;
        }
        self.remove_checkpoints()?;
        for method in METHODS {
            let folder = self.path.join(method.key());
            if folder.join("samples.npy").exists() {
                std::fs::remove_dir_all(&folder).map_err(|e| Error::io(&folder, "remove", e))?;
            }
        }
        Ok(())
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, "remove", e)),
        _ => Ok(()),
    }
}

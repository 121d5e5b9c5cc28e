//! The folder of a run: one name for each file, and no earlier run overwritten unasked.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Lock, RunConfig};
use crate::error::Remedy;
use crate::files::{is_temporary, remove_file as remove, write_atomically};
use crate::methods::{Kind, METHODS};
use crate::output::Diverged;
use crate::{Error, Result};

/// A folder that holds one run:
///
/// ```text
/// config.toml            what `qcs run --config` takes back
/// metrics.json, .csv     written last
/// grid.png               truth | reconstructions | deviation
/// truth.npy              where the problem knows it
/// ep/samples.npy         [images, chains, C, H, W]
/// ep/0000.png, …         the samples, or with several chains their means; 0000-cat.png of an image that was cat.jpg
/// ep/mean.npy, std.npy, samples/   with several chains
/// checkpoint-ep.safetensors        until the run is complete; of the next thousand images checkpoint-ep-1.safetensors, …
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

    /// What a shard says of itself.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest.json")
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

    /// Of a block of the method's images: most runs have one.
    pub fn checkpoint(&self, method: &Kind, block: usize) -> PathBuf {
        let key = method.key();
        self.path.join(match block {
            0 => format!("checkpoint-{key}.safetensors"),
            _ => format!("checkpoint-{key}-{block}.safetensors"),
        })
    }

    pub fn samples(&self, method: &Kind) -> PathBuf {
        self.path.join(method.key()).join("samples.npy")
    }

    /// The method's folder, created if it does not exist.
    pub(super) fn method(&self, method: &Kind) -> Result<PathBuf> {
        let path = self.path.join(method.key());
        std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, "create", e))?;
        Ok(path)
    }

    /// Creates the folder if it does not exist, and keeps other runs out of it.
    ///
    /// # Errors
    /// [`Error::Usage`] if another run is at work there, [`Error::Io`] if it cannot be created.
    pub fn lock(&self) -> Result<Lock> {
        std::fs::create_dir_all(&self.path).map_err(|e| Error::io(&self.path, "create", e))?;
        Lock::of(&self.path)
    }

    /// Whether a file is one that a run in this folder replaces.
    pub fn owns(&self, file: &Path) -> bool {
        let (Ok(folder), Ok(file)) = (self.path.canonicalize(), file.canonicalize()) else {
            return false;
        };
        let own = Self::new(folder);
        let methods = METHODS.map(|method| own.path.join(method.key()));
        [own.truth(), own.grid()].contains(&file) || methods.iter().any(|method| file.starts_with(method))
    }

    /// The states that diverged in the finished run, by what its metrics say; none if there is no such run.
    ///
    /// # Errors
    /// If the metrics cannot be read.
    pub fn diverged(&self) -> Result<Vec<Diverged>> {
        #[derive(Deserialize)]
        struct Metrics {
            diverged: Vec<Diverged>,
        }
        let path = self.metrics_json();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = crate::files::read_text(&path)?;
        let metrics: Metrics = serde_json::from_str(&text)
            .map_err(|e| Error::bad_file(&path, format!("does not say which states diverged: {e}")))?;
        Ok(metrics.diverged)
    }

    /// Looks what is there.
    ///
    /// # Errors
    /// If the folder cannot be read, or is a file.
    pub fn find(&self) -> Result<Found> {
        if self.config().exists() {
            let config = RunConfig::read(&self.config())?;
            let there = |key: &String| self.path.join(key).join("samples.npy").exists();
            let finished = self.metrics_json().exists() && config.methods.iter().all(there);
            return Ok(if finished {
                Found::Finished(config)
            } else {
                Found::Unfinished(config)
            });
        }
        match std::fs::read_dir(&self.path) {
            // What a killed run has left of a file that it was writing is nothing.
            Ok(entries) => Ok(if entries.flatten().any(|entry| !is_temporary(&entry.file_name())) {
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
                    return Err(Error::setting("out", format!("{shown} is not empty")).or(Remedy::WriteInto));
                }
                Found::Unfinished(_) => {
                    let reason = format!("{shown} holds an unfinished run");
                    return Err(Error::setting("out", reason).or(Remedy::ContinueOrReplace));
                }
                Found::Finished(_) => {
                    let reason = format!("{shown} holds an earlier run");
                    return Err(Error::setting("out", reason).or(Remedy::Replace));
                }
            }
        }
        std::fs::create_dir_all(&self.path).map_err(|e| Error::io(&self.path, "create", e))?;
        self.clear()?;
        let text = format!(
            "# `qcs run` repeats this run with this file as its configuration.\n{}",
            config.to_toml()?
        );
        let path = self.config();
        write_atomically(&path, |w| {
            w.write_all(text.as_bytes()).map_err(|e| Error::io(&path, "write", e))
        })
    }

    /// Removes what killed runs have left of files that they were writing: nobody else works here while the folder is locked.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_temporaries(&self) -> Result<()> {
        let methods = METHODS.iter().flat_map(|method| {
            let folder = self.path.join(method.key());
            [folder.join("samples"), folder]
        });
        for folder in methods.chain([self.path.clone()]) {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| is_temporary(&entry.file_name())) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the checkpoints of a run that is complete.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_checkpoints(&self) -> Result<()> {
        for method in METHODS {
            let of_block = |block| self.checkpoint(method, block);
            let there: Vec<PathBuf> = (0..).map(of_block).take_while(|path| path.exists()).collect();
            // From the last one on, so that those that are left are found again.
            there.iter().rev().try_for_each(|path| remove(path))?;
        }
        Ok(())
    }

    /// Removes what an earlier run has left, its metrics first: without them it does not count as complete. Its configuration
    /// goes last: until then what is left is known to be of a run.
    fn clear(&self) -> Result<()> {
        for path in [
            self.metrics_json(),
            self.manifest(),
            self.metrics_csv(),
            self.grid(),
            self.truth(),
        ] {
            remove(&path)?;
        }
        self.remove_checkpoints()?;
        self.remove_temporaries()?;
        for method in METHODS {
            let folder = self.path.join(method.key());
            // A folder of this name that no run has made is somebody's own.
            if self.config().exists() && folder.is_dir() || folder.join("samples.npy").exists() {
                std::fs::remove_dir_all(&folder).map_err(|e| Error::io(&folder, "remove", e))?;
            }
        }
        remove(&self.config())
    }
}

//! What tells a sweep's folder from others: a file that names what the last report has written there.

use std::path::{Path, PathBuf};

use super::POINTS;
use crate::files::{is_temporary, read_text, remove_file, write_atomically};
use crate::run::{Lock, RunFolder};
use crate::{Error, Result};

/// The file `.qcs-sweep` of a folder: one name to a line, of figures that a later report may not have.
pub(super) struct Mark {
    folder: PathBuf,
}

/// Takes a folder for a sweep, and keeps other sweeps out of it. It may be new, empty, or a sweep's.
///
/// # Errors
/// [`Error::Setting`] if it holds something else, or another sweep is at work there.
pub fn claim(out: &Path) -> Result<Lock> {
    let mark = Mark::of(out);
    if !mark.is_ours()? {
        let reason = format!(
            "{} holds files that no sweep has written: choose another folder",
            out.display()
        );
        return Err(Error::setting("out", reason));
    }
    let lock = RunFolder::new(out).lock()?;
    if !mark.path().exists() {
        mark.write(&[])?;
    }
    Ok(lock)
}

impl Mark {
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(".qcs-sweep")
    }

    fn is_ours(&self) -> Result<bool> {
        if self.path().is_file() {
            return Ok(true);
        }
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(Error::io(&self.folder, "use as the sweep's folder", e)),
        };
        let others = entries.flatten().any(|entry| !is_temporary(&entry.file_name()));
        Ok(!others || self.holds_points())
    }

    /// Whether runs lie where a sweep puts them.
    fn holds_points(&self) -> bool {
        let points = std::fs::read_dir(self.folder.join(POINTS))
            .into_iter()
            .flatten()
            .flatten();
        points
            .into_iter()
            .any(|point| RunFolder::new(point.path()).config().is_file())
    }

    /// Removes what the last report has written and said so.
    pub fn remove_files(&self) -> Result<()> {
        if !self.path().is_file() {
            return Ok(());
        }
        let text = read_text(&self.path())?;
        // Only figures, whatever the file says.
        let figure = |line: &&str| {
            let name = line.strip_prefix("figures/");
            name.is_some_and(|name| !name.contains(['/', '\\']) && (name.ends_with(".svg") || name.ends_with(".png")))
        };
        text.lines()
            .filter(figure)
            .try_for_each(|line| remove_file(&self.folder.join(line)))
    }

    pub fn write(&self, files: &[String]) -> Result<()> {
        let path = self.path();
        let text: String = files.iter().map(|file| format!("{file}\n")).collect();
        write_atomically(&path, |out| {
            out.write_all(text.as_bytes()).map_err(|e| Error::io(&path, "write", e))
        })
    }
}

//! Factorisations of A that outlive a run: one file to each matrix, named by its digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::files::safetensors;
use crate::problem::{Operator, Problem, Spectrum};
use crate::reconstruct::fingerprint;
use crate::{Error, Result};

/// A folder of factorisations.
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The folder is made when something is kept there.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Makes sure that the spectrum of A is known: read if it is here and right, else factorised by the engine and kept here. Returns
    /// notes for the user.
    ///
    /// # Errors
    /// If A cannot be factorised.
    pub(super) fn factorise(&self, problem: &Problem, engine: &mut dyn Engine) -> Result<Vec<String>> {
        let path = self.path(problem.a(), engine.rounds_as());
        let mut notes = Vec::new();
        if path.exists() {
            match problem.spectrum_by(|_| read(&path)) {
                Ok(_) => return Ok(vec![format!("A is factorised in {}", path.display())]),
                Err(error) => notes.push(format!("{error}; {} is made again", path.display())),
            }
        }
        notes.append(&mut engine.factorise(problem)?);
        // Without it the next run takes longer; this one has what it needs.
        notes.push(match write(&path, problem.spectrum()?) {
            Ok(()) => format!("A's factorisation is kept in {}", path.display()),
            Err(error) => format!("A's factorisation is not kept: {error}"),
        });
        Ok(notes)
    }

    /// The file of an operator. Devices and instruction sets round differently, so that each has its own: a run must not depend on
    /// who ran before.
    fn path(&self, a: &Operator, device: &str) -> PathBuf {
        let (m, n, digest) = (a.rows(), a.cols(), fingerprint::of_operator(a));
        self.folder.join(format!("{digest}-{m}x{n}-{device}.safetensors"))
    }
}

/// The name of the checksum in a file: the probe that every spectrum goes through overlooks an error in its last digits.
const CHECKSUM: &str = "checksum";

fn write(path: &Path, spectrum: &Spectrum) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", e))?;
    }
    let metadata = BTreeMap::from([(CHECKSUM, fingerprint::of_spectrum(spectrum))]);
    crate::files::write_atomically(path, |out| {
        safetensors::write(out, &spectrum.tensors(), &metadata).map_err(|e| Error::io(path, "write", e))
    })
}

fn read(path: &Path) -> Result<Spectrum> {
    safetensors::read(path, |file| {
        let spectrum = Spectrum::parse(file)?.ok_or_else(|| Error::usage("holds no factorisation"))?;
        if file.text(CHECKSUM) != Some(&fingerprint::of_spectrum(&spectrum)) {
            return Err(Error::usage("is damaged"));
        }
        Ok(spectrum)
    })
}

//! Factorisations of A that outlive a run: one file to each matrix, named by its digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Run;
use crate::engine::Engine;
use crate::files::safetensors::{self, Slice, Tensor};
use crate::problem::{Operator, Spectrum};
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

    /// The file of an operator. Devices and instruction sets round differently, so that each has its own: a run must not depend on
    /// who ran before.
    fn path(&self, a: &Operator, device: &str) -> PathBuf {
        let (m, n, digest) = (a.rows(), a.cols(), fingerprint::of_operator(a));
        self.folder.join(format!("{digest}-{m}x{n}-{device}.safetensors"))
    }

    fn write(path: &Path, spectrum: &Spectrum) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", e))?;
        }
        let m = spectrum.eigenvalues.len();
        let mut tensors = vec![Tensor::new("eigenvalues", &[m], Slice::F64(&spectrum.eigenvalues))];
        if let Some(u) = &spectrum.u {
            tensors.push(Tensor::new("u", &[m, m], Slice::F64(u)));
        }
        let metadata = BTreeMap::from([(CHECKSUM, fingerprint::of_spectrum(spectrum))]);
        crate::files::write_atomically(path, |out| {
            safetensors::write(out, &tensors, &metadata).map_err(|e| Error::io(path, "write", e))
        })
    }
}

/// The name of the checksum in a file: the probe that every spectrum goes through overlooks an error in its last digits.
const CHECKSUM: &str = "checksum";

fn read(path: &Path) -> Result<Spectrum> {
    safetensors::read(path, |file| {
        let u = file.has("u").then(|| file.values::<2>("u")).transpose()?;
        let spectrum = Spectrum {
            eigenvalues: file.values::<1>("eigenvalues")?.1.into_f64(),
            u: u.map(|(_, values)| values.into_f64()),
        };
        if file.text(CHECKSUM) != Some(&fingerprint::of_spectrum(&spectrum)) {
            return Err(Error::usage("is damaged"));
        }
        Ok(spectrum)
    })
}

impl Run {
    /// Factorises A where a method needs it and nobody has: read from the cache if it is there and right, else computed and
    /// kept there. Returns notes for the user.
    ///
    /// # Errors
    /// If A cannot be factorised.
    pub fn prepare(&self, engine: &mut dyn Engine, cache: Option<&Cache>) -> Result<Vec<String>> {
        let known = self.problem.known_spectrum().is_some();
        let needed = || {
            let passes = self.methods.iter().flat_map(|one| one.algorithm.passes(self.given()));
            passes
                .into_iter()
                .any(|pass| pass.compile(1, engine.target()).plan.needs_spectrum())
        };
        let Some(cache) = cache.filter(|_| !known && needed()) else {
            return Ok(Vec::new());
        };
        let path = cache.path(self.problem.a(), engine.rounds_as());
        let mut notes = Vec::new();
        if path.exists() {
            match self.problem.spectrum_by(|_| read(&path)) {
                Ok(_) => return Ok(vec![format!("A is factorised in {}", path.display())]),
                Err(error) => notes.push(format!("{error}; {} is made again", path.display())),
            }
        }
        notes.append(&mut engine.prepare(&self.problem)?);
        // Without it the next run takes longer; this one has what it needs.
        notes.push(match Cache::write(&path, self.problem.spectrum()?) {
            Ok(()) => format!("A's factorisation is kept in {}", path.display()),
            Err(error) => format!("A's factorisation is not kept: {error}"),
        });
        Ok(notes)
    }
}

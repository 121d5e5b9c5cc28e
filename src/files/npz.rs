//! NumPy's `.npz` archives: `.npy` arrays by name, stored or deflated.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::npy::{NpyArray, read_array};
use super::npy_header::Header;
use super::{MAX_INFLATED, MAX_INFLATION, open};
use crate::{Error, Result};

/// An open archive.
pub struct Npz {
    path: PathBuf,
    length: u64,
    archive: ZipArchive<BufReader<File>>,
}

/// What an archive says of one of its arrays, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name given to `numpy.savez`.
    pub name: String,
    pub shape: Vec<usize>,
    /// NumPy's letter of the type: `f`, `u`, `i` or `b`.
    pub kind: char,
}

impl Npz {
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let (file, length) = open(&path)?;
        let archive = ZipArchive::new(file)
            .map_err(|e| Error::bad_file(&path, format!("is not a readable .npz archive: {e}")))?;
        Ok(Self { path, length, archive })
    }

    /// The arrays of numbers in the order they were saved; members that are no such array are passed over.
    pub fn entries(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for index in 0..self.archive.len() {
            let Ok(mut member) = self.archive.by_index(index) else {
                continue;
            };
            let Some(name) = member.name().ok().and_then(|name| array_name(&name)) else {
                continue;
            };
            if let Ok(header) = Header::read(&mut member) {
                entries.push(Entry {
                    name,
                    shape: header.shape,
                    kind: header.dtype.kind,
                });
            }
        }
        entries
    }

    /// Reads the array called `name`.
    pub fn read(&mut self, name: &str) -> Result<NpyArray> {
        let index = (0..self.archive.len())
            .find(|&index| self.name(index).as_deref() == Some(name))
            .ok_or_else(|| self.no_such_array(name))?;
        self.read_member(index)
            .map_err(|reason| Error::bad_file(&self.path, format!("array {name:?} {reason}")))
    }

    fn read_member(&mut self, index: usize) -> Result<NpyArray, String> {
        let mut member = self
            .archive
            .by_index(index)
            .map_err(|e| format!("cannot be read: {e}"))?;
        let inflated = member.size();
        let most = member.compressed_size().min(self.length) * MAX_INFLATION;
        if inflated > most || inflated > MAX_INFLATED {
            return Err(format!("claims {inflated} bytes, which cannot be right"));
        }
        let array = read_array(&mut member, inflated)?;
        // The archive's checksum is compared at the end of the stream only.
        match member.read(&mut [0]) {
            Ok(0) => Ok(array),
            Ok(_) => Err("is longer than the archive says".into()),
            Err(e) => Err(format!("is damaged: {e}")),
        }
    }

    /// The name of a member, if it is an array.
    fn name(&self, index: usize) -> Option<String> {
        array_name(&self.archive.name_for_index(index)?.ok()?)
    }

    fn no_such_array(&self, name: &str) -> Error {
        let names: Vec<String> = (0..self.archive.len()).filter_map(|index| self.name(index)).collect();
        let names = names.join(", ");
        Error::bad_file(&self.path, format!("has no array {name:?}; it has: {names}"))
    }
}

/// NumPy stores the array `x` as the member `x.npy`.
fn array_name(member: &str) -> Option<String> {
    member.strip_suffix(".npy").map(str::to_owned)
}

/// Splits `file.npz:name` into the file and the array's name; any other path is returned whole.
pub fn split_name(path: &Path) -> (PathBuf, Option<String>) {
    match path.to_str().and_then(|text| text.rsplit_once(".npz:")) {
        Some((stem, name)) if !path.exists() => (PathBuf::from(format!("{stem}.npz")), Some(name.to_owned())),
        _ => (path.to_path_buf(), None),
    }
}

//! NumPy's `.npz` archives: `.npy` arrays by name, stored or deflated.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::array::ArrayStream;
use super::npy_header::Header;
use super::{MAX_INFLATION, open, quoted};
use crate::{Error, Result};

/// An open archive.
pub(super) struct Npz {
    path: PathBuf,
    length: u64,
    archive: ZipArchive<BufReader<File>>,
}

impl Npz {
    pub fn open(path: &Path) -> Result<Self> {
        let (file, length) = open(path)?;
        let archive =
            ZipArchive::new(file).map_err(|e| Error::bad_file(path, format!("is not a readable .npz archive: {e}")))?;
        Ok(Self {
            path: path.to_path_buf(),
            length,
            archive,
        })
    }

    /// How many arrays there are.
    pub fn arrays(&self) -> usize {
        (0..self.archive.len())
            .filter(|&index| self.name(index).is_some())
            .count()
    }

    /// The name of the first array of numbers, in the order they were saved, that `wanted` takes.
    pub fn find(&mut self, wanted: impl Fn(&Header) -> bool) -> Option<String> {
        (0..self.archive.len()).find_map(|index| {
            let mut member = self.archive.by_index(index).ok()?;
            let name = array_name(&member.name().ok()?)?;
            let header = Header::read(&mut member).ok()?;
            wanted(&header).then_some(name)
        })
    }

    /// The array called `name`; the inner error is the reason in words, without the file's name and the array's.
    pub fn array(&mut self, name: &str) -> Result<Result<ArrayStream<ZipFile<'_, BufReader<File>>>, String>> {
        let index = (0..self.archive.len())
            .find(|&index| self.name(index).as_deref() == Some(name))
            .ok_or_else(|| self.no_such_array(name))?;
        Ok(self.member(index))
    }

    fn member(&mut self, index: usize) -> Result<ArrayStream<ZipFile<'_, BufReader<File>>>, String> {
        let mut member = self
            .archive
            .by_index(index)
            .map_err(|e| format!("cannot be read: {e}"))?;
        let inflated = member.size();
        if inflated > member.compressed_size().min(self.length) * MAX_INFLATION {
            return Err(format!("claims {inflated} bytes, more than its archive can hold"));
        }
        let header = Header::read(&mut member)?;
        ArrayStream::new(header, member, Some(inflated))
    }

    /// The name of a member, if it is an array.
    fn name(&self, index: usize) -> Option<String> {
        array_name(&self.archive.name_for_index(index)?.ok()?)
    }

    fn no_such_array(&self, name: &str) -> Error {
        const SHOWN: usize = 10;
        let names = (0..self.archive.len()).filter_map(|index| self.name(index));
        let mut names: Vec<String> = names.take(SHOWN + 1).map(|name| quoted(&name)).collect();
        if names.len() > SHOWN {
            names[SHOWN] = "…".into();
        }
        let reason = format!("has no array {}; it has: {}", quoted(name), names.join(", "));
        Error::bad_file(&self.path, reason)
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

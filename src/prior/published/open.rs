//! Opening a published file or folder as it is.

use std::path::{Path, PathBuf};

use super::diffusers::{self, Folder};
use super::{FIRSTS, Side, Tensors, Translation, edm, is_folder, translate};
use crate::files::safetensors::{self, TensorFile};
use crate::prior::Prior;
use crate::prior::convert::Checkpoint;
use crate::{Error, Result};

impl Translation {
    pub(in crate::prior) fn open(self, tensors: &dyn Tensors) -> Result<Prior> {
        self.prior(tensors).map_err(Error::usage)
    }
}

/// The files that a published model consists of: those of a folder, or the file itself.
///
/// # Errors
/// If a folder lacks one.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    match path.is_dir() {
        true => Folder::find(path).map(|folder| folder.files()),
        false => Ok(vec![path.to_owned()]),
    }
}

/// Hands the network of a folder that diffusers wrote, and its tensors, to `then`.
pub(in crate::prior) fn of_folder<T>(
    folder: &Path,
    side: Side,
    then: impl FnOnce(Translation, &dyn Tensors) -> Result<T>,
) -> Result<T> {
    let files = Folder::find(folder)?;
    let weights = &files.weights;
    let read = |tensors: &dyn Tensors| {
        let translation = diffusers::translate(&files, tensors, side)?;
        then(translation, tensors).map_err(|e| named(weights, e))
    };
    if weights.extension().is_some_and(|extension| extension == "safetensors") {
        // What `then` says of other files is not the fault of this one.
        return safetensors::read(weights, |file| Ok(read(file)))?;
    }
    let bytes = crate::files::map(weights)?;
    let read = Checkpoint::open(&bytes, false, |checkpoint| read(checkpoint));
    read.map_err(|reason| Error::bad_file(weights, reason))?
}

/// What a file is.
enum Kind {
    /// Another one than those here
    Other,
    Tensors,
    /// Beside the settings of its network
    InFolder,
}

/// Hands the network of a published file and its tensors to `then`, those of a checkpoint the moving average of its weights, or the
/// plain ones if `raw`; none if it is no such file, but one of our own or NCSNv2's.
pub(in crate::prior) fn of_bytes<T>(
    path: &Path,
    bytes: &[u8],
    raw: bool,
    side: Side,
    then: impl Fn(Translation, &dyn Tensors) -> Result<T>,
) -> Result<Option<T>> {
    let translated = |tensors: &dyn Tensors, entry: Option<&str>| {
        let translation = translate(tensors, side).map_err(Error::usage);
        let told = translation.and_then(|translation| {
            let mut translation = edm::resized(translation, side);
            translation.entry = entry.map(str::to_owned);
            then(translation, tensors)
        });
        told.map(Some).map_err(|e| named(path, e))
    };
    if is_checkpoint(bytes) {
        let read = Checkpoint::open(bytes, raw, |checkpoint| match is_published(checkpoint) {
            true => translated(checkpoint, Some(checkpoint.entry())),
            false => Ok(None),
        });
        return read.map_err(|reason| Error::bad_file(path, reason))?;
    }
    let folder = path.parent().filter(|folder| is_folder(folder));
    let kind = |file: &TensorFile<'_>| match folder {
        _ if file.text("network").is_some() || !is_published(file) => Kind::Other,
        Some(_) => Kind::InFolder,
        None => Kind::Tensors,
    };
    match (safetensors::read_bytes(path, bytes, |file| Ok(kind(file)))?, folder) {
        (Kind::InFolder, Some(folder)) => of_folder(folder, side, &then).map(Some),
        (Kind::Tensors, _) => safetensors::read_bytes(path, bytes, |file| Ok(translated(file, None)))?,
        _ => Ok(None),
    }
}

/// An error of the contents as one of the file.
fn named(path: &Path, error: Error) -> Error {
    match error {
        Error::Usage(reason) => Error::bad_file(path, reason),
        other => other,
    }
}

/// What `torch.save` and pickle begin a file with: a zip, or a pickle of protocol 2 and later. A safetensors file may begin so, too, with
/// the length of its header, but then comes a brace.
pub(in crate::prior) fn is_checkpoint(bytes: &[u8]) -> bool {
    (bytes.starts_with(b"PK\x03\x04") || bytes.first() == Some(&0x80)) && bytes.get(8) != Some(&b'{')
}

/// Whether tensors of these names may be a published network.
fn is_published(tensors: &dyn Tensors) -> bool {
    FIRSTS.iter().any(|name| tensors.shape(name).is_some())
}

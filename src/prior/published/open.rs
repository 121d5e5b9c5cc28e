//! Opening a published file or folder as it is.

use std::path::Path;

use super::diffusers::{self, Folder};
use super::{Loaded, Side, Tensors, Translation, edm, translate};
use crate::files::safetensors;
use crate::prior::Prior;
use crate::prior::convert::Checkpoint;
use crate::{Error, Result};

impl Prior {
    /// A folder that diffusers wrote.
    pub(in crate::prior) fn open_folder(folder: &Path, side: Side) -> Result<Self> {
        let files = Folder::find(folder)?;
        let weights = &files.weights;
        let read = |tensors: &dyn Tensors| {
            let translation = diffusers::translate(&files, tensors, side)?;
            finish(translation, tensors).map_err(|e| named(weights, e))
        };
        if weights.extension().is_some_and(|extension| extension == "safetensors") {
            return safetensors::read(weights, |file| Ok(read(file)))?;
        }
        let tensors = Checkpoint::read(&crate::files::map(weights)?, false);
        let tensors = tensors.map_err(|reason| Error::bad_file(weights, reason))?;
        read(&tensors.loaded)
    }

    /// A set of tensors of a family whose files carry no settings.
    pub(in crate::prior) fn of_tensors(tensors: &dyn Tensors, side: Side) -> Result<Self> {
        let translation = translate(tensors, side).map_err(Error::usage)?;
        finish(edm::resized(translation, side), tensors)
    }

    /// A checkpoint of PyTorch, by its bytes: the moving average of its weights, or the plain ones if `raw`.
    pub(in crate::prior) fn of_checkpoint(path: &Path, bytes: &[u8], raw: bool, side: Side) -> Result<Self> {
        let checkpoint = Checkpoint::read(bytes, raw).map_err(|reason| Error::bad_file(path, reason))?;
        let Checkpoint { loaded, entry } = &checkpoint;
        if loaded.shape("begin_conv.weight").is_some() {
            let reason = "is a checkpoint of NCSNv2: convert it first (qcs convert)";
            return Err(Error::bad_file(path, reason));
        }
        let mut prior = Self::of_tensors(loaded, side).map_err(|e| named(path, e))?;
        prior.metadata.insert("entry".into(), entry.clone());
        Ok(prior)
    }
}

fn finish(translation: Translation, tensors: &dyn Tensors) -> Result<Prior> {
    translation.prior(tensors).map_err(Error::usage)
}

/// An error of the contents as one of the file.
fn named(path: &Path, error: Error) -> Error {
    match error {
        Error::Usage(reason) => Error::bad_file(path, reason),
        other => other,
    }
}

/// What `torch.save` begins a file with: a zip, or a pickle of protocol 2 and later. A safetensors file may begin so, too, with the length of
/// its header, but then comes a brace.
pub(in crate::prior) fn is_checkpoint(bytes: &[u8]) -> bool {
    (bytes.starts_with(b"PK\x03\x04") || bytes.first() == Some(&0x80)) && bytes.get(8) != Some(&b'{')
}

/// Whether tensors of these names may be a published network.
pub(in crate::prior) fn is_published(tensors: &dyn Tensors) -> bool {
    super::FIRSTS.iter().any(|name| tensors.shape(name).is_some())
}

impl Loaded {
    /// Of name, shape and values of each tensor.
    pub(in crate::prior) fn of(tensors: impl Iterator<Item = (String, Vec<usize>, Vec<f32>)>) -> Self {
        Self(tensors.map(|(name, shape, values)| (name, (shape, values))).collect())
    }
}

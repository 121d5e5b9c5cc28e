//! Reading a prior from safetensors: names and shapes are checked, f16 and bf16 are widened to f32.

use std::collections::HashMap;
use std::path::Path;

use super::published::{Side, Translation, is_checkpoint, of_bytes, of_folder};
use super::registry::{self, shape_of};
use super::{Denoiser, Prior, Schedule, parameters};
use crate::files::safetensors::{self, TensorFile};
use crate::{Error, ImageShape, Result};

impl Prior {
    /// Reads weights that name their network (`registry`), an NCSNv2 with the original key names, or a file or folder as its authors
    /// published it (`published`).
    ///
    /// `image` overrides the size of the images in the file, which one from elsewhere may lack.
    pub fn open(path: &Path, image: Option<ImageShape>) -> Result<Self> {
        if path.is_dir() {
            let prior = of_folder(path, side(image), Translation::open)?;
            return prior.from(path).fitting(image);
        }
        Self::from_bytes(path, &crate::files::map(path)?, image)
    }

    /// Refuses images of another number of channels.
    fn fitting(self, image: Option<ImageShape>) -> Result<Self> {
        let channels = self.image().channels;
        match image.filter(|image| image.channels != channels) {
            Some(image) => Err(Error::bad_file(
                &self.source,
                format!(
                    "this prior is for {channels}-channel images, but the images at hand have {}",
                    image.channels
                ),
            )),
            None => Ok(self),
        }
    }

    fn from(mut self, source: &Path) -> Self {
        self.source = source.to_owned();
        self
    }

    /// The same from a file that is already in memory; `name` stands for it in messages.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &[u8], image: Option<ImageShape>) -> Result<Self> {
        let name = name.as_ref();
        let prior = match of_bytes(name, bytes, false, side(image), Translation::open)? {
            Some(prior) => prior,
            None if is_checkpoint(bytes) => {
                let reason = "is a checkpoint of NCSNv2: convert it first (qcs convert)";
                return Err(Error::bad_file(name, reason));
            }
            None => safetensors::read_bytes(name, bytes, |file| parse(file, image))?,
        };
        prior.from(name).fitting(image)
    }
}

/// What is said of the images beside their channels.
fn side(image: Option<ImageShape>) -> Side {
    image.map(|image| (image.height, image.width))
}

/// Errors are the file's fault; its name is not in them yet.
fn parse(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Prior> {
    let network = registry::network(file, image)?;
    let what = network.describe();
    let mut weights = HashMap::new();
    for param in parameters(network.as_ref()) {
        let shape = shape_of(file, &param.name)?;
        if shape != param.shape {
            return Err(Error::usage(format!(
                "`{}` has shape {shape:?}, but this network ({what}, {} channel(s)) needs {:?}",
                param.name,
                network.image().channels,
                param.shape
            )));
        }
        let values = finite(file, &param.name)?;
        weights.insert(param.name, values);
    }
    for name in file.names() {
        if name != "sigmas" && !Denoiser::TENSORS.contains(&name) && !weights.contains_key(name) {
            return Err(Error::usage(format!(
                "unknown tensor `{name}`: not a weight of this network ({what}; is it another one?)"
            )));
        }
    }
    let image = network.image();
    let prior = Prior {
        metadata: file.metadata.clone(),
        ..Prior::of(network, schedule(file)?, weights)
    };
    match Denoiser::read(file, image)? {
        Some(denoiser) => prior.with_denoiser(denoiser),
        None => Ok(prior),
    }
}

/// The values of the tensor `name`.
pub(super) fn finite(file: &TensorFile<'_>, name: &str) -> Result<Vec<f32>> {
    let values = file.widened(name)?;
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Error::usage(format!("tensor `{name}` is not finite at element {at}"))),
        None => Ok(values),
    }
}

/// The `sigmas` tensor, or a geometric one from `sigma_begin`, `sigma_end` and `num_classes`.
fn schedule(file: &TensorFile<'_>) -> Result<Option<Schedule>> {
    if file.has("sigmas") {
        return Schedule::new(finite(file, "sigmas")?).map(Some);
    }
    let bounds = (file.number("sigma_begin")?, file.number("sigma_end")?);
    let ((Some(begin), Some(end)), Some(count)) = (bounds, file.number::<f64>("num_classes")?) else {
        return Ok(None);
    };
    if !(2.0..=100_000.0).contains(&count) {
        return Err(Error::usage(format!(
            "metadata `num_classes` is {count}: no number of levels"
        )));
    }
    Schedule::geometric(begin, end, count as usize).map(Some)
}

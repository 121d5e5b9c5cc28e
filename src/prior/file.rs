//! Reading a prior from safetensors: names and shapes are checked, f16 and bf16 are widened to f32.

use std::collections::HashMap;
use std::path::Path;

use super::{Denoiser, Ncsnv2, Prior, Schedule, parameters, square};
use crate::files::safetensors::{self, TensorFile};
use crate::{Error, ImageShape, Result};

impl Prior {
    /// Reads a checkpoint with NCSNv2's key names.
    ///
    /// `image` overrides the image size in the file's metadata (`image_size`), which a file from elsewhere may lack.
    pub fn open(path: &Path, image: Option<ImageShape>) -> Result<Self> {
        Self::from_bytes(path, &crate::files::map(path)?, image)
    }

    /// The same from a file that is already in memory; `name` stands for it in messages.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &[u8], image: Option<ImageShape>) -> Result<Self> {
        if let Some(image) = image {
            check_even(image)?;
        }
        let prior = safetensors::read_bytes(name.as_ref(), bytes, |file| parse(file, image))?;
        Ok(Self {
            source: name.as_ref().to_owned(),
            ..prior
        })
    }
}

/// Errors are the file's fault; its name is not in them yet.
fn parse(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Prior> {
    let network = infer(file, image)?;
    let mut weights = HashMap::new();
    for param in parameters(&network) {
        let shape = shape_of(file, &param.name)?;
        if shape != param.shape {
            return Err(Error::usage(format!(
                "`{}` has shape {shape:?}, but NCSNv2 with ngf = {} and {} channel(s) needs {:?}",
                param.name, network.ngf, network.image.channels, param.shape
            )));
        }
        let values = finite(file, &param.name)?;
        weights.insert(param.name, values);
    }
    for name in file.names() {
        if name != "sigmas" && !Denoiser::TENSORS.contains(&name) && !weights.contains_key(name) {
            return Err(Error::usage(format!(
                "unknown tensor `{name}`: not a weight of NCSNv2 (is it another network?)"
            )));
        }
    }
    let image = network.image;
    let prior = Prior {
        metadata: file.metadata.clone(),
        ..Prior::new(network, schedule(file)?, weights)
    };
    match Denoiser::read(file, image)? {
        Some(denoiser) => prior.with_denoiser(denoiser),
        None => Ok(prior),
    }
}

fn shape_of(file: &TensorFile<'_>, name: &str) -> Result<Vec<usize>> {
    let missing = || format!("tensor `{name}` is missing: not an NCSNv2 checkpoint with the original key names");
    file.shape(name).ok_or_else(|| Error::usage(missing()))
}

/// ngf and channels from `begin_conv.weight` [ngf, channels, 3, 3], the size from the metadata or the caller.
fn infer(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Ncsnv2> {
    let name = "begin_conv.weight";
    let shape = shape_of(file, name)?;
    let [ngf, channels, 3, 3] = shape[..] else {
        return Err(Error::usage(format!(
            "`{name}` has shape {shape:?}, not [ngf, channels, 3, 3]"
        )));
    };
    if ngf < 2 || channels == 0 {
        return Err(Error::usage(format!(
            "`{name}` has {ngf} feature maps and {channels} channels: nothing NCSNv2 can use"
        )));
    }
    let image = match (image, file.text("image_size")) {
        (Some(image), _) => image,
        (None, Some(size)) => match size.parse::<usize>() {
            Ok(size) if (2..=4096).contains(&size) => square(channels, size),
            _ => return Err(Error::usage(format!("metadata `image_size` is not a size: {size:?}"))),
        },
        (None, None) => {
            let reason = "the metadata lack `image_size`; name the images' shape with --shape C,H,W";
            return Err(Error::usage(reason));
        }
    };
    check_even(image)?;
    if image.channels != channels {
        return Err(Error::usage(format!(
            "this prior is for {channels}-channel images, but the images at hand have {}",
            image.channels
        )));
    }
    Ok(Ncsnv2 { ngf, image })
}

fn check_even(image: ImageShape) -> Result<()> {
    if image.height.is_multiple_of(2) && image.width.is_multiple_of(2) {
        return Ok(());
    }
    let reason = format!("NCSNv2 halves the image once: height and width must be even, not {image}");
    Err(Error::usage(reason))
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

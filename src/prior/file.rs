//! Reading a prior from safetensors: names and shapes are checked, f16 and bf16 are widened to f32.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use super::{Ncsnv2, Prior, Recommended, Schedule, parameters, square};
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
        safetensors::read_bytes(name.as_ref(), bytes, |file| parse(file, image))
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
        if name != "sigmas" && !weights.contains_key(name) {
            return Err(Error::usage(format!(
                "unknown tensor `{name}`: not a weight of NCSNv2 (is it another network?)"
            )));
        }
    }
    Ok(Prior {
        network,
        schedule: schedule(file)?,
        recommended: recommended(&file.metadata)?,
        metadata: file.metadata.clone(),
        weights,
    })
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
fn finite(file: &TensorFile<'_>, name: &str) -> Result<Vec<f32>> {
    let values = file.widened(name)?;
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Error::usage(format!("tensor `{name}` is not finite at element {at}"))),
        None => Ok(values),
    }
}

fn recommended(metadata: &HashMap<String, String>) -> Result<Recommended> {
    fn positive<T: FromStr + Default + PartialOrd>(entry: Option<(&str, &String)>) -> Result<Option<T>> {
        let Some((key, text)) = entry else { return Ok(None) };
        match text.parse::<T>() {
            Ok(value) if value > T::default() => Ok(Some(value)),
            _ => Err(Error::usage(format!(
                "metadata `{key}` is no positive number: {text:?}"
            ))),
        }
    }
    let entry = |key: &'static str| metadata.get(key).map(|text| (key, text));
    // 0 says: none, as in the paper.
    let share = |text: &String| text.parse().ok().filter(|momentum| (0.0..1.0).contains(momentum));
    let momentum = metadata.get("momentum").map(|text| {
        let reason = || format!("metadata `momentum` is no number from 0 to below 1: {text:?}");
        share(text).ok_or_else(|| Error::usage(reason()))
    });
    Ok(Recommended {
        steps_per_level: positive(entry("steps_per_level"))?,
        step_scale: positive(entry("step_scale"))?,
        momentum: momentum.transpose()?,
        xi: positive(entry("xi"))?,
    })
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

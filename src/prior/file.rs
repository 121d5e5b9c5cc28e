//! Reading a prior from safetensors: names and shapes are checked, f16 and bf16 are widened to f32.

use std::collections::HashMap;
use std::path::Path;

use super::{Denoiser, Ncsnv2, Network, Prior, Schedule, UNet, parameters, square};
use crate::error::Remedy;
use crate::files::safetensors::{self, TensorFile};
use crate::{Error, ImageShape, Result};

impl Prior {
    /// Reads an NCSNv2 with the original key names, or a U-Net of `weights/training`.
    ///
    /// `image` overrides the image size in the file's metadata (`image_size`), which a file from elsewhere may lack.
    pub fn open(path: &Path, image: Option<ImageShape>) -> Result<Self> {
        Self::from_bytes(path, &crate::files::map(path)?, image)
    }

    /// The same from a file that is already in memory; `name` stands for it in messages.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &[u8], image: Option<ImageShape>) -> Result<Self> {
        if let Some(image) = image {
            check_halvings("a prior", image, 1)?;
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

fn shape_of(file: &TensorFile<'_>, name: &str) -> Result<Vec<usize>> {
    let missing = || {
        format!("tensor `{name}` is missing: not an NCSNv2 checkpoint with the original key names, nor a U-Net of ours")
    };
    file.shape(name).ok_or_else(|| Error::usage(missing()))
}

/// Which network it is, from the names and shapes of its tensors; the size of its images from the metadata or the caller.
fn infer(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Box<dyn Network>> {
    let first = "begin_conv.weight";
    let shape = shape_of(file, first)?;
    let [width, inputs, 3, 3] = shape[..] else {
        return Err(Error::usage(format!(
            "`{first}` has shape {shape:?}, not [ngf, channels, 3, 3]"
        )));
    };
    let block = |depth: usize, block: usize| format!("down.{depth}.{block}.conv1.weight");
    let is_unet = file.has(&block(0, 0));
    let channels = if is_unet { inputs.saturating_sub(1) } else { inputs };
    if width < 2 || channels == 0 {
        return Err(Error::usage(format!(
            "`{first}` has {width} feature maps of {inputs} channels: nothing a network can use"
        )));
    }
    let image = image_of(file, image, channels)?;
    if !is_unet {
        check_halvings("NCSNv2", image, 1)?;
        return Ok(Box::new(Ncsnv2 { ngf: width, image }));
    }
    let blocks = (0..).take_while(|&j| file.has(&block(0, j))).count();
    let widths: Vec<usize> = (0..)
        .map_while(|depth| file.shape(&block(depth, 0))?.first().copied())
        .collect();
    if let Some(narrow) = widths.iter().position(|&width| width < 2) {
        let name = block(narrow, 0);
        return Err(Error::usage(format!(
            "`{name}` has too few feature maps: a norm compares two"
        )));
    }
    check_halvings("this U-Net", image, widths.len() - 1)?;
    Ok(Box::new(UNet { widths, blocks, image }))
}

fn image_of(file: &TensorFile<'_>, image: Option<ImageShape>, channels: usize) -> Result<ImageShape> {
    let image = match (image, file.text("image_size")) {
        (Some(image), _) => image,
        (None, Some(size)) => match size.parse::<usize>() {
            Ok(size) if (2..=4096).contains(&size) => square(channels, size),
            _ => return Err(Error::usage(format!("metadata `image_size` is not a size: {size:?}"))),
        },
        (None, None) => {
            return Err(Error::usage("the metadata lack `image_size`").or(Remedy::Shape));
        }
    };
    if image.channels != channels {
        return Err(Error::usage(format!(
            "this prior is for {channels}-channel images, but the images at hand have {}",
            image.channels
        )));
    }
    Ok(image)
}

fn check_halvings(network: &str, image: ImageShape, times: usize) -> Result<()> {
    let divides = |side: usize| {
        u32::try_from(times)
            .ok()
            .and_then(|t| 1usize.checked_shl(t))
            .is_some_and(|d| side.is_multiple_of(d))
    };
    if divides(image.height) && divides(image.width) {
        return Ok(());
    }
    let reason = match times {
        1 => format!("{network} halves the image once: height and width must be even, not {image}"),
        _ => format!("{network} halves the image {times} times: height and width must allow that, unlike {image}"),
    };
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

//! The networks that a weights file can hold. A file names its own in the metadata (`network`); one that does not, as the
//! published NCSNv2, is known by its tensors.

use super::units::UnitNetwork;
use super::{Ncsnv2, Network, UNet};
use crate::error::Remedy;
use crate::files::safetensors::TensorFile;
use crate::{Error, ImageShape, Result};

/// A kind of network.
struct Kind {
    /// What the metadata call it
    name: &'static str,
    /// Whether a file that names none holds one
    recognised: fn(&TensorFile<'_>) -> bool,
    /// Its description, from shapes and metadata; the images' shape overrides what the file says.
    describe: Describe,
}

type Describe = fn(&TensorFile<'_>, Option<ImageShape>) -> Result<Box<dyn Network>>;

/// A file without a name is the first of these that recognises it.
const NETWORKS: [Kind; 3] = [
    Kind {
        name: UnitNetwork::NAME,
        recognised: |_| false,
        describe: |file, image| Ok(Box::new(UnitNetwork::describe_file(file, image)?)),
    },
    Kind {
        name: "unet",
        recognised: UNet::recognised,
        describe: |file, image| Ok(Box::new(UNet::describe_file(file, image)?)),
    },
    Kind {
        name: "ncsnv2",
        recognised: |_| true,
        describe: |file, image| Ok(Box::new(Ncsnv2::describe_file(file, image)?)),
    },
];

/// The network of a file.
pub fn network(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Box<dyn Network>> {
    let kind = match file.text("network") {
        Some(named) => NETWORKS.iter().find(|kind| kind.name == named).ok_or_else(|| {
            let known: Vec<&str> = NETWORKS.iter().map(|kind| kind.name).collect();
            let known = known.join(", ");
            Error::usage(format!("metadata `network` is {named:?}: known are {known}"))
        })?,
        None => NETWORKS
            .iter()
            .find(|kind| (kind.recognised)(file))
            .expect("the last takes every file"),
    };
    (kind.describe)(file, image)
}

/// The shape of a tensor that the network must have.
pub fn shape_of(file: &TensorFile<'_>, name: &str) -> Result<Vec<usize>> {
    let missing = || {
        format!("tensor `{name}` is missing: not an NCSNv2 checkpoint with the original key names, nor a U-Net of ours")
    };
    file.shape(name).ok_or_else(|| Error::usage(missing()))
}

/// Width and input channels of `begin_conv`, the first layer of both kinds.
pub fn first_layer(file: &TensorFile<'_>) -> Result<(usize, usize)> {
    let first = "begin_conv.weight";
    let shape = shape_of(file, first)?;
    let [width, inputs, 3, 3] = shape[..] else {
        return Err(Error::usage(format!(
            "`{first}` has shape {shape:?}, not [ngf, channels, 3, 3]"
        )));
    };
    if width < 2 || inputs == 0 {
        return Err(Error::usage(format!(
            "`{first}` has {width} feature maps of {inputs} channels: nothing a network can use"
        )));
    }
    Ok((width, inputs))
}

/// The images: the caller's, or what the metadata's `image_size` says, one side of a square or `height,width`.
pub fn image_of(file: &TensorFile<'_>, image: Option<ImageShape>, channels: usize) -> Result<ImageShape> {
    let image = match (image, file.text("image_size")) {
        (Some(image), _) => image,
        (None, Some(size)) => {
            let sides: Option<Vec<usize>> = size.split(',').map(|side| side.trim().parse().ok()).collect();
            match sides.as_deref() {
                Some(&[side @ 2..=4096]) => ImageShape::new(channels, side, side),
                Some(&[height @ 2..=4096, width @ 2..=4096]) => ImageShape::new(channels, height, width),
                _ => return Err(Error::usage(format!("metadata `image_size` is not a size: {size:?}"))),
            }
        }
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

/// The most that a network may halve its maps: 4096 pixels to one.
const MOST_HALVINGS: usize = 12;

/// Refuses a network that halves its maps more often than any image allows.
pub fn check_halvings(network: &str, times: usize) -> Result<()> {
    match times {
        0..=MOST_HALVINGS => Ok(()),
        _ => Err(Error::usage(format!(
            "{network} halves its maps {times} times: no image allows more than {MOST_HALVINGS}"
        ))),
    }
}

//! NCSNv2 checkpoints as found in the wild, written by `torch.save`, into safetensors.
//!
//! The file is read without executing any of it (`files::torch`), the set of weights chosen (`state_dict`) and compared
//! with the network (`network`), and each tensor written before the next is read.

mod checkpoint;
mod module;
mod network;
mod state_dict;

use std::collections::BTreeMap;
use std::path::Path;

pub use super::published::Written;
use super::published::{Tensors, Translation, of_bytes, of_folder};
use super::{Depth, Ncsnv2, Schedule};
use crate::files::safetensors::{self, Awaited};
pub use crate::files::torch::Container;
use crate::files::torch::Strided;
use crate::files::write_atomically;
use crate::{Error, Result};
pub(in crate::prior) use checkpoint::Checkpoint;
use state_dict::SIGMAS;

/// What to convert, and into what.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// Take the plain weights, not their exponential moving average.
    pub raw: bool,
    /// Store the weights as f16: half the size. The noise levels stay f32.
    pub f16: bool,
    /// Side of the images, where the checkpoint does not tell.
    pub image_size: Option<usize>,
}

/// Which set of weights a conversion took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// The exponential moving average.
    Ema,
    /// The plain ones: asked for, or the checkpoint has no average.
    Raw,
    /// The file is one state dict, and does not say which.
    Only,
}

impl Weights {
    /// The word for it in the metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ema => "ema",
            Self::Raw => "raw",
            Self::Only => "unlabelled",
        }
    }
}

/// What a conversion did.
#[derive(Clone, Debug)]
pub struct Converted {
    pub container: Container,
    pub weights: Weights,
    /// Where in the checkpoint the weights were.
    pub entry: String,
    pub ngf: usize,
    pub depth: Depth,
    pub channels: usize,
    /// Side of the images: as given, from the checkpoint's settings, or that of the published network with these
    /// levels; if none, whoever opens the result must name it.
    pub image_size: Option<usize>,
    pub schedule: Option<Schedule>,
    /// Number of weights, without the noise levels.
    pub parameters: usize,
}

impl std::fmt::Display for Converted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.weights {
            Weights::Ema => "EMA weights",
            Weights::Raw => "plain weights",
            Weights::Only => "weights",
        };
        let (parameters, ngf, channels) = (self.parameters, self.ngf, self.channels);
        write!(
            f,
            "{}, ngf = {ngf}, {channels} channel(s), {parameters} {what} from {}",
            self.depth.name(),
            self.entry
        )?;
        match self.image_size {
            Some(size) => write!(f, "; images {size}×{size}")?,
            None => f.write_str("; image size unknown: say it here, or the shape whenever it is used")?,
        }
        match &self.schedule {
            Some(levels) => write!(
                f,
                "; {} levels from {} to {}",
                levels.len(),
                levels.begin(),
                levels.end()
            ),
            None => f.write_str("; no noise levels in the file: name them whenever it is used"),
        }
    }
}

/// Converts the checkpoint `input` into the safetensors file `output`, which appears whole and valid or not at all.
///
/// Nothing in the checkpoint is executed, and what it claims is checked against its size before it is believed.
///
/// # Errors
/// [`Error::BadFile`] naming `input` and the offending entry; [`Error::Io`]; [`Error::Usage`] for an image size that
/// NCSNv2 cannot have.
pub fn convert(input: &Path, output: &Path, options: &ConvertOptions) -> Result<Converted> {
    if let Some(size) = options
        .image_size
        .filter(|&size| !network::is_image_size(Depth::Plain, size))
    {
        let reason = format!("must be even and from 2 to 4096, not {size}");
        return Err(Error::setting("image_size", reason));
    }
    let bytes = crate::files::map(input)?;
    let bad = |reason: String| Error::bad_file(input, reason);
    let converted = Checkpoint::open(&bytes, options.raw, |checkpoint| {
        write(checkpoint, input, output, options)
    });
    converted.map_err(bad)?.map_err(|e| match e {
        Error::Usage(reason) => bad(reason),
        other => other,
    })
}

/// The file of an NCSNv2, one tensor after the other.
fn write(checkpoint: &Checkpoint<'_>, input: &Path, output: &Path, options: &ConvertOptions) -> Result<Converted> {
    let chosen = checkpoint.chosen;
    let Ncsnv2 { ngf, depth, image } = network::check(chosen).map_err(Error::usage)?;
    let levels = match checkpoint.shape(SIGMAS) {
        Some(_) => Some(checkpoint.values(SIGMAS).map_err(Error::usage)?),
        None => None,
    };
    let image_size = options
        .image_size
        .or_else(|| state_dict::image_size(checkpoint.object).filter(|&size| network::is_image_size(depth, size)))
        .or_else(|| network::published_image_size(image.channels, levels.as_ref()?));
    let is_weight = |name: &str| name != SIGMAS;
    let count = |(name, tensor): &(String, Strided<'_>)| match is_weight(name) {
        true => tensor.shape.iter().product(),
        false => 0,
    };
    let converted = Converted {
        container: checkpoint.container,
        weights: chosen.weights,
        entry: chosen.entry.clone(),
        ngf,
        depth,
        channels: image.channels,
        image_size,
        // Only what the program itself can open is worth writing.
        schedule: levels.map(Schedule::new).transpose()?,
        parameters: chosen.tensors.iter().map(count).sum(),
    };
    // The noise levels first: they are f32 in any case and so keep the rest aligned.
    let mut order: Vec<&(String, Strided<'_>)> = chosen.tensors.iter().collect();
    order.sort_by_key(|(name, _)| is_weight(name));
    let awaited = order.into_iter().map(|(name, tensor)| Awaited {
        name,
        shape: &tensor.shape,
        f16: options.f16 && is_weight(name),
    });
    let tensors: Vec<Awaited<'_>> = awaited.collect();
    let metadata = metadata(input, &converted);
    write_atomically(output, |out| {
        safetensors::write_streamed(out, output, &tensors, &metadata, |at| {
            checkpoint.values(tensors[at].name).map_err(Error::usage)
        })
    })?;
    Ok(converted)
}

/// Converts a published network of another family than NCSNv2, a folder, a checkpoint or safetensors under its authors' names, into the
/// safetensors file `output`; none if `input` is no such file.
///
/// # Errors
/// As [`convert`].
pub fn convert_published(input: &Path, output: &Path, options: &ConvertOptions) -> Result<Option<Written>> {
    let side = options.image_size.map(|size| (size, size));
    let write = |translation: Translation, tensors: &dyn Tensors| {
        let mut written = None;
        write_atomically(output, |out| {
            written = Some(translation.write(tensors, input, options.f16, out)?);
            Ok(())
        })?;
        Ok(written)
    };
    if input.is_dir() {
        return of_folder(input, side, write);
    }
    let written = of_bytes(input, &crate::files::map(input)?, options.raw, side, write)?;
    Ok(written.flatten())
}

fn metadata(input: &Path, converted: &Converted) -> BTreeMap<&'static str, String> {
    let source = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut metadata = BTreeMap::from([
        ("network", "ncsnv2".to_owned()),
        ("ngf", converted.ngf.to_string()),
        ("channels", converted.channels.to_string()),
        ("weights", converted.weights.name().to_owned()),
        ("source", source),
        ("converted_by", concat!("qcs ", env!("CARGO_PKG_VERSION")).to_owned()),
    ]);
    metadata.extend(converted.image_size.map(|size| ("image_size", size.to_string())));
    metadata
}

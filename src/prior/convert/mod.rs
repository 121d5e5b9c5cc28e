//! NCSNv2 checkpoints as found in the wild, written by `torch.save`, into safetensors.
//!
//! The file is read without executing any of it (`files::torch`), the set of weights chosen (`state_dict`) and compared
//! with the network (`network`), and the result opened as any prior before it is written.

mod network;
mod state_dict;

use std::collections::BTreeMap;
use std::path::Path;

use super::published::{Loaded, Tensors, is_checkpoint, is_published};
use super::{Depth, Ncsnv2, Prior, Schedule, square};
use crate::files::half::F16;
use crate::files::safetensors::{self, Slice, Tensor};
pub use crate::files::torch::Container;
use crate::files::{quoted, torch, write_atomically};
use crate::{Error, ImageShape, Result};
use state_dict::{FIRST, SIGMAS};

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
    let (converted, weights) = read(&bytes, options).map_err(bad)?;
    let metadata = metadata(input, &converted);
    let file = serialise(&weights, &metadata, options.f16).map_err(bad)?;
    // Only what the program itself can open is worth writing. The weights do not depend on the size of the images.
    let shape = square(converted.channels, converted.image_size.unwrap_or(network::ANY_SIZE));
    let prior = Prior::from_bytes(input, &file, Some(shape))?;
    write_atomically(output, |out| {
        out.write_all(&file).map_err(|e| Error::io(output, "write", e))
    })?;
    Ok(Converted {
        parameters: prior.parameter_count(),
        schedule: prior.schedule,
        ..converted
    })
}

/// Converts a published network of another family than NCSNv2, a folder, a checkpoint or safetensors under its authors' names, into the
/// safetensors file `output`; none if `input` is no such file.
///
/// # Errors
/// As [`convert`].
pub fn convert_published(input: &Path, output: &Path, options: &ConvertOptions) -> Result<Option<Prior>> {
    let side = options.image_size.map(|size| (size, size));
    let prior = if input.is_dir() {
        Prior::open_folder(input, side)?
    } else {
        let bytes = crate::files::map(input)?;
        let is_ncsnv2 = |checkpoint: Checkpoint| checkpoint.loaded.shape(FIRST).is_some();
        if !is_checkpoint(&bytes) {
            let read = |file: &safetensors::TensorFile<'_>| Ok(file.text("network").is_none() && is_published(file));
            if !safetensors::read_bytes(input, &bytes, read)? {
                return Ok(None);
            }
            let shape = |channels| side.map(|(height, width)| ImageShape::new(channels, height, width));
            let prior = Prior::from_bytes(input, &bytes, None);
            match prior {
                Err(_) if side.is_some() => Prior::from_bytes(input, &bytes, shape(3))
                    .or_else(|_| Prior::from_bytes(input, &bytes, shape(1)))?,
                prior => prior?,
            }
        } else if Checkpoint::read(&bytes, options.raw).map_or(true, is_ncsnv2) {
            return Ok(None);
        } else {
            Prior::of_checkpoint(input, &bytes, options.raw, side)?
        }
    };
    write_atomically(output, |out| prior.write_units(input, options.f16, out))?;
    // Only what the program itself can open is worth keeping.
    Prior::open(output, None).map(Some)
}

/// The state dict of a checkpoint, read into memory.
pub(in crate::prior) struct Checkpoint {
    pub loaded: Loaded,
    /// Where in the checkpoint it was
    pub entry: String,
}

impl Checkpoint {
    /// The moving average, or the plain weights if `raw`. The error is the reason in words.
    pub fn read(bytes: &[u8], raw: bool) -> Result<Self, String> {
        let (saved, rest) = torch::open(bytes)?;
        let object = saved.unpickle()?;
        let mut storages = rest.locate(&object)?;
        let chosen = state_dict::choose(&object, raw)?;
        let values = storages.values(&chosen.tensors)?;
        let tensors = chosen.tensors.iter().zip(values);
        let loaded = Loaded::of(tensors.map(|((name, tensor), values)| (name.clone(), tensor.shape.clone(), values)));
        Ok(Self {
            loaded,
            entry: chosen.entry,
        })
    }
}

/// A tensor of the state dict, in f32.
struct Weight {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// The chosen tensors; the error is the reason in words.
fn read(bytes: &[u8], options: &ConvertOptions) -> Result<(Converted, Vec<Weight>), String> {
    let (saved, rest) = torch::open(bytes)?;
    let object = saved.unpickle()?;
    let mut storages = rest.locate(&object)?;
    let chosen = state_dict::choose(&object, options.raw)?;
    let Ncsnv2 { ngf, depth, image } = network::check(&chosen)?;
    let channels = image.channels;

    let values = storages.values(&chosen.tensors)?;
    let weight = |((name, tensor), values): (&(String, torch::Strided<'_>), _)| Weight {
        name: name.clone(),
        shape: tensor.shape.clone(),
        values,
    };
    let weights: Vec<Weight> = chosen.tensors.iter().zip(values).map(weight).collect();
    let levels = weights.iter().find(|weight| weight.name == SIGMAS);
    let image_size = options
        .image_size
        .or_else(|| state_dict::image_size(&object).filter(|&size| network::is_image_size(depth, size)))
        .or_else(|| network::published_image_size(channels, &levels?.values));
    let converted = Converted {
        container: saved.container,
        weights: chosen.weights,
        entry: chosen.entry,
        ngf,
        depth,
        channels,
        image_size,
        schedule: None,
        parameters: 0,
    };
    Ok((converted, weights))
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

/// The file's bytes, the noise levels first: they are f32 in any case and so keep the rest aligned.
fn serialise(weights: &[Weight], metadata: &BTreeMap<&str, String>, f16: bool) -> Result<Vec<u8>, String> {
    let mut halves = Vec::new();
    if f16 {
        for weight in weights {
            halves.push(narrow(weight)?);
        }
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| weights[i].name != SIGMAS);
    let written = |i: usize| {
        let Weight { name, shape, values } = &weights[i];
        let values = match halves.get(i) {
            Some(halves) if name != SIGMAS => Slice::F16(halves),
            _ => Slice::F32(values),
        };
        Tensor::new(name, shape, values)
    };
    let tensors: Vec<Tensor<'_>> = order.into_iter().map(written).collect();
    let mut file = Vec::new();
    safetensors::write(&mut file, &tensors, metadata).expect("memory takes every write");
    Ok(file)
}

fn narrow(weight: &Weight) -> Result<Vec<F16>, String> {
    let halves: Vec<F16> = weight.values.iter().map(|&value| F16::from_f32(value)).collect();
    match halves.iter().position(|value| !value.is_finite()) {
        Some(at) if weight.name != SIGMAS => {
            let (name, value) = (quoted(&weight.name), weight.values[at]);
            Err(format!(
                "tensor {name} holds {value}, too large for f16: convert to f32"
            ))
        }
        _ => Ok(halves),
    }
}

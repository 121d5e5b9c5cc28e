//! NCSNv2 checkpoints as found in the wild, written by `torch.save`, into safetensors.
//!
//! The file is taken apart (`container`), its pickle read without executing any of it (`pickle`, `globals`, `value`),
//! the set of weights chosen (`checkpoint`) and compared with the network (`network`), each tensor gathered from its
//! storage (`tensor`), and the result opened as any prior before it is written.

mod checkpoint;
mod container;
mod globals;
mod network;
mod pickle;
mod tensor;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use half::f16;

use super::{Prior, Schedule, square};
use crate::files::safetensors::{self, Slice, Tensor};
use crate::files::write_atomically;
use crate::{Error, Result};
use checkpoint::SIGMAS;
pub use container::Container;
use value::quoted;

/// What to convert, and into what.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// Take the plain weights, not their exponential moving average.
    pub raw: bool,
    pub precision: Precision,
    /// Side of the images, where the checkpoint does not tell.
    pub image_size: Option<usize>,
}

/// How the weights are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    #[default]
    F32,
    /// Half the size; the noise levels stay f32.
    F16,
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
            "NCSNv2, ngf = {ngf}, {channels} channel(s), {parameters} {what} from {}",
            self.entry
        )?;
        match self.image_size {
            Some(size) => write!(f, "; images {size}×{size}")?,
            None => f.write_str("; image size unknown: give --image-size here, or --shape whenever it is used")?,
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
    if let Some(size) = options.image_size.filter(|&size| !network::is_image_size(size)) {
        return Err(Error::usage(format!(
            "--image-size must be even and from 2 to 4096, not {size}"
        )));
    }
    let bytes = crate::files::map(input)?;
    let bad = |reason: String| Error::bad_file(input, reason);
    let (converted, tensors) = read(&bytes, options).map_err(bad)?;
    let metadata = metadata(input, &converted);
    let file = serialise(&tensors, &metadata, options.precision).map_err(bad)?;
    // Only what the program itself can open is worth writing. The weights do not depend on the size of the images.
    let shape = square(converted.channels, converted.image_size.unwrap_or(2));
    let prior = Prior::from_bytes(&input.display().to_string(), &file, Some(shape))?;
    write_atomically(output, |out| {
        out.write_all(&file).map_err(|e| Error::io(output, "write", e))
    })?;
    Ok(Converted {
        parameters: prior.parameter_count(),
        schedule: prior.schedule,
        ..converted
    })
}

/// A tensor of the checkpoint, in f32.
struct Named {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// The chosen tensors; the error is the reason in words.
fn read(bytes: &[u8], options: &ConvertOptions) -> Result<(Converted, Vec<Named>), String> {
    let parts = container::open(bytes)?;
    let object = pickle::read(&parts.object).map_err(|reason| format!("{}: {reason}", parts.object_name))?;
    let mut storages = parts.rest.locate(&object)?;
    let chosen = checkpoint::choose(&object, options.raw)?;
    let (ngf, channels) = network::check(&chosen)?;

    let big_endian = storages.big_endian();
    let mut tensors = Vec::with_capacity(chosen.tensors.len());
    for (name, tensor) in &chosen.tensors {
        let storage = storages.read(&tensor.storage).map_err(|reason| {
            format!(
                "tensor {}: storage {} {reason}",
                quoted(name),
                quoted(tensor.storage.key)
            )
        })?;
        let values = tensor
            .values(storage, big_endian)
            .map_err(|reason| format!("tensor {} {reason}", quoted(name)))?;
        tensors.push(Named {
            name: name.clone(),
            shape: tensor.shape.clone(),
            values,
        });
    }
    let levels = tensors
        .iter()
        .find(|tensor| tensor.name == SIGMAS)
        .map(|tensor| &tensor.values[..]);
    let image_size = options
        .image_size
        .or_else(|| checkpoint::image_size(&object).filter(|&size| network::is_image_size(size)))
        .or_else(|| network::published_image_size(channels, levels?));
    let converted = Converted {
        container: parts.container,
        weights: chosen.weights,
        entry: chosen.entry,
        ngf,
        channels,
        image_size,
        schedule: None,
        parameters: 0,
    };
    Ok((converted, tensors))
}

fn metadata(input: &Path, converted: &Converted) -> BTreeMap<&'static str, String> {
    let source = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut metadata = BTreeMap::from([
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
fn serialise(tensors: &[Named], metadata: &BTreeMap<&str, String>, precision: Precision) -> Result<Vec<u8>, String> {
    let mut halves = Vec::new();
    if precision == Precision::F16 {
        for tensor in tensors {
            halves.push(narrow(tensor)?);
        }
    }
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&i| tensors[i].name != SIGMAS);
    let written = |i: usize| {
        let Named { name, shape, values } = &tensors[i];
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

fn narrow(tensor: &Named) -> Result<Vec<f16>, String> {
    let halves: Vec<f16> = tensor.values.iter().map(|&value| f16::from_f32(value)).collect();
    match halves.iter().position(|value| !value.is_finite()) {
        Some(at) if tensor.name != SIGMAS => {
            let (name, value) = (quoted(&tensor.name), tensor.values[at]);
            Err(format!(
                "tensor {name} holds {value}, too large for f16: convert to f32"
            ))
        }
        _ => Ok(halves),
    }
}

//! Reading a prior from safetensors: names and shapes are checked, f16 and bf16 are widened to f32.

use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::{Ncsnv2, Prior, Schedule, parameters, square};
use crate::{Error, ImageShape, Result};

impl Prior {
    /// Reads a checkpoint with NCSNv2's key names.
    ///
    /// `image` overrides the image size in the file's metadata (`image_size`), which a file from elsewhere may lack.
    pub fn open(path: &Path, image: Option<ImageShape>) -> Result<Self> {
        Self::parse(path, &crate::files::map(path)?, image)
    }

    /// The same from a file that is already in memory; `name` stands for it in messages.
    pub fn from_bytes(name: &str, bytes: &[u8], image: Option<ImageShape>) -> Result<Self> {
        Self::parse(Path::new(name), bytes, image)
    }

    fn parse(path: &Path, bytes: &[u8], image: Option<ImageShape>) -> Result<Self> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| not_safetensors(path, &e))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| not_safetensors(path, &e))?;
        Self::from_tensors(path, &tensors, metadata, image)
    }

    fn from_tensors(
        path: &Path,
        tensors: &SafeTensors<'_>,
        metadata: HashMap<String, String>,
        image: Option<ImageShape>,
    ) -> Result<Self> {
        let network = infer(path, tensors, &metadata, image)?;
        let mut weights = HashMap::new();
        for param in parameters(&network) {
            let tensor = tensors.tensor(&param.name).map_err(|_| missing(path, &param.name))?;
            if tensor.shape() != param.shape {
                return Err(Error::bad_file(
                    path,
                    format!(
                        "`{}` has shape {:?}, but NCSNv2 with ngf = {} and {} channel(s) needs {:?}",
                        param.name,
                        tensor.shape(),
                        network.ngf,
                        network.image.channels,
                        param.shape
                    ),
                ));
            }
            weights.insert(param.name.clone(), to_f32(path, &param.name, &tensor)?);
        }
        for name in tensors.names() {
            if name != "sigmas" && !weights.contains_key(name) {
                let reason = format!("unknown tensor `{name}`: not a weight of NCSNv2 (is it another network?)");
                return Err(Error::bad_file(path, reason));
            }
        }
        let schedule = schedule(path, tensors, &metadata)?;
        Ok(Self {
            source: path.to_owned(),
            metadata,
            ..Self::new(network, schedule, weights)
        })
    }
}

fn not_safetensors(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::bad_file(path, format!("not a whole safetensors file ({error})"))
}

fn missing(path: &Path, name: &str) -> Error {
    Error::bad_file(
        path,
        format!("tensor `{name}` is missing: not an NCSNv2 checkpoint with the original key names"),
    )
}

/// ngf and channels from `begin_conv.weight` [ngf, channels, 3, 3], the size from the metadata or the caller.
fn infer(
    path: &Path,
    tensors: &SafeTensors<'_>,
    metadata: &HashMap<String, String>,
    image: Option<ImageShape>,
) -> Result<Ncsnv2> {
    let name = "begin_conv.weight";
    let begin = tensors.tensor(name).map_err(|_| missing(path, name))?;
    let &[ngf, channels, 3, 3] = begin.shape() else {
        let reason = format!("`{name}` has shape {:?}, not [ngf, channels, 3, 3]", begin.shape());
        return Err(Error::bad_file(path, reason));
    };
    if ngf < 2 || channels == 0 {
        let reason = format!("`{name}` has {ngf} feature maps and {channels} channels: nothing NCSNv2 can use");
        return Err(Error::bad_file(path, reason));
    }
    let image = match (image, metadata.get("image_size")) {
        (Some(image), _) => image,
        (None, Some(size)) => match size.parse::<usize>() {
            Ok(size) if (2..=4096).contains(&size) => square(channels, size),
            _ => {
                return Err(Error::bad_file(
                    path,
                    format!("metadata `image_size` is not a size: {size:?}"),
                ));
            }
        },
        (None, None) => {
            let reason = "the metadata lack `image_size`; name the images' shape with --shape C,H,W";
            return Err(Error::bad_file(path, reason));
        }
    };
    if image.channels != channels {
        return Err(Error::bad_file(
            path,
            format!(
                "this prior is for {channels}-channel images, but the images at hand have {}",
                image.channels
            ),
        ));
    }
    if !image.height.is_multiple_of(2) || !image.width.is_multiple_of(2) {
        let reason = format!("NCSNv2 halves the image once: height and width must be even, not {image}");
        return Err(Error::usage(reason));
    }
    Ok(Ncsnv2 { ngf, image })
}

fn to_f32(path: &Path, name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>> {
    let data = tensor.data();
    let pairs = || data.chunks_exact(2).map(|b| [b[0], b[1]]);
    let values: Vec<f32> = match tensor.dtype() {
        Dtype::F32 => data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        Dtype::F16 => pairs().map(|b| half::f16::from_le_bytes(b).to_f32()).collect(),
        Dtype::BF16 => pairs().map(|b| half::bf16::from_le_bytes(b).to_f32()).collect(),
        other => {
            let reason = format!("tensor `{name}` is {other:?}; a prior must be F32, F16 or BF16");
            return Err(Error::bad_file(path, reason));
        }
    };
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(Error::bad_file(
            path,
            format!("tensor `{name}` is not finite at element {at}"),
        ));
    }
    Ok(values)
}

/// The `sigmas` tensor, or a geometric one from `sigma_begin`, `sigma_end` and `num_classes`.
fn schedule(path: &Path, tensors: &SafeTensors<'_>, metadata: &HashMap<String, String>) -> Result<Option<Schedule>> {
    let bad = |e: Error| Error::bad_file(path, e.to_string());
    if let Ok(sigmas) = tensors.tensor("sigmas") {
        return Schedule::new(to_f32(path, "sigmas", &sigmas)?).map(Some).map_err(bad);
    }
    let number = |key: &str| {
        metadata
            .get(key)
            .map(|v| v.parse::<f64>().map_err(|_| (key.to_owned(), v.clone())))
    };
    let parsed = (number("sigma_begin"), number("sigma_end"), number("num_classes"));
    let (Some(begin), Some(end), Some(count)) = parsed else {
        return Ok(None);
    };
    let not_a_number = |(key, value)| Error::bad_file(path, format!("metadata `{key}` is not a number: {value:?}"));
    let count = count.map_err(not_a_number)?;
    if !(2.0..=100_000.0).contains(&count) {
        return Err(Error::bad_file(
            path,
            format!("metadata `num_classes` is {count}: no number of levels"),
        ));
    }
    Schedule::geometric(begin.map_err(not_a_number)?, end.map_err(not_a_number)?, count as usize)
        .map(Some)
        .map_err(bad)
}

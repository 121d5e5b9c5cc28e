//! A prior whose network its metadata describe, as a file of our own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use crate::files::half::F16;
use crate::files::safetensors::{self, Slice, Tensor};
use crate::prior::units::UnitNetwork;
use crate::prior::{Prior, parameters};
use crate::{Error, Result};

impl Prior {
    /// The file that `qcs convert` writes of a published network: f32, or f16 of half the size. `source` is where it came from.
    ///
    /// # Errors
    /// [`Error::Usage`] for a network that needs no conversion, or a weight too large for f16; [`Error::Io`].
    pub fn write_units(&self, source: &Path, f16: bool, out: &mut dyn Write) -> Result<()> {
        let config = self.network().config();
        let config = config
            .ok_or_else(|| Error::usage("this network is described by its tensors: its file is as it should be"))?;
        let image = self.image();
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut metadata = BTreeMap::from([
            ("network", UnitNetwork::NAME.to_owned()),
            (UnitNetwork::CONFIG, config),
            ("channels", image.channels.to_string()),
            ("image_size", format!("{},{}", image.height, image.width)),
            ("source", name),
            ("converted_by", concat!("qcs ", env!("CARGO_PKG_VERSION")).to_owned()),
        ]);
        if let Some(schedule) = &self.schedule {
            metadata.insert("sigma_begin", schedule.begin().to_string());
            metadata.insert("sigma_end", schedule.end().to_string());
            metadata.insert("num_classes", schedule.len().to_string());
        }
        let kept = self.metadata.iter().map(|(key, text)| (key.as_str(), text.clone()));
        kept.for_each(|(key, text)| {
            metadata.entry(key).or_insert(text);
        });
        let params = parameters(self.network());
        let mut halves = Vec::new();
        if f16 {
            for param in &params {
                let values = self.weight(&param.name);
                let narrow: Vec<F16> = values.iter().map(|&value| F16::from_f32(value)).collect();
                if narrow.iter().any(|value| !value.is_finite()) {
                    let name = &param.name;
                    return Err(Error::usage(format!(
                        "weight `{name}` is too large for f16: convert to f32"
                    )));
                }
                halves.push(narrow);
            }
        }
        let tensor = |(at, param): (usize, &'_ crate::plan::Param)| -> Slice<'_> {
            match halves.get(at) {
                Some(halves) => Slice::F16(halves),
                None => Slice::F32(self.weight(&param.name)),
            }
        };
        let tensors: Vec<Tensor<'_>> = params
            .iter()
            .enumerate()
            .map(|(at, param)| Tensor::new(&param.name, &param.shape, tensor((at, param))))
            .collect();
        safetensors::write(out, &tensors, &metadata).map_err(|e| Error::io(source, "convert", e))
    }
}

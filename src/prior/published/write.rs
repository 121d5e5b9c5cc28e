//! A prior whose network its metadata describe, as a file of our own.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use super::{Tensors, Translation};
use crate::files::safetensors::{Awaited, write_streamed};
use crate::plan::Param;
use crate::prior::units::UnitNetwork;
use crate::prior::{Network, Prior, Schedule, parameters};
use crate::{Error, ImageShape, Result};

/// What was written, for people.
pub struct Written {
    pub network: String,
    pub image: ImageShape,
    pub parameters: usize,
    /// What the file did not say
    pub inferred: Vec<String>,
}

/// The metadata of the file that `qcs convert` writes of a published network. `source` is where it came from, `known` what is known of
/// it beside.
fn metadata<'a>(
    network: &dyn Network,
    schedule: Option<&Schedule>,
    known: &'a HashMap<String, String>,
    source: &Path,
) -> Result<BTreeMap<&'a str, String>> {
    let config = network.config();
    let config =
        config.ok_or_else(|| Error::usage("this network is described by its tensors: its file is as it should be"))?;
    let image = network.image();
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut metadata = BTreeMap::from([
        ("network", UnitNetwork::NAME.to_owned()),
        (UnitNetwork::CONFIG, config),
        ("channels", image.channels.to_string()),
        ("image_size", format!("{},{}", image.height, image.width)),
        ("source", name),
        ("converted_by", concat!("qcs ", env!("CARGO_PKG_VERSION")).to_owned()),
    ]);
    if let Some(schedule) = schedule {
        metadata.insert("sigma_begin", schedule.begin().to_string());
        metadata.insert("sigma_end", schedule.end().to_string());
        metadata.insert("num_classes", schedule.len().to_string());
    }
    for (key, text) in known {
        metadata.entry(key).or_insert_with(|| text.clone());
    }
    Ok(metadata)
}

impl Prior {
    /// The file that `qcs convert` writes of a published network: f32, or f16 of half the size. `source` is where it came from.
    ///
    /// # Errors
    /// [`Error::Usage`] for a network that needs no conversion, or a weight too large for f16; [`Error::Io`].
    pub fn write_units(&self, source: &Path, f16: bool, out: &mut dyn Write) -> Result<()> {
        let metadata = metadata(self.network(), self.schedule.as_ref(), &self.metadata, source)?;
        let params = parameters(self.network());
        write(out, source, &params, &metadata, f16, |param| {
            Ok(self.weight(&param.name).to_vec())
        })
    }
}

impl Translation {
    /// The same, each weight read when its turn comes: one is in memory at a time.
    ///
    /// # Errors
    /// [`Error::Usage`] if the tensors are not this network's, or one is too large for f16; [`Error::Io`].
    pub(in crate::prior) fn write(
        self,
        tensors: &dyn Tensors,
        source: &Path,
        f16: bool,
        out: &mut dyn Write,
    ) -> Result<Written> {
        let params = self.check(tensors).map_err(Error::usage)?;
        let known = self.metadata();
        let metadata = metadata(&self.network, self.network.schedule().as_ref(), &known, source)?;
        write(out, source, &params, &metadata, f16, |param| {
            self.weight(param, tensors).map_err(Error::usage)
        })?;
        Ok(Written {
            network: self.network.describe(),
            image: self.network.image,
            parameters: params.iter().map(|param| param.shape.iter().product::<usize>()).sum(),
            inferred: self.notes,
        })
    }
}

fn write(
    out: &mut dyn Write,
    source: &Path,
    params: &[Param],
    metadata: &BTreeMap<&str, String>,
    f16: bool,
    mut values: impl FnMut(&Param) -> Result<Vec<f32>>,
) -> Result<()> {
    let awaited = params.iter().map(|Param { name, shape }| Awaited { name, shape, f16 });
    let tensors: Vec<Awaited<'_>> = awaited.collect();
    write_streamed(out, source, &tensors, metadata, |at| values(&params[at]))
}

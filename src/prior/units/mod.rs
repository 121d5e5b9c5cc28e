//! Published networks as one: a list of units that work on a map and a stack of maps. What tells the families apart, names and orders
//! of tensors, what a file says and what must be inferred, is done with when the list is made (`published/`); the list, with the
//! weights under names of its own, is what `qcs convert` writes.

mod check;
mod layers;
mod steps;

use std::collections::HashMap;

use qcs_kernels::network::embed::Told;
use qcs_kernels::network::precondition::Parametrisation;
use serde::{Deserialize, Serialize};

use super::layers::embedding_table;
use super::{Frame, Network, Schedule};
use crate::files::safetensors::TensorFile;
use crate::plan::{PlanBuilder, TensorId};
use crate::prior::registry::image_of;
use crate::{Error, ImageShape, Result};
pub use steps::{Betas, Steps};

/// A network, its weights apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitNetwork {
    /// What it is, for people: "diffusers UNet2DModel"
    pub family: String,
    /// The images that it was trained on, or those at hand
    #[serde(skip, default = "no_image")]
    pub image: ImageShape,
    /// Of an image
    pub channels: usize,
    pub output: Output,
    /// How the level reaches the blocks; none where a channel of the input says it
    pub level: Option<Level>,
    /// Groups of a norm, as long as each has so many channels
    pub groups: usize,
    pub least_of_group: usize,
    /// Variance floor of the norms
    pub epsilon: f64,
    /// Of a sum of a map and what a block adds to it
    pub factor: f32,
    pub units: Vec<Unit>,
}

fn no_image() -> ImageShape {
    ImageShape::new(0, 0, 0)
}

/// What a network says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    Edm,
    Epsilon,
    Velocity,
    Sample,
    Denoised,
}

impl Output {
    fn parametrisation(self) -> Parametrisation {
        match self {
            Self::Edm => Parametrisation::Edm,
            Self::Epsilon => Parametrisation::Epsilon,
            Self::Velocity => Parametrisation::Velocity,
            Self::Sample => Parametrisation::Sample,
            Self::Denoised => Parametrisation::Denoised,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Edm => "EDM's mixture",
            Self::Epsilon => "the noise (epsilon)",
            Self::Velocity => "the velocity (v_prediction)",
            Self::Sample => "the image (sample)",
            Self::Denoised => "the denoised image",
        }
    }
}

/// How the level becomes a vector, and the vector what norms do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The steps of the training, where a level is told as one; else its logarithm is
    pub steps: Option<Steps>,
    /// Sines and cosines together
    pub width: usize,
    /// Of the dense layers behind them
    pub hidden: usize,
    pub cosines_first: bool,
    /// What is taken from the number of frequencies in their exponents
    pub shift: f64,
    /// Whether terms scale and shift a norm's result; else they are added in front of it.
    pub scale_shift: bool,
}

impl Level {
    /// The largest first: 10000^(−k/(count − shift)).
    fn frequencies(&self) -> Vec<f64> {
        let count = self.width / 2;
        let exponent = |k: usize| -(1e4f64.ln()) * k as f64 / (count as f64 - self.shift);
        (0..count).map(|k| exponent(k).exp()).collect()
    }

    fn told(&self) -> Told {
        match self.steps {
            Some(_) => Told::Step,
            None => Told::QuarterLog,
        }
    }
}

/// One thing that is done to the map at hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Unit {
    /// A 3×3 convolution
    Conv {
        name: String,
        width: usize,
        bias: bool,
    },
    /// The map is put on the stack, too.
    Push,
    /// The top of the stack becomes more channels of the map.
    Join,
    /// The top of the stack is added.
    Add,
    /// norm, SiLU, conv; norm, SiLU, conv, plus the input
    Block {
        name: String,
        width: usize,
        resample: Resample,
        /// Whether a 1×1 convolution stands in the input's way to the sum
        skip: bool,
    },
    /// conv, ReLU, conv, plus the input; no bias
    Plain {
        name: String,
    },
    Attention {
        name: String,
        heads: usize,
    },
    /// A 3×3 convolution of stride 2, padded below and to the right only, or on all sides
    Shrink {
        name: String,
        one_sided: bool,
    },
    /// Each pixel four times, then a 3×3 convolution
    Grow {
        name: String,
    },
    /// 2×2 pixels to one, by a matrix
    Unfold {
        name: String,
        width: usize,
    },
    /// The way back
    Fold {
        name: String,
        width: usize,
    },
    /// norm, SiLU, 3×3 convolution to the image's channels
    End {
        norm: String,
        name: String,
    },
}

/// Where a block changes the resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resample {
    Keep,
    Halve,
    Double,
}

impl UnitNetwork {
    /// What the metadata call it.
    pub const NAME: &str = "units";
    /// The metadata that hold the list, as JSON.
    pub const CONFIG: &str = "config";
    const FREQUENCIES: &str = "level.frequencies";
    const STEPS: &str = "level.steps";

    /// Of a file that `qcs convert` wrote.
    pub(super) fn describe_file(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Self> {
        let config = file.text(Self::CONFIG).ok_or_else(|| {
            let key = Self::CONFIG;
            Error::usage(format!("the metadata lack `{key}`, which says what the network is"))
        })?;
        let mut network: Self = serde_json::from_str(config)
            .map_err(|e| Error::usage(format!("the metadata's `{}` is no network: {e}", Self::CONFIG)))?;
        network.image = image_of(file, image, network.channels)?;
        network.check()?;
        Ok(network)
    }

    /// How many times the smallest map was halved.
    pub(super) fn halvings(&self) -> usize {
        let (mut depth, mut most) = (0_usize, 0);
        for unit in &self.units {
            match unit {
                Unit::Shrink { .. } | Unit::Unfold { .. } => depth += 1,
                Unit::Grow { .. } | Unit::Fold { .. } => depth = depth.saturating_sub(1),
                Unit::Block { resample, .. } => match resample {
                    Resample::Keep => {}
                    Resample::Halve => depth += 1,
                    Resample::Double => depth = depth.saturating_sub(1),
                },
                _ => {}
            }
            most = most.max(depth);
        }
        most
    }

    /// Groups of a norm over so many channels.
    fn groups_of(&self, channels: usize) -> usize {
        self.groups.min(channels / self.least_of_group).max(1)
    }

    /// Terms of all blocks.
    fn terms(&self) -> usize {
        let parts = if self.level.as_ref().is_some_and(|level| level.scale_shift) {
            2
        } else {
            1
        };
        let width = |unit: &Unit| match unit {
            Unit::Block { width, .. } => parts * width,
            _ => 0,
        };
        self.units.iter().map(width).sum()
    }

    /// Levels for annealed Langevin dynamics, geometric over what the network was trained on: as many as NCSNv2 has for CIFAR-10. Nobody
    /// tuned them.
    pub fn schedule(&self) -> Option<Schedule> {
        let (first, last) = match (self.output, self.level.as_ref()?.steps.as_ref()) {
            (_, Some(steps)) => steps.range(),
            (Output::Edm, None) => (0.001, 40.0),
            _ => return None,
        };
        Schedule::geometric(last.min(50.0), first.max(0.01), 232).ok()
    }
}

impl Network for UnitNetwork {
    fn describe(&self) -> String {
        let blocks = self
            .units
            .iter()
            .filter(|unit| matches!(unit, Unit::Block { .. } | Unit::Plain { .. }));
        let attentions = self.units.iter().filter(|unit| matches!(unit, Unit::Attention { .. }));
        format!(
            "{}, {} blocks, {} with attention, says {}",
            self.family,
            blocks.count(),
            attentions.count(),
            self.output.name()
        )
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        let frame = Frame::Mixed {
            kind: self.output.parametrisation(),
            tells_level: self.level.is_none(),
        };
        frame.push(plan, self.image, self.halvings(), [x, level, score], |layers, input| {
            layers.units(self, input, level)
        });
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let schedule = match self.level.as_ref().map(|level| level.steps.as_ref()) {
            Some(Some(steps)) => steps.to_string(),
            Some(None) => "levels told by their logarithm".to_owned(),
            None => "levels told in a channel of the input".to_owned(),
        };
        vec![
            ("family", self.family.clone()),
            ("parametrisation", self.output.name().to_owned()),
            ("schedule", schedule),
        ]
    }

    fn config(&self) -> Option<String> {
        Some(serde_json::to_string(self).expect("a list of units is plain data"))
    }

    fn tables(&self) -> HashMap<String, Vec<f32>> {
        let Some(level) = &self.level else {
            return HashMap::new();
        };
        let mut tables = HashMap::from([(Self::FREQUENCIES.to_owned(), embedding_table(level.frequencies()))]);
        if let Some(steps) = &level.steps {
            tables.insert(Self::STEPS.to_owned(), embedding_table(steps.log_levels()));
        }
        tables
    }
}

//! A U-Net that knows the noise level. Its blocks are NCSNv2's, but most of its work is done at low resolutions, where it is
//! cheap and sees far; the level enters by the preconditioning of EDM (`kernels/src/network/precondition.rs`). Without norms
//! it treats a pixel alike in images of every size.
//!
//! ```text
//! begin_conv → down.0 ────────────────────── + → up.0 → normalizer, end_conv
//!                 └ mean, shrink.0 → down.1 ─ + → up.1, grow.0 ┘
//!                                       └ mean, shrink.1 → down.2, grow.1 ┘
//! ```

use std::collections::HashMap;
use std::f64::consts::TAU;

use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::embed::Told;

use super::layers::{Layers, embedding_table};
use super::registry::{check_halvings, first_layer, image_of};
use super::{Frame, Network};
use crate::files::safetensors::TensorFile;
use crate::plan::{Activation, Contents, Embed, NetworkOp, PlanBuilder, TensorId};
use crate::{Error, ImageShape, Result};

/// What stands in front of each ELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// InstanceNorm++, whose statistics are of the whole map
    Instance,
    /// Scales and shifts that depend on the level alone: linear in sines and cosines of ln(2·level)/4
    ByLevel,
}

/// Sines, and as many cosines.
const FREQUENCIES: usize = 6;
/// The longest period: twice what ln(2·level)/4 covers from 0.001 to 50, so that what depends on the level need not be periodic.
const PERIOD: f64 = 5.4;
const FREQUENCIES_NAME: &str = "level.frequencies";

/// Widths, blocks, norms, and the images it was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UNet {
    /// Feature maps at the image's resolution, at half of it, at a quarter...
    pub widths: Vec<usize>,
    /// Residual blocks at each resolution, on the way down and on the way up
    pub blocks: usize,
    pub norms: Norms,
    pub image: ImageShape,
}

impl Network for UNet {
    fn describe(&self) -> String {
        let widths: Vec<String> = self.widths.iter().map(usize::to_string).collect();
        let norms = match self.norms {
            Norms::Instance => "",
            Norms::ByLevel => ", no norms",
        };
        format!(
            "U-Net, widths {}, {} blocks each{norms}",
            widths.join(", "),
            self.blocks
        )
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        Frame::EDM.push(plan, self.image, self.halvings(), [x, level, score], |layers, input| {
            layers.told = (self.norms == Norms::ByLevel).then(|| told(layers, level));
            self.layers(layers, input)
        });
    }

    fn tables(&self) -> HashMap<String, Vec<f32>> {
        match self.norms {
            Norms::Instance => HashMap::new(),
            Norms::ByLevel => {
                let frequencies = (1..=FREQUENCIES).map(|k| k as f64 * TAU / PERIOD);
                HashMap::from([(FREQUENCIES_NAME.to_owned(), embedding_table(frequencies))])
            }
        }
    }
}

impl UNet {
    /// The default prior's form: two blocks at each of three resolutions, the widths doubling.
    pub fn of_width(width: usize, image: ImageShape) -> Self {
        Self {
            widths: vec![width, 2 * width, 4 * width],
            blocks: 2,
            norms: Norms::Instance,
            image,
        }
    }

    /// Whether a file that names no network holds one.
    pub(super) fn recognised(file: &TensorFile<'_>) -> bool {
        file.has(&first_of(0, 0))
    }

    /// Widths and blocks are in the shapes.
    pub(super) fn describe_file(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Self> {
        let (_, inputs) = first_layer(file)?;
        // One channel says the level.
        let channels = inputs - 1;
        if channels == 0 {
            let reason = "`begin_conv.weight` takes one channel: the level, and no image";
            return Err(Error::usage(reason));
        }
        let image = image_of(file, image, channels)?;
        let blocks = (0..).take_while(|&j| file.has(&first_of(0, j))).count();
        let widths: Vec<usize> = (0..)
            .map_while(|depth| file.shape(&first_of(depth, 0))?.first().copied())
            .collect();
        if widths.is_empty() {
            let name = first_of(0, 0);
            return Err(Error::usage(format!("tensor `{name}` is missing: not a U-Net of ours")));
        }
        if let Some(narrow) = widths.iter().position(|&width| width < 2) {
            let name = first_of(narrow, 0);
            return Err(Error::usage(format!(
                "`{name}` has too few feature maps: a norm compares two"
            )));
        }
        check_halvings("this U-Net", widths.len() - 1)?;
        let norms = if file.has("normalizer.weight") {
            Norms::ByLevel
        } else {
            Norms::Instance
        };
        if norms == Norms::ByLevel
            && let Some(odd) = widths.iter().position(|width| width % BLOCK != 0)
        {
            let (name, width) = (first_of(odd, 0), widths[odd]);
            return Err(Error::usage(format!(
                "`{name}` has {width} feature maps: without norms they must be multiples of {BLOCK}"
            )));
        }
        Ok(Self {
            widths,
            blocks,
            norms,
            image,
        })
    }

    fn halvings(&self) -> usize {
        self.widths.len() - 1
    }

    /// From the framed input to a map of the image's channels.
    fn layers(&self, layers: &mut Layers<'_>, input: TensorId) -> TensorId {
        let mut h = layers.conv3("begin_conv", input, Activation::None, self.widths[0], 1, true, None);
        let mut passed = Vec::with_capacity(self.widths.len());
        for (depth, &width) in self.widths.iter().enumerate() {
            if let Some(before) = depth.checked_sub(1) {
                let small = layers.mean_pool(h, None);
                let shrink = format!("shrink.{before}");
                h = layers.conv3(&shrink, small, Activation::None, width, 1, true, None);
            }
            h = self.group(layers, &format!("down.{depth}"), h);
            passed.push(h);
        }
        passed.pop();
        for (depth, skip) in passed.into_iter().enumerate().rev() {
            let grow = format!("grow.{depth}");
            let small = layers.conv(&grow, h, Activation::None, self.widths[depth], 1, 1, true, None);
            let sum = layers.resize_add(small, skip);
            h = self.group(layers, &format!("up.{depth}"), sum);
        }
        let norm = layers.norm("normalizer", h);
        layers.conv3("end_conv", h, norm, self.image.channels, 1, true, None)
    }

    fn group(&self, layers: &mut Layers<'_>, name: &str, x: TensorId) -> TensorId {
        (0..self.blocks).fold(x, |x, block| layers.residual(&format!("{name}.{block}"), x, 1))
    }
}

/// What the scales and shifts are told of the level.
fn told(layers: &mut Layers<'_>, level: TensorId) -> TensorId {
    let frequencies = layers.plan.param(FREQUENCIES_NAME.into(), &[2 * FREQUENCIES]);
    let output = layers.plan.temporary(Contents::F32(2 * FREQUENCIES));
    layers.plan.push(NetworkOp::Embed(Embed {
        level,
        told: Told::QuarterLog,
        cosines_first: false,
        frequencies,
        table: None,
        output,
    }));
    output
}

/// The first weight of a block.
fn first_of(depth: usize, block: usize) -> String {
    format!("down.{depth}.{block}.conv1.weight")
}

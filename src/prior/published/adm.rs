//! OpenAI's guided-diffusion `UNetModel` (ADM): `ffhq_10m.pt`, `256x256_diffusion_uncond.pt`, deepinv's `DiffUNet`. The file has no
//! settings: all but heads, their order, the schedule and the size of the images is in names and shapes.

use super::builder::{Builder, Frame, Leaves};
use super::source::Tensors;
use super::{Side, Translation};
use crate::ImageShape;
use crate::prior::units::{Level, Output, Resample, Steps};

const LEAVES: Leaves = Leaves {
    norm1: "in_layers.0",
    conv1: "in_layers.2",
    level: "emb_layers.1",
    norm2: "out_layers.0",
    conv2: "out_layers.3",
    skip: "skip_connection",
    norm: "norm",
    proj: "proj_out",
};

/// Channels of a head in all published files but one.
const HEAD: usize = 64;

struct Model<'a> {
    tensors: &'a dyn Tensors,
    builder: Builder,
}

impl Model<'_> {
    fn has(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some()
    }

    /// What a block makes: rows of its second convolution.
    fn width_of(&self, block: &str) -> Result<usize, String> {
        let name = format!("{block}.{}.weight", LEAVES.conv2);
        let shape = self
            .tensors
            .shape(&name)
            .ok_or_else(|| format!("tensor `{name}` is missing"))?;
        shape
            .first()
            .copied()
            .ok_or_else(|| format!("tensor `{name}` is one number"))
    }

    fn block(&mut self, name: &str, resample: Resample) -> Result<(), String> {
        let width = self.width_of(name)?;
        self.builder.block(name, width, resample, false);
        Ok(())
    }

    /// If there is one of this name. q, k and v of a head stand together, head by head.
    fn attention(&mut self, name: &str) -> Result<bool, String> {
        if !self.has(&format!("{name}.qkv.weight")) {
            return Ok(false);
        }
        let channels = self.builder.channels;
        if !channels.is_multiple_of(HEAD) {
            return Err(format!(
                "`{name}` attends over {channels} channels, not whole heads of {HEAD}"
            ));
        }
        let row = |at: usize| {
            let (part, channel) = (at / channels, at % channels);
            3 * HEAD * (channel / HEAD) + HEAD * part + channel % HEAD
        };
        self.builder.attention(name, channels / HEAD, row);
        Ok(true)
    }
}

pub fn translate(tensors: &dyn Tensors, side: Side) -> Result<Translation, String> {
    let shape = |name: &str| tensors.shape(name).ok_or_else(|| format!("tensor `{name}` is missing"));
    if tensors.shape("label_emb.weight").is_some() {
        return Err(
            "is class-conditional (`label_emb.weight`): a prior that must be told what it sees is not supported".into(),
        );
    }
    let first = shape("input_blocks.0.0.weight")?;
    let [width, channels, 3, 3] = first[..] else {
        return Err(format!(
            "`input_blocks.0.0.weight` has shape {first:?}, not [width, channels, 3, 3]"
        ));
    };
    let time = shape("time_embed.0.weight")?;
    let [hidden, embedding] = time[..] else {
        return Err(format!("`time_embed.0.weight` has shape {time:?}, not a matrix"));
    };
    let mut model = Model {
        tensors,
        builder: Builder::new(LEAVES, channels, 1.0),
    };
    let blocks = (0..1024)
        .take_while(|at| model.has(&format!("output_blocks.{at}.0.in_layers.0.weight")))
        .count();
    // The last output block of a level grows the map, by a block or by a convolution; the finest level's does not.
    let grows = |model: &Model<'_>, at: usize| {
        [1, 2].into_iter().find_map(|part| {
            let name = format!("output_blocks.{at}.{part}");
            let by_block = model.has(&format!("{name}.in_layers.0.weight"));
            (by_block || model.has(&format!("{name}.conv.weight"))).then_some((name, by_block))
        })
    };
    let first_growing = (0..blocks).find(|&at| grows(&model, at).is_some());
    let per_level = first_growing.map_or(blocks, |at| at + 1);
    if blocks == 0 || !blocks.is_multiple_of(per_level) || per_level < 2 {
        return Err(format!(
            "has {blocks} output blocks, of which a level has {per_level}: not this network's"
        ));
    }
    let levels = blocks / per_level;
    let terms = shape("input_blocks.1.0.emb_layers.1.weight")?;
    let scale_shift = terms.first() == Some(&(2 * model.width_of("input_blocks.1.0")?));

    model.builder.level("time_embed.0", "time_embed.2");
    model.builder.conv("input_blocks.0.0", width);
    model.builder.push();
    for at in 1..blocks {
        let name = format!("input_blocks.{at}.0");
        if at.is_multiple_of(per_level) {
            if model.has(&format!("{name}.op.weight")) {
                model.builder.shrink(&format!("{name}.op"), false);
            } else {
                model.block(&name, Resample::Halve)?;
            }
        } else {
            model.block(&name, Resample::Keep)?;
            model.attention(&format!("input_blocks.{at}.1"))?;
        }
        model.builder.push();
    }
    model.block("middle_block.0", Resample::Keep)?;
    model.attention("middle_block.1")?;
    model.block("middle_block.2", Resample::Keep)?;
    for at in 0..blocks {
        model.builder.join()?;
        model.block(&format!("output_blocks.{at}.0"), Resample::Keep)?;
        model.attention(&format!("output_blocks.{at}.1"))?;
        if let Some((name, by_block)) = grows(&model, at) {
            if by_block {
                model.block(&name, Resample::Double)?;
            } else {
                model.builder.grow(&format!("{name}.conv"));
            }
        }
    }
    model.builder.end("out.0", "out.2", channels);
    let outputs = shape("out.2.weight")?.first().copied().unwrap_or_default();
    let notes = &mut model.builder.notes;
    if outputs == 2 * channels {
        notes.push("the learned variance, the second half of the output, is left out".into());
    } else if outputs != channels {
        return Err(format!("makes {outputs} channels of {channels}"));
    }
    let (height, image_width) = match (side, levels) {
        (Some(side), _) => side,
        (None, 6) => {
            notes.push("images of 256×256, from six resolutions".into());
            (256, 256)
        }
        (None, _) => return Err("does not say the size of its images: say their shape".into()),
    };
    notes.push("heads of 64 channels, q, k and v of a head together (legacy order); 1000 linear steps from 1e-4 to 0.02, epsilon".into());
    let mut builder = model.builder;
    builder.ignored = ["sqrt_alphas_cumprod", "sqrt_1m_alphas_cumprod"]
        .map(str::to_owned)
        .to_vec();
    Ok(builder.finish(Frame {
        family: "guided-diffusion's UNetModel (ADM)".into(),
        image: ImageShape::new(channels, height, image_width),
        trained: (levels == 6).then_some((256, 256)),
        output: Output::Epsilon,
        level: Some(Level {
            steps: Some(Steps::LINEAR),
            width: embedding,
            hidden,
            cosines_first: true,
            shift: 0.0,
            scale_shift,
        }),
        groups: 32,
        least_of_group: 1,
        epsilon: 1e-5,
    }))
}

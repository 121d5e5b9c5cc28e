//! EDM's `SongUNet` (DDPM++) and `DhariwalUNet` (ADM) as state dicts: their names carry the resolution, `enc.32x32_block0.conv0.weight`,
//! and so the size of the images, the levels, the blocks and the attention.

use super::builder::{Builder, Frame, Leaves};
use super::source::Tensors;
use super::{Side, Translation};
use crate::ImageShape;
use crate::prior::units::{Level, Output, Resample};

const LEAVES: Leaves = Leaves {
    norm1: "norm0",
    conv1: "conv0",
    level: "affine",
    norm2: "norm1",
    conv2: "conv1",
    skip: "skip",
    norm: "norm2",
    proj: "proj",
};

struct Model<'a> {
    tensors: &'a dyn Tensors,
    builder: Builder,
    /// Heads of 64 channels; else one
    many_heads: bool,
}

impl Model<'_> {
    fn shape(&self, name: &str) -> Result<Vec<usize>, String> {
        self.tensors
            .shape(name)
            .ok_or_else(|| format!("tensor `{name}` is missing"))
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some()
    }

    /// A block, and its attention if it has one. q, k and v of a channel stand together.
    fn block(&mut self, name: &str, resample: Resample) -> Result<(), String> {
        let width = self.shape(&format!("{name}.conv1.weight"))?.first().copied();
        let width = width.ok_or_else(|| format!("`{name}.conv1.weight` is one number"))?;
        let skip = self.has(&format!("{name}.skip.weight"));
        self.builder.block(name, width, resample, skip);
        if self.has(&format!("{name}.qkv.weight")) {
            let heads = if self.many_heads { width / 64 } else { 1 };
            if heads == 0 || !width.is_multiple_of(8 * heads) {
                return Err(format!("`{name}` attends over {width} channels, not whole heads of 64"));
            }
            self.builder.attention(name, heads, |at| 3 * (at % width) + at / width);
        }
        Ok(())
    }
}

pub fn translate(tensors: &dyn Tensors) -> Result<Translation, String> {
    if tensors.shape("map_label.weight").is_some() {
        return Err(
            "is class-conditional (`map_label.weight`): a prior that must be told what it sees is not supported".into(),
        );
    }
    let names = tensors.names();
    if names
        .iter()
        .any(|name| name.contains("_aux_residual") || name == "map_noise.freqs")
    {
        return Err("is EDM's NCSN++, whose filters are not supported: take the vp file".into());
    }
    // Resolutions of the encoder, the finest first.
    let side = |name: &String| name.strip_prefix("enc.")?.split_once('x')?.0.parse::<usize>().ok();
    let mut sides: Vec<usize> = names
        .iter()
        .filter_map(side)
        .filter(|side| (1..=8192).contains(side))
        .collect();
    sides.sort_unstable_by(|a, b| b.cmp(a));
    sides.dedup();
    let &finest = sides.first().ok_or("holds no tensor of an encoder (`enc.…`)")?;
    let many_heads = tensors.shape("out_conv.weight").is_some();
    let factor = if many_heads {
        1.0
    } else {
        std::f32::consts::FRAC_1_SQRT_2
    };
    let mut model = Model {
        tensors,
        builder: Builder::new(LEAVES, 0, factor),
        many_heads,
    };
    let at = |part: &str, side: usize, what: &str| format!("{part}.{side}x{side}_{what}");
    let first = at("enc", finest, "conv");
    let shape = model.shape(&format!("{first}.weight"))?;
    let [width, channels, 3, 3] = shape[..] else {
        return Err(format!(
            "`{first}.weight` has shape {shape:?}, not [width, channels, 3, 3]"
        ));
    };
    let map = model.shape("map_layer0.weight")?;
    let [hidden, embedding] = map[..] else {
        return Err(format!("`map_layer0.weight` has shape {map:?}, not a matrix"));
    };
    model.builder.level("map_layer0", "map_layer1");
    model.builder.conv(&first, width);
    model.builder.push();
    let blocks = |model: &Model<'_>, part: &str, side: usize| {
        (0..256)
            .take_while(|block| model.has(&format!("{}.conv0.weight", at(part, side, &format!("block{block}")))))
            .count()
    };
    for &side in &sides {
        if side != finest {
            model.block(&at("enc", side, "down"), Resample::Halve)?;
            model.builder.push();
        }
        for block in 0..blocks(&model, "enc", side) {
            model.block(&at("enc", side, &format!("block{block}")), Resample::Keep)?;
            model.builder.push();
        }
    }
    for (level, &side) in sides.iter().rev().enumerate() {
        if level == 0 {
            model.block(&at("dec", side, "in0"), Resample::Keep)?;
            model.block(&at("dec", side, "in1"), Resample::Keep)?;
        } else {
            model.block(&at("dec", side, "up"), Resample::Double)?;
        }
        for block in 0..blocks(&model, "dec", side) {
            model.builder.join()?;
            model.block(&at("dec", side, &format!("block{block}")), Resample::Keep)?;
        }
    }
    if many_heads {
        model.builder.end("out_norm", "out_conv", channels);
    } else {
        let (norm, conv) = (at("dec", finest, "aux_norm"), at("dec", finest, "aux_conv"));
        model.builder.end(&norm, &conv, channels);
    }
    let mut builder = model.builder;
    builder.ignored = names
        .iter()
        .filter(|name| name.ends_with("resample_filter") || *name == "map_augment.weight")
        .cloned()
        .collect();
    builder
        .notes
        .push("EDM's preconditioning with data of deviation ½".into());
    let family = if many_heads {
        "EDM's DhariwalUNet (ADM)"
    } else {
        "EDM's SongUNet (DDPM++)"
    };
    Ok(builder.finish(Frame {
        family: family.into(),
        image: ImageShape::new(channels, finest, finest),
        trained: Some((finest, finest)),
        output: Output::Edm,
        level: Some(Level {
            steps: None,
            width: embedding,
            hidden,
            cosines_first: many_heads,
            shift: if many_heads { 0.0 } else { 1.0 },
            scale_shift: many_heads,
        }),
        groups: 32,
        least_of_group: 4,
        epsilon: if many_heads { 1e-5 } else { 1e-6 },
    }))
}

/// The same on images of another size: the names keep that of the training.
pub fn resized(mut translation: Translation, side: Side) -> Translation {
    if let Some((height, width)) = side {
        let channels = translation.network.channels;
        translation.network.image = ImageShape::new(channels, height, width);
    }
    translation
}

//! The network of diffusers' `UNet2DModel` under the names of DDIM's code: its CelebA, and the CelebA-HQ and LSUN files of DDRM. The file
//! has no settings: widths and attention are in the tensors, the rest is the same in all of them.

use super::builder::{Builder, Frame, Leaves};
use super::source::Tensors;
use super::{Side, Translation};
use crate::ImageShape;
use crate::prior::units::{Level, Output, Resample, Steps};

const LEAVES: Leaves = Leaves {
    norm1: "norm1",
    conv1: "conv1",
    level: "temb_proj",
    norm2: "norm2",
    conv2: "conv2",
    skip: "nin_shortcut",
    norm: "norm",
    proj: "proj_out",
};

pub fn translate(tensors: &dyn Tensors, side: Side) -> Result<Translation, String> {
    let has = |name: String| tensors.shape(&name).is_some();
    let first = tensors
        .shape("conv_in.weight")
        .ok_or("tensor `conv_in.weight` is missing")?;
    let [width, channels, 3, 3] = first[..] else {
        return Err(format!(
            "`conv_in.weight` has shape {first:?}, not [width, channels, 3, 3]"
        ));
    };
    let block = |level: usize, at: usize| format!("down.{level}.block.{at}");
    let levels = (0..16)
        .take_while(|&level| has(format!("{}.conv1.weight", block(level, 0))))
        .count();
    let layers = (0..64)
        .take_while(|&at| has(format!("{}.conv1.weight", block(0, at))))
        .count();
    let attends = |side: &str, level: usize| has(format!("{side}.{level}.attn.0.q.weight"));
    let wide = |level: usize| {
        let shape = tensors.shape(&format!("{}.conv1.weight", block(level, 0)));
        shape.and_then(|shape| shape.first().copied()).unwrap_or_default()
    };
    if levels == 0 {
        return Err("tensor `down.0.block.0.conv1.weight` is missing".into());
    }
    let usual = [(4, 32), (5, 64), (6, 256)].into_iter().find(|&(of, _)| of == levels);
    let usual = usual.map(|(_, size)| (size, size));
    let (height, image_width) = side
        .or(usual)
        .ok_or("does not say the size of its images: say their shape")?;
    let mut builder = Builder::new(LEAVES, channels, 1.0);
    let attention = |builder: &mut Builder, name: &str| builder.attention_of(name, 1, ["q", "k", "v"], "proj_out");
    builder.level("temb.dense.0", "temb.dense.1");
    builder.conv("conv_in", width);
    builder.push();
    for level in 0..levels {
        for at in 0..layers {
            builder.block(&block(level, at), wide(level), Resample::Keep, false);
            if attends("down", level) {
                attention(&mut builder, &format!("down.{level}.attn.{at}"));
            }
            builder.push();
        }
        if level + 1 < levels {
            builder.shrink(&format!("down.{level}.downsample.conv"), true);
            builder.push();
        }
    }
    builder.block("mid.block_1", wide(levels - 1), Resample::Keep, false);
    attention(&mut builder, "mid.attn_1");
    builder.block("mid.block_2", wide(levels - 1), Resample::Keep, false);
    // Here `up.0` is the finest.
    for level in (0..levels).rev() {
        for at in 0..=layers {
            builder.join()?;
            builder.block(&format!("up.{level}.block.{at}"), wide(level), Resample::Keep, false);
            if attends("up", level) {
                attention(&mut builder, &format!("up.{level}.attn.{at}"));
            }
        }
        if level > 0 {
            builder.grow(&format!("up.{level}.upsample.conv"));
        }
    }
    builder.end("norm_out", "conv_out", channels);
    if side.is_none() {
        builder.notes.push(format!(
            "images of {height}×{image_width}, from the number of resolutions"
        ));
    }
    builder
        .notes
        .push("1000 linear steps from 1e-4 to 0.02, epsilon, one head, as all published files of this code".into());
    Ok(builder.finish(Frame {
        family: "DDIM's U-Net".into(),
        image: ImageShape::new(channels, height, image_width),
        trained: usual,
        output: Output::Epsilon,
        level: Some(Level {
            steps: Some(Steps::LINEAR),
            width,
            hidden: 4 * width,
            cosines_first: false,
            shift: 1.0,
            scale_shift: false,
        }),
        groups: 32,
        least_of_group: 1,
        epsilon: 1e-6,
    }))
}

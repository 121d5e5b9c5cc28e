//! DRUNet (`UNetRes` of DPIR and deepinv): a denoiser without norms or biases that is told the level in a channel of its input. It was
//! trained on little noise, sigma up to 50/255: beyond that its scores are nobody's promise.

use super::builder::{Arrangement, Builder, Frame, Leaves, Part};
use super::source::Tensors;
use super::{Side, Translation};
use crate::ImageShape;
use crate::prior::units::{Output, Unit};

/// Its blocks have no such layers.
const LEAVES: Leaves = Leaves {
    norm1: "",
    conv1: "",
    level: "",
    norm2: "",
    conv2: "",
    skip: "",
    norm: "",
    proj: "",
};

pub fn translate(tensors: &dyn Tensors, side: Side) -> Result<Translation, String> {
    let shape = |name: &str| tensors.shape(name).ok_or_else(|| format!("tensor `{name}` is missing"));
    let head = shape("m_head.weight")?;
    let [width, inputs @ 2..=257, 3, 3] = head[..] else {
        return Err(format!(
            "`m_head.weight` has shape {head:?}, not [width, channels + 1, 3, 3]"
        ));
    };
    let channels = inputs - 1;
    let (height, image_width) = side.ok_or("works on images of any size: say their shape")?;
    let blocks = (0..64)
        .take_while(|at| tensors.shape(&format!("m_body.{at}.res.0.weight")).is_some())
        .count();
    let mut builder = Builder::new(LEAVES, channels, 1.0);
    let part = |name: &str, arrangement: Arrangement| {
        vec![Part {
            arrangement,
            ..Part::new(name.to_owned())
        }]
    };
    let conv = |builder: &mut Builder, name: &str, width: usize| {
        let weight = format!("{name}.weight");
        builder.parts(&weight, part(&weight, Arrangement::Rows(None)));
        let unit = Unit::Conv {
            name: name.to_owned(),
            width,
            bias: false,
        };
        builder.unit(unit, width);
    };
    let plain = |builder: &mut Builder, name: String| {
        for (to, from) in [("conv1", 0), ("conv2", 2)] {
            let from = part(&format!("{name}.res.{from}.weight"), Arrangement::Rows(None));
            builder.parts(&format!("{name}.{to}.weight"), from);
        }
        let channels = builder.channels;
        builder.unit(Unit::Plain { name }, channels);
    };
    conv(&mut builder, "m_head", width);
    builder.push();
    for level in 1..=3 {
        for at in 0..blocks {
            plain(&mut builder, format!("m_down{level}.{at}"));
        }
        let name = format!("m_down{level}.{blocks}");
        let weight = format!("{name}.weight");
        let wide = shape(&weight)?.first().copied().unwrap_or_default();
        builder.parts(&weight, part(&weight, Arrangement::Unfolded));
        builder.unit(Unit::Unfold { name, width: wide }, wide);
        builder.push();
    }
    for at in 0..blocks {
        plain(&mut builder, format!("m_body.{at}"));
    }
    for level in (1..=3).rev() {
        let channels = builder.channels;
        builder.unit(Unit::Add, channels);
        let name = format!("m_up{level}.0");
        let weight = format!("{name}.weight");
        let wide = shape(&weight)?.get(1).copied().unwrap_or_default();
        builder.parts(&weight, part(&weight, Arrangement::Folded));
        builder.unit(Unit::Fold { name, width: wide }, wide);
        for at in 1..=blocks {
            plain(&mut builder, format!("m_up{level}.{at}"));
        }
    }
    let wide = builder.channels;
    builder.unit(Unit::Add, wide);
    conv(&mut builder, "m_tail", channels);
    builder.notes.push(
        "trained on noise of sigma up to 50/255 at most: for turbo's last iterations, not for samples from noise"
            .into(),
    );
    Ok(builder.finish(Frame {
        family: "DRUNet".into(),
        image: ImageShape::new(channels, height, image_width),
        trained: None,
        output: Output::Denoised,
        level: None,
        groups: 1,
        least_of_group: 1,
        epsilon: 1e-5,
    }))
}

//! A U-Net that knows the noise level. Its blocks are NCSNv2's, but most of its work is done at low resolutions, where it is
//! cheap and sees far; the level enters by the preconditioning of EDM (`kernels/src/network/precondition.rs`).
//!
//! ```text
//! begin_conv → down.0 ────────────────────── + → up.0 → normalizer, end_conv
//!                 └ mean, shrink.0 → down.1 ─ + → up.1, grow.0 ┘
//!                                       └ mean, shrink.1 → down.2, grow.1 ┘
//! ```

use super::Network;
use super::layers::Layers;
use crate::ImageShape;
use crate::plan::{Activation, NetworkOp, PlanBuilder, TensorId};

/// Widths, blocks, and the images it was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UNet {
    /// Feature maps at the image's resolution, at half of it, at a quarter...
    pub widths: Vec<usize>,
    /// Residual blocks at each resolution, on the way down and on the way up
    pub blocks: usize,
    pub image: ImageShape,
}

impl Network for UNet {
    fn describe(&self) -> String {
        let widths: Vec<String> = self.widths.iter().map(usize::to_string).collect();
        format!("U-Net, widths {}, {} blocks each", widths.join(", "), self.blocks)
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        let image = self.image;
        let mut layers = Layers { plan };
        let input = layers.map(image.channels + 1, image.height, image.width);
        layers.plan.push(NetworkOp::LoadScaled {
            x,
            level,
            output: input,
        });
        let mut h = layers.conv3("begin_conv", input, Activation::None, self.widths[0], 1, true, None);
        let mut passed = Vec::with_capacity(self.widths.len());
        for (depth, &width) in self.widths.iter().enumerate() {
            if let Some(before) = depth.checked_sub(1) {
                let small = layers.mean_pool(h, None);
                h = layers.conv3(
                    &format!("shrink.{before}"),
                    small,
                    Activation::None,
                    width,
                    1,
                    true,
                    None,
                );
            }
            h = self.group(&mut layers, &format!("down.{depth}"), h);
            passed.push(h);
        }
        passed.pop();
        for (depth, skip) in passed.into_iter().enumerate().rev() {
            let grow = format!("grow.{depth}");
            let small = layers.conv(&grow, h, Activation::None, self.widths[depth], 1, 1, true, None);
            let sum = layers.resize_add(small, skip);
            h = self.group(&mut layers, &format!("up.{depth}"), sum);
        }
        let norm = layers.norm("normalizer", h);
        let output = layers.conv3("end_conv", h, norm, image.channels, 1, true, None);
        layers.plan.push(NetworkOp::StoreMixed {
            x,
            input: output,
            level,
            score,
        });
    }
}

impl UNet {
    /// Of the shipped priors' kind: two blocks at three resolutions, the widths doubling.
    pub fn of_width(width: usize, image: ImageShape) -> Self {
        Self {
            widths: vec![width, 2 * width, 4 * width],
            blocks: 2,
            image,
        }
    }

    fn group(&self, layers: &mut Layers<'_>, name: &str, x: TensorId) -> TensorId {
        (0..self.blocks).fold(x, |x, block| layers.residual(&format!("{name}.{block}"), x, 1))
    }
}

//! NCSNv2, written down once: residual stages, refine blocks, one norm, two end convolutions; and its deeper forms for larger
//! images.
//!
//! The score depends on the noise level only through the division by beta at the very end, so the same weights serve
//! any list of levels inside the trained range.

use super::layers::Layers;
use super::registry::{first_layer, image_of};
use super::{Frame, Network};
use crate::files::safetensors::TensorFile;
use crate::plan::{Activation, NetworkOp, PlanBuilder, TensorId};
use crate::{ImageShape, Result};

/// How many stages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Four stages, one of which halves: MNIST, CIFAR-10, CelebA
    Plain,
    /// Five, two of which halve: LSUN
    Deeper,
    /// Six, three of which halve: FFHQ
    Deepest,
}

impl Depth {
    /// By the names of the stages that the shallower networks lack.
    pub(super) fn of(has: impl Fn(&str) -> bool) -> Self {
        if has("res31.0.conv1.weight") {
            Self::Deepest
        } else if has("res5.0.conv1.weight") {
            Self::Deeper
        } else {
            Self::Plain
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "NCSNv2",
            Self::Deeper => "NCSNv2Deeper",
            Self::Deepest => "NCSNv2Deepest",
        }
    }

    pub(super) fn halvings(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Deeper => 2,
            Self::Deepest => 3,
        }
    }
}

/// The width of the network, its depth, and the images it was trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ncsnv2 {
    /// Feature maps of the first stage; the later ones have twice as many, or four times.
    pub ngf: usize,
    pub depth: Depth,
    pub image: ImageShape,
}

impl Ncsnv2 {
    /// Of four stages.
    pub const fn new(ngf: usize, image: ImageShape) -> Self {
        let depth = Depth::Plain;
        Self { ngf, depth, image }
    }

    /// Width and depth are in the shapes and names.
    pub(super) fn describe_file(file: &TensorFile<'_>, image: Option<ImageShape>) -> Result<Self> {
        let (ngf, channels) = first_layer(file)?;
        let image = image_of(file, image, channels)?;
        let depth = Depth::of(|name| file.has(name));
        Ok(Self { ngf, depth, image })
    }
}

impl Network for Ncsnv2 {
    fn describe(&self) -> String {
        format!("{}, ngf {}", self.depth.name(), self.ngf)
    }

    fn image(&self) -> ImageShape {
        self.image
    }

    fn push(&self, plan: &mut PlanBuilder, x: TensorId, level: TensorId, score: TensorId) {
        Frame::Ncsnv2.push(
            plan,
            self.image,
            self.depth.halvings(),
            [x, level, score],
            |layers, input| layers.ncsnv2(self, input),
        );
    }
}

/// How a residual block changes the resolution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resample {
    /// Same size, same channels.
    Keep,
    /// Mean of 2×2 pixels after the second convolution and after the shortcut's 1×1 convolution.
    Halve,
    /// Same size; a dilated 3×3 convolution as shortcut stands where the other stages halve.
    Dilate,
}

/// The building blocks of this network.
impl Layers<'_> {
    fn ncsnv2(&mut self, network: &Ncsnv2, input: TensorId) -> TensorId {
        let ngf = network.ngf;
        let begin = self.conv3("begin_conv", input, Activation::None, ngf, 1, true, None);
        let layer1 = self.stage("res1", begin, ngf, 1, Resample::Keep);
        let layer2 = self.stage("res2", layer1, 2 * ngf, 1, Resample::Halve);
        let end = match network.depth {
            Depth::Plain => {
                let layer3 = self.stage("res3", layer2, 2 * ngf, 2, Resample::Dilate);
                let layer4 = self.stage("res4", layer3, 2 * ngf, 4, Resample::Dilate);
                let ref1 = self.refine("refine1", &[layer4], 2 * ngf, 1);
                let ref2 = self.refine("refine2", &[layer3, ref1], 2 * ngf, 1);
                let ref3 = self.refine("refine3", &[layer2, ref2], ngf, 1);
                self.refine("refine4", &[layer1, ref3], ngf, 3)
            }
            Depth::Deeper | Depth::Deepest => {
                let layer3 = self.stage("res3", layer2, 2 * ngf, 1, Resample::Halve);
                let layer31 = match network.depth {
                    Depth::Deepest => Some(self.stage("res31", layer3, 2 * ngf, 1, Resample::Halve)),
                    _ => None,
                };
                let layer4 = self.stage("res4", layer31.unwrap_or(layer3), 4 * ngf, 2, Resample::Dilate);
                let layer5 = self.stage("res5", layer4, 4 * ngf, 4, Resample::Dilate);
                let ref1 = self.refine("refine1", &[layer5], 4 * ngf, 1);
                let mut fused = self.refine("refine2", &[layer4, ref1], 2 * ngf, 1);
                if let Some(layer31) = layer31 {
                    fused = self.refine("refine31", &[layer31, fused], 2 * ngf, 1);
                }
                let ref3 = self.refine("refine3", &[layer3, fused], 2 * ngf, 1);
                let ref4 = self.refine("refine4", &[layer2, ref3], ngf, 1);
                self.refine("refine5", &[layer1, ref4], ngf, 3)
            }
        };
        let norm = self.norm("normalizer", end);
        self.conv3("end_conv", end, norm, network.image.channels, 1, true, None)
    }

    /// Two residual blocks; the first one may change the resolution.
    fn stage(&mut self, name: &str, x: TensorId, channels: usize, dilation: usize, first: Resample) -> TensorId {
        let x = match first {
            Resample::Keep => self.residual(&format!("{name}.0"), x, dilation),
            Resample::Halve => self.halving(&format!("{name}.0"), x, channels),
            Resample::Dilate => self.dilating(&format!("{name}.0"), x, channels, dilation),
        };
        self.residual(&format!("{name}.1"), x, dilation)
    }

    fn halving(&mut self, name: &str, x: TensorId, channels: usize) -> TensorId {
        let (h, norm2) = self.first_half(name, x, 1);
        let full = self.conv3(&format!("{name}.conv2.conv"), h, norm2, channels, 1, true, None);
        // The mean and the 1×1 convolution commute, bias included: pooling first does a quarter of the work.
        let pooled = self.mean_pool(x, None);
        let shortcut = format!("{name}.shortcut.conv");
        let by = self.conv(&shortcut, pooled, Activation::None, channels, 1, 1, true, None);
        self.mean_pool(full, Some(by))
    }

    fn dilating(&mut self, name: &str, x: TensorId, channels: usize, dilation: usize) -> TensorId {
        let (h, norm2) = self.first_half(name, x, dilation);
        let shortcut = format!("{name}.shortcut");
        let by = self.conv3(&shortcut, x, Activation::None, channels, dilation, true, None);
        self.conv3(&format!("{name}.conv2"), h, norm2, channels, dilation, true, Some(by))
    }

    /// RCU of each input, their fusion at the first input's size, chained residual pooling, and the output RCU.
    fn refine(&mut self, name: &str, inputs: &[TensorId], channels: usize, output_blocks: usize) -> TensorId {
        let mut adapted = Vec::with_capacity(inputs.len());
        for (i, &x) in inputs.iter().enumerate() {
            adapted.push(self.rcu(&format!("{name}.adapt_convs.{i}"), x, 2));
        }
        let fused = match adapted[..] {
            [only] => only,
            _ => self.fuse(&format!("{name}.msf"), &adapted, channels),
        };
        let pooled = self.crp(&format!("{name}.crp"), fused);
        self.rcu(&format!("{name}.output_convs"), pooled, output_blocks)
    }

    /// Residual convolution unit: in each block, twice ELU and a convolution without bias, plus the block's input.
    fn rcu(&mut self, name: &str, x: TensorId, blocks: usize) -> TensorId {
        let (channels, ..) = self.plan.contents(x).feature();
        let mut x = x;
        for block in 1..=blocks {
            let conv = |stage: usize| format!("{name}.{block}_{stage}_conv");
            let h = self.conv3(&conv(1), x, Activation::Elu, channels, 1, false, None);
            x = self.conv3(&conv(2), h, Activation::Elu, channels, 1, false, Some(x));
        }
        x
    }

    /// Multi-resolution fusion: a convolution of each input, resized to the first input's size, summed.
    fn fuse(&mut self, name: &str, inputs: &[TensorId], channels: usize) -> TensorId {
        let (_, height, width) = self.plan.contents(inputs[0]).feature();
        let mut sum = None;
        for (i, &x) in inputs.iter().enumerate() {
            let conv = format!("{name}.convs.{i}");
            let (_, h, w) = self.plan.contents(x).feature();
            sum = Some(if (h, w) == (height, width) {
                // A resize to the same size is the identity.
                self.conv3(&conv, x, Activation::None, channels, 1, true, sum)
            } else {
                let small = self.conv3(&conv, x, Activation::None, channels, 1, true, None);
                let output = self.map(channels, height, width);
                self.plan.push(NetworkOp::ResizeAdd {
                    input: small,
                    addend: sum,
                    output,
                });
                output
            });
        }
        sum.expect("a fusion has inputs")
    }

    /// Chained residual pooling: ELU, then twice a 5×5 maximum and a convolution, each stage added to the sum.
    fn crp(&mut self, name: &str, x: TensorId) -> TensorId {
        let (channels, height, width) = self.plan.contents(x).feature();
        let mut sum = self.map(channels, height, width);
        self.plan.push(NetworkOp::Elu { input: x, output: sum });
        let mut path = sum;
        for stage in 0..2 {
            let pooled = self.map(channels, height, width);
            self.plan.push(NetworkOp::MaxPool {
                input: path,
                output: pooled,
            });
            let conv = format!("{name}.convs.{stage}");
            if stage == 0 {
                path = self.conv3(&conv, pooled, Activation::None, channels, 1, false, None);
                sum = self.resize_add(path, sum);
            } else {
                sum = self.conv3(&conv, pooled, Activation::None, channels, 1, false, Some(sum));
            }
        }
        sum
    }
}

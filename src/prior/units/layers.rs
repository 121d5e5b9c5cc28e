//! The units as ops of a plan.

use qcs_kernels::network::group_norm::Terms;
use qcs_kernels::network::resample::Resampling;

use super::{Level, Resample, Unit, UnitNetwork};
use crate::plan::{Activation, Contents, Embed, GroupNorm, LevelTerms, NetworkOp, TensorId};
use crate::prior::layers::Layers;

/// The terms of the level, of which each block takes the next ones.
struct LevelVector {
    kind: Terms,
    tensor: TensorId,
    next: usize,
}

impl LevelVector {
    fn take(&mut self, width: usize) -> LevelTerms {
        let terms = LevelTerms {
            kind: self.kind,
            tensor: self.tensor,
            first: self.next,
        };
        self.next += match self.kind {
            Terms::Added => width,
            Terms::ScaleShift => 2 * width,
        };
        terms
    }
}

impl Layers<'_> {
    /// From the framed input to a map of the image's channels.
    pub(super) fn units(&mut self, network: &UnitNetwork, input: TensorId, level: TensorId) -> TensorId {
        let mut vector = network
            .level
            .as_ref()
            .map(|described| self.level(network, described, level));
        let (mut h, mut stack) = (input, Vec::new());
        let pop = |stack: &mut Vec<TensorId>| stack.pop().expect("checked when the list was made");
        for unit in &network.units {
            let (channels, ..) = self.plan.contents(h).feature();
            h = match unit {
                Unit::Conv { name, width, bias } => self.conv3(name, h, Activation::None, *width, 1, *bias, None),
                Unit::Push => {
                    stack.push(h);
                    h
                }
                Unit::Join => self.join(h, pop(&mut stack)),
                Unit::Add => self.resize_add(h, pop(&mut stack)),
                Unit::Block {
                    name,
                    width,
                    resample,
                    skip,
                } => {
                    let terms = vector.as_mut().map(|vector| vector.take(*width));
                    self.block(network, name, (*width, *resample, *skip), h, terms)
                }
                Unit::Plain { name } => {
                    let first = self.conv3(&format!("{name}.conv1"), h, Activation::None, channels, 1, false, None);
                    let second = format!("{name}.conv2");
                    self.conv3(&second, first, Activation::Relu, channels, 1, false, Some(h))
                }
                Unit::Attention { name, heads } => self.attention(network, name, *heads, h),
                Unit::Shrink { name, one_sided } => {
                    let full = self.conv3(name, h, Activation::None, channels, 1, true, None);
                    let how = if *one_sided {
                        Resampling::Last
                    } else {
                        Resampling::First
                    };
                    self.resample(full, Activation::None, how, 1.0)
                }
                Unit::Grow { name } => {
                    let large = self.resample(h, Activation::None, Resampling::Nearest, 1.0);
                    self.conv3(name, large, Activation::None, channels, 1, true, None)
                }
                Unit::Unfold { name, width } => {
                    let unfolded = self.resample(h, Activation::None, Resampling::Unfold, 1.0);
                    self.conv(name, unfolded, Activation::None, *width, 1, 1, false, None)
                }
                Unit::Fold { name, width } => {
                    let folded = self.conv(name, h, Activation::None, 4 * width, 1, 1, false, None);
                    self.resample(folded, Activation::None, Resampling::Fold, 1.0)
                }
                Unit::End { norm, name } => {
                    let norm = Activation::NormSilu(self.group_norm(network, norm, h, None));
                    self.conv3(name, h, norm, network.channels, 1, true, None)
                }
            };
        }
        h
    }

    /// From the level to the terms of all blocks.
    fn level(&mut self, network: &UnitNetwork, described: &Level, level: TensorId) -> LevelVector {
        let frequencies = self
            .plan
            .param(UnitNetwork::FREQUENCIES.into(), &[2 * (described.width / 2)]);
        let table = described
            .steps
            .as_ref()
            .map(|steps| self.plan.param(UnitNetwork::STEPS.into(), &[2 * steps.count]));
        let output = self.plan.temporary(Contents::F32(described.width));
        self.plan.push(Embed {
            level,
            told: described.told(),
            cosines_first: described.cosines_first,
            frequencies,
            table,
            output,
        });
        let first = self.dense("level.0", output, described.hidden, true);
        let second = self.dense("level.1", first, described.hidden, true);
        LevelVector {
            kind: if described.scale_shift {
                Terms::ScaleShift
            } else {
                Terms::Added
            },
            tensor: self.dense("level.terms", second, network.terms(), false),
            next: 0,
        }
    }

    fn block(
        &mut self,
        network: &UnitNetwork,
        name: &str,
        (width, resample, skip): (usize, Resample, bool),
        x: TensorId,
        terms: Option<LevelTerms>,
    ) -> TensorId {
        let how = match resample {
            Resample::Keep => Resampling::Keep,
            Resample::Halve => Resampling::Mean,
            Resample::Double => Resampling::Nearest,
        };
        let norm1 = Activation::NormSilu(self.group_norm(network, &format!("{name}.norm1"), x, None));
        let (input, activation, x) = match resample {
            Resample::Keep => (x, norm1, x),
            _ => (
                self.resample(x, norm1, how, 1.0),
                Activation::None,
                self.resample(x, Activation::None, how, 1.0),
            ),
        };
        let h = self.conv3(&format!("{name}.conv1"), input, activation, width, 1, true, None);
        let norm2 = Activation::NormSilu(self.group_norm(network, &format!("{name}.norm2"), h, terms));
        // A factor of the sum is in the weights already, that of the plain input is not.
        let by = if skip {
            self.conv(&format!("{name}.skip"), x, Activation::None, width, 1, 1, true, None)
        } else {
            self.scaled(network, x)
        };
        self.conv3(&format!("{name}.conv2"), h, norm2, width, 1, true, Some(by))
    }

    fn attention(&mut self, network: &UnitNetwork, name: &str, heads: usize, x: TensorId) -> TensorId {
        let (channels, height, width) = self.plan.contents(x).feature();
        let norm = Activation::Norm(self.group_norm(network, &format!("{name}.norm"), x, None));
        let qkv = self.conv(&format!("{name}.qkv"), x, norm, 3 * channels, 1, 1, true, None);
        let output = self.map(channels, height, width);
        self.plan.push(NetworkOp::Attention {
            input: qkv,
            heads,
            output,
        });
        let by = self.scaled(network, x);
        let proj = format!("{name}.proj");
        self.conv(&proj, output, Activation::None, channels, 1, 1, true, Some(by))
    }

    /// Times the factor of sums.
    fn scaled(&mut self, network: &UnitNetwork, x: TensorId) -> TensorId {
        if network.factor == 1.0 {
            return x;
        }
        self.resample(x, Activation::None, Resampling::Keep, network.factor)
    }

    /// Scales and shifts of a norm, left to whoever reads `x` to apply.
    fn group_norm(&mut self, network: &UnitNetwork, name: &str, x: TensorId, terms: Option<LevelTerms>) -> TensorId {
        let (channels, ..) = self.plan.contents(x).feature();
        let gamma = self.plan.param(format!("{name}.weight"), &[channels]);
        let beta = self.plan.param(format!("{name}.bias"), &[channels]);
        let padded = channels.next_multiple_of(self.plan.channel_block());
        let output = self.plan.temporary(Contents::F32(2 * padded));
        self.plan.push(NetworkOp::GroupNorm(GroupNorm {
            input: x,
            statistics: None,
            gamma,
            beta,
            groups: network.groups_of(channels),
            epsilon: network.epsilon,
            terms,
            output,
        }));
        output
    }

    fn join(&mut self, first: TensorId, second: TensorId) -> TensorId {
        let (channels, height, width) = self.plan.contents(first).feature();
        let (more, ..) = self.plan.contents(second).feature();
        let output = self.map(channels + more, height, width);
        self.plan.push(NetworkOp::Concat { first, second, output });
        output
    }

    fn resample(&mut self, input: TensorId, activation: Activation, how: Resampling, factor: f32) -> TensorId {
        let (channels, height, width) = how.output(self.plan.contents(input).feature());
        let output = self.map(channels, height, width);
        self.plan.push(NetworkOp::Resample {
            input,
            activation,
            how,
            factor,
            output,
        });
        output
    }
}

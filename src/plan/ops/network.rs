//! The score network: feature maps in, feature maps out.

use qcs_kernels::network::activation::Function;
use qcs_kernels::network::embed::Told;
use qcs_kernels::network::group_norm::Terms;
use qcs_kernels::network::precondition::Parametrisation;
use qcs_kernels::network::resample::Resampling;

use super::{Operands, Packing};
use crate::plan::{ParamId, Plan, TensorId};

/// What happens to an input on its way into a convolution, so that no pass over memory is spent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Elu,
    /// elu(scale·x + shift), with the coefficients of [`NetworkOp::NormCoefficients`] per image and channel
    NormElu(TensorId),
    /// silu(scale·x + shift), with those of [`NetworkOp::GroupNorm`]
    NormSilu(TensorId),
    /// scale·x + shift
    Norm(TensorId),
    Relu,
}

impl Activation {
    /// What a value passes behind its norm.
    pub fn function(self) -> Function {
        match self {
            Self::None | Self::Norm(_) => Function::Identity,
            Self::Elu | Self::NormElu(_) => Function::Elu,
            Self::NormSilu(_) => Function::Silu,
            Self::Relu => Function::Relu,
        }
    }

    /// The scales and shifts of the norm, if there is one.
    pub fn coefficients(self) -> Option<TensorId> {
        match self {
            Self::NormElu(tensor) | Self::NormSilu(tensor) | Self::Norm(tensor) => Some(tensor),
            Self::None | Self::Elu | Self::Relu => None,
        }
    }
}

/// GroupNorm as one scale and one shift per image and channel, `[2, channels]`, padded to whole blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNorm {
    pub input: TensorId,
    /// What the convolution that wrote the input left of it
    pub statistics: Option<TensorId>,
    pub gamma: ParamId,
    pub beta: ParamId,
    /// How many groups; they divide the channels
    pub groups: usize,
    pub epsilon: f64,
    /// What the level makes of the channels
    pub terms: Option<LevelTerms>,
    pub output: TensorId,
}

/// A run of numbers per state by which the level enters a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelTerms {
    pub kind: Terms,
    /// Where they are, with those of other norms
    pub tensor: TensorId,
    pub first: usize,
}

/// A 3×3 or 1×1 convolution, stride 1, zero padding that keeps the size (applied after the activation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    pub input: TensorId,
    pub activation: Activation,
    pub weight: ParamId,
    pub bias: Option<ParamId>,
    /// Added to the result.
    pub residual: Option<TensorId>,
    pub output: TensorId,
    pub kernel: usize,
    pub dilation: usize,
    /// Statistics of the output for the norm that follows, where the target has a use for them.
    pub statistics: Option<TensorId>,
    /// The activated input as the target multiplies it, where the convolution before left it; then `input` is not read.
    pub activated: Option<TensorId>,
    /// The same of the output, for a convolution that follows.
    pub leaves: Option<Activated>,
}

/// A feature map as the target multiplies it, activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activated {
    pub tensor: TensorId,
    /// [`Activation::None`] or [`Activation::Elu`]
    pub activation: Activation,
}

/// Sines and cosines of the number that stands for a state's level. Tables hold each number as two whose sum it is.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    pub level: TensorId,
    pub told: Told,
    pub cosines_first: bool,
    pub frequencies: ParamId,
    /// ln sigma' of every step, where the level is told as one
    pub table: Option<ParamId>,
    pub output: TensorId,
}

/// An op of the network.
#[derive(Clone, Copy, Debug)]
pub enum NetworkOp {
    /// States of another height and width, continued by reflection or cut: `[planes, height, width]` each
    Reflect {
        input: TensorId,
        from: (usize, usize),
        to: (usize, usize),
        output: TensorId,
    },
    /// 2x − 1, from the state to a feature map
    LoadImage {
        x: TensorId,
        output: TensorId,
    },
    /// The same, scaled for the noise level of each state; one more channel than `x` has says the level
    LoadScaled {
        x: TensorId,
        level: TensorId,
        kind: Parametrisation,
        output: TensorId,
    },
    Conv(Conv),
    /// InstanceNorm++ as one scale and one shift per image and channel: `[2, channels]`, padded to whole blocks
    NormCoefficients {
        input: TensorId,
        /// What the convolution that wrote the input left of it
        statistics: Option<TensorId>,
        alpha: ParamId,
        gamma: ParamId,
        beta: ParamId,
        output: TensorId,
    },
    GroupNorm(GroupNorm),
    Elu {
        input: TensorId,
        output: TensorId,
    },
    /// The activated map at another resolution, or cut otherwise, times `factor`
    Resample {
        input: TensorId,
        activation: Activation,
        how: Resampling,
        factor: f32,
        output: TensorId,
    },
    /// Two maps as one, the channels of the first, whole blocks of them, in front
    Concat {
        first: TensorId,
        second: TensorId,
        output: TensorId,
    },
    /// softmax(qᵀk/√d)·v over pixels, of a map that holds q, k and v of all heads one after the other
    Attention {
        input: TensorId,
        heads: usize,
        output: TensorId,
    },
    Embed(Embed),
    /// A dense layer on a vector per state
    Dense {
        input: TensorId,
        weight: ParamId,
        bias: ParamId,
        /// Whether the result passes SiLU
        silu: bool,
        output: TensorId,
    },
    /// 5×5 maximum, stride 1, same size
    MaxPool {
        input: TensorId,
        output: TensorId,
    },
    /// 2×2 mean, stride 2, plus `residual`
    MeanPool {
        input: TensorId,
        residual: Option<TensorId>,
        output: TensorId,
    },
    /// Bilinear resize with aligned corners to the output's size, plus `addend`
    ResizeAdd {
        input: TensorId,
        addend: Option<TensorId>,
        output: TensorId,
    },
    /// The feature map divided by the noise level of its state, as a state
    StoreScore {
        input: TensorId,
        level: TensorId,
        score: TensorId,
    },
    /// The score by a function of the caller's, on the host
    CallOut {
        x: TensorId,
        level: TensorId,
        score: TensorId,
    },
    /// The score of a network behind [`NetworkOp::LoadScaled`], from its output and its `x`
    StoreMixed {
        x: TensorId,
        input: TensorId,
        level: TensorId,
        kind: Parametrisation,
        score: TensorId,
    },
}

impl NetworkOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reflect { .. } => "reflect",
            Self::LoadImage { .. } => "load_image",
            Self::LoadScaled { .. } => "load_scaled",
            Self::Conv(_) => "conv",
            Self::NormCoefficients { .. } => "norm_coefficients",
            Self::GroupNorm(_) => "group_norm",
            Self::Elu { .. } => "elu",
            Self::Resample { .. } => "resample",
            Self::Concat { .. } => "concat",
            Self::Attention { .. } => "attention",
            Self::Embed(_) => "embed",
            Self::Dense { .. } => "dense",
            Self::MaxPool { .. } => "max_pool",
            Self::MeanPool { .. } => "mean_pool",
            Self::ResizeAdd { .. } => "resize_add",
            Self::StoreScore { .. } => "store_score",
            Self::StoreMixed { .. } => "store_mixed",
            Self::CallOut { .. } => "call_out",
        }
    }

    pub fn operands(&self) -> Operands {
        match *self {
            Self::Reflect { input, output, .. } => Operands::new([input], [output]),
            Self::LoadImage { x, output } => Operands::new([x], [output]),
            Self::LoadScaled { x, level, output, .. } => Operands::new([x, level], [output]),
            Self::Conv(c) => {
                let norm = c.activation.coefficients();
                let reads = [Some(c.activated.unwrap_or(c.input)), norm, c.residual];
                let prepared = c.leaves.map(|prepared| prepared.tensor);
                Operands::new(
                    reads.into_iter().flatten(),
                    [Some(c.output), c.statistics, prepared].into_iter().flatten(),
                )
            }
            Self::NormCoefficients {
                input,
                statistics,
                output,
                ..
            } => Operands::new([Some(input), statistics].into_iter().flatten(), [output]),
            Self::GroupNorm(norm) => {
                let terms = norm.terms.map(|terms| terms.tensor);
                let reads = [Some(norm.input), norm.statistics, terms];
                Operands::new(reads.into_iter().flatten(), [norm.output])
            }
            Self::Resample {
                input,
                activation,
                output,
                ..
            } => {
                let reads = [Some(input), activation.coefficients()];
                Operands::new(reads.into_iter().flatten(), [output])
            }
            Self::Concat { first, second, output } => Operands::new([first, second], [output]),
            Self::Embed(op) => Operands::new([op.level], [op.output]),
            Self::Attention { input, output, .. } | Self::Dense { input, output, .. } => {
                Operands::new([input], [output])
            }
            Self::Elu { input, output } | Self::MaxPool { input, output } => Operands::new([input], [output]),
            Self::MeanPool {
                input,
                residual: addend,
                output,
            }
            | Self::ResizeAdd { input, addend, output } => {
                Operands::new([Some(input), addend].into_iter().flatten(), [output])
            }
            Self::StoreScore { input, level, score } => Operands::new([input, level], [score]),
            Self::StoreMixed {
                x, input, level, score, ..
            } => Operands::new([x, input, level], [score]),
            Self::CallOut { x, level, score } => Operands::new([x, level], [score]),
        }
    }

    pub fn params(&self) -> Vec<(ParamId, Packing)> {
        match *self {
            Self::Conv(conv) => {
                let bias = conv.bias.map(|bias| (bias, Packing::Channels));
                std::iter::once((conv.weight, Packing::Conv(conv)))
                    .chain(bias)
                    .collect()
            }
            Self::NormCoefficients { alpha, gamma, beta, .. } => {
                [alpha, gamma, beta].map(|param| (param, Packing::Channels)).to_vec()
            }
            Self::GroupNorm(norm) => [norm.gamma, norm.beta].map(|param| (param, Packing::Channels)).to_vec(),
            Self::Embed(op) => std::iter::once(op.frequencies)
                .chain(op.table)
                .map(|param| (param, Packing::Plain))
                .collect(),
            Self::Dense { weight, bias, .. } => [weight, bias].map(|param| (param, Packing::Plain)).to_vec(),
            Self::Reflect { .. }
            | Self::LoadImage { .. }
            | Self::LoadScaled { .. }
            | Self::Elu { .. }
            | Self::Resample { .. }
            | Self::Concat { .. }
            | Self::Attention { .. }
            | Self::MaxPool { .. }
            | Self::MeanPool { .. }
            | Self::ResizeAdd { .. }
            | Self::StoreScore { .. }
            | Self::StoreMixed { .. }
            | Self::CallOut { .. } => Vec::new(),
        }
    }

    pub fn flops(&self, plan: &Plan) -> u64 {
        let conv = match *self {
            Self::Conv(conv) => conv,
            Self::Dense { weight, .. } => return 2 * plan.param(weight).shape.iter().product::<usize>() as u64,
            Self::Attention { output, .. } => {
                let (channels, height, width) = plan.tensor(output).contents.feature();
                return 4 * (channels * (height * width).pow(2)) as u64;
            }
            _ => return 0,
        };
        let (inputs, ..) = plan.tensor(conv.input).contents.feature();
        let (outputs, height, width) = plan.tensor(conv.output).contents.feature();
        2 * (conv.kernel * conv.kernel * inputs * outputs * height * width) as u64
    }
}

//! The score network: feature maps in, feature maps out.

use super::{Operands, Packing};
use crate::plan::{ParamId, Plan, TensorId};

/// What happens to an input on its way into a convolution, so that no pass over memory is spent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Elu,
    /// elu(scale·x + shift), with the coefficients of [`NetworkOp::NormCoefficients`] per image and channel
    NormElu(TensorId),
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
    pub prepared: Option<TensorId>,
    /// The same of the output, for a convolution that follows.
    pub leaves: Option<Prepared>,
}

/// A feature map as the target multiplies it, activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub tensor: TensorId,
    /// [`Activation::None`] or [`Activation::Elu`]
    pub activation: Activation,
}

/// An op of the network.
#[derive(Clone, Copy, Debug)]
pub enum NetworkOp {
    /// 2x − 1, from the state to a feature map
    LoadImage {
        x: TensorId,
        output: TensorId,
    },
    /// The same, scaled for the noise level of each state, with one more channel that says it
    LoadScaled {
        x: TensorId,
        level: TensorId,
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
    Elu {
        input: TensorId,
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
        score: TensorId,
    },
}

impl NetworkOp {
    pub fn name(&self) -> &'static str {
        match self {
            Self::LoadImage { .. } => "load_image",
            Self::LoadScaled { .. } => "load_scaled",
            Self::Conv(_) => "conv",
            Self::NormCoefficients { .. } => "norm_coefficients",
            Self::Elu { .. } => "elu",
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
            Self::LoadImage { x, output } => Operands::new([x], [output]),
            Self::LoadScaled { x, level, output } => Operands::new([x, level], [output]),
            Self::Conv(c) => {
                let norm = match c.activation {
                    Activation::NormElu(coefficients) => Some(coefficients),
                    Activation::None | Activation::Elu => None,
                };
                let reads = [Some(c.prepared.unwrap_or(c.input)), norm, c.residual];
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
            Self::StoreMixed { x, input, level, score } => Operands::new([x, input, level], [score]),
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
            Self::LoadImage { .. }
            | Self::LoadScaled { .. }
            | Self::Elu { .. }
            | Self::MaxPool { .. }
            | Self::MeanPool { .. }
            | Self::ResizeAdd { .. }
            | Self::StoreScore { .. }
            | Self::StoreMixed { .. }
            | Self::CallOut { .. } => Vec::new(),
        }
    }

    pub fn flops(&self, plan: &Plan) -> u64 {
        let Self::Conv(conv) = *self else { return 0 };
        let (inputs, ..) = plan.tensor(conv.input).contents.feature();
        let (outputs, height, width) = plan.tensor(conv.output).contents.feature();
        2 * (conv.kernel * conv.kernel * inputs * outputs * height * width) as u64
    }
}

//! The layers that networks are made of, as ops of a plan with weights by name.

use qcs_kernels::network::embed::halves;

use crate::plan::{Activation, Contents, Conv, NetworkOp, ParamId, PlanBuilder, TensorId};

/// Writes layers into a plan.
pub struct Layers<'a> {
    pub plan: &'a mut PlanBuilder,
    /// What norms are told of the level, where they are scales and shifts that depend on nothing else
    pub told: Option<TensorId>,
}

/// Numbers as [`NetworkOp::Embed`] reads them: all first halves, then all second ones.
pub fn embedding_table(numbers: impl IntoIterator<Item = f64>) -> Vec<f32> {
    let (first, second): (Vec<f32>, Vec<f32>) = numbers.into_iter().map(halves).unzip();
    [first, second].concat()
}

impl<'a> Layers<'a> {
    pub fn new(plan: &'a mut PlanBuilder) -> Self {
        Self { plan, told: None }
    }

    /// norm, ELU, conv, norm, ELU, conv, plus the input.
    pub fn residual(&mut self, name: &str, x: TensorId, dilation: usize) -> TensorId {
        let (channels, ..) = self.plan.contents(x).feature();
        let (h, norm2) = self.first_half(name, x, dilation);
        self.conv3(&format!("{name}.conv2"), h, norm2, channels, dilation, true, Some(x))
    }

    /// What residual blocks begin with: norm, ELU, conv of as many channels, and the norm in front of the second conv.
    pub fn first_half(&mut self, name: &str, x: TensorId, dilation: usize) -> (TensorId, Activation) {
        let (channels, ..) = self.plan.contents(x).feature();
        let norm1 = self.norm(&format!("{name}.normalize1"), x);
        let h = self.conv3(&format!("{name}.conv1"), x, norm1, channels, dilation, true, None);
        (h, self.norm(&format!("{name}.normalize2"), h))
    }

    /// InstanceNorm++, or the scales and shifts that stand for it, followed by ELU, left to the convolution that reads `x` to apply.
    pub fn norm(&mut self, name: &str, x: TensorId) -> Activation {
        let (channels, ..) = self.plan.contents(x).feature();
        if let Some(told) = self.told {
            return Activation::NormElu(self.dense(name, told, 2 * channels, false));
        }
        let mut param = |what: &str| self.plan.param(format!("{name}.{what}"), &[channels]);
        let (alpha, gamma, beta) = (param("alpha"), param("gamma"), param("beta"));
        let padded = channels.next_multiple_of(self.plan.channel_block());
        let output = self.plan.temporary(Contents::F32(2 * padded));
        self.plan.push(NetworkOp::NormCoefficients {
            input: x,
            statistics: None,
            alpha,
            gamma,
            beta,
            output,
        });
        Activation::NormElu(output)
    }

    /// A dense layer on a vector per state.
    pub fn dense(&mut self, name: &str, input: TensorId, outputs: usize, silu: bool) -> TensorId {
        let Contents::F32(inputs) = self.plan.contents(input) else {
            panic!("a dense layer works on vectors");
        };
        let weight = self.plan.param(format!("{name}.weight"), &[outputs, inputs]);
        let bias = self.plan.param(format!("{name}.bias"), &[outputs]);
        let output = self.plan.temporary(Contents::F32(outputs));
        self.plan.push(NetworkOp::Dense {
            input,
            weight,
            bias,
            silu,
            output,
        });
        output
    }

    #[allow(clippy::too_many_arguments)] // the parameters of a convolution
    pub fn conv3(
        &mut self,
        name: &str,
        input: TensorId,
        activation: Activation,
        channels: usize,
        dilation: usize,
        bias: bool,
        residual: Option<TensorId>,
    ) -> TensorId {
        self.conv(name, input, activation, channels, 3, dilation, bias, residual)
    }

    /// A 3×3 or 1×1 convolution that keeps the size.
    #[allow(clippy::too_many_arguments)] // the parameters of a convolution
    pub fn conv(
        &mut self,
        name: &str,
        input: TensorId,
        activation: Activation,
        channels: usize,
        kernel: usize,
        dilation: usize,
        bias: bool,
        residual: Option<TensorId>,
    ) -> TensorId {
        let (inputs, height, width) = self.plan.contents(input).feature();
        let weight = self
            .plan
            .param(format!("{name}.weight"), &[channels, inputs, kernel, kernel]);
        let bias: Option<ParamId> = bias.then(|| self.plan.param(format!("{name}.bias"), &[channels]));
        let output = self.map(channels, height, width);
        self.plan.push(NetworkOp::Conv(Conv {
            input,
            activation,
            weight,
            bias,
            residual,
            output,
            kernel,
            dilation,
            statistics: None,
            activated: None,
            leaves: None,
        }));
        output
    }

    /// The mean of 2×2 pixels, plus `residual`.
    pub fn mean_pool(&mut self, input: TensorId, residual: Option<TensorId>) -> TensorId {
        let (channels, height, width) = self.plan.contents(input).feature();
        let output = self.map(channels, height / 2, width / 2);
        self.plan.push(NetworkOp::MeanPool {
            input,
            residual,
            output,
        });
        output
    }

    /// `input`, resized to the size of `addend` (bilinear, corners aligned), plus `addend`.
    pub fn resize_add(&mut self, input: TensorId, addend: TensorId) -> TensorId {
        let (channels, height, width) = self.plan.contents(addend).feature();
        let output = self.map(channels, height, width);
        self.plan.push(NetworkOp::ResizeAdd {
            input,
            addend: Some(addend),
            output,
        });
        output
    }

    /// Room for a feature map.
    pub fn map(&mut self, channels: usize, height: usize, width: usize) -> TensorId {
        self.plan.temporary(Contents::Feature {
            channels,
            height,
            width,
        })
    }
}

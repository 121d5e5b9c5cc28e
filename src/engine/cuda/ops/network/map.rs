//! Feature maps to feature maps: other resolutions, two as one, attention over the pixels.

use qcs_kernels::network::attention::AttentionArgs;
use qcs_kernels::network::concat::ConcatArgs;
use qcs_kernels::network::elu::EluArgs;
use qcs_kernels::network::max_pool::MaxPoolArgs;
use qcs_kernels::network::mean_pool::MeanPoolArgs;
use qcs_kernels::network::resample::{ResampleArgs, Resampling};
use qcs_kernels::network::resize_add::ResizeAddArgs;

use crate::engine::cuda::ops::{Call, Caller};
use crate::plan::{Activation, TensorId};

impl Caller<'_> {
    pub(super) fn resample(
        &self,
        input: TensorId,
        activation: Activation,
        (how, factor): (Resampling, f32),
        output: TensorId,
    ) -> Call {
        let (_, height, width) = self.feature(output);
        Call::of(&ResampleArgs {
            input: self.tensor(input),
            coefficients: self.tensor_or_none(activation.coefficients()),
            output: self.tensor(output),
            images: self.batch(),
            in_blocks: self.blocks(input),
            out_blocks: self.blocks(output),
            height,
            width,
            how: how as u32,
            activation: activation.function().code(),
            factor,
        })
    }

    pub(super) fn concat(&self, first: TensorId, second: TensorId, output: TensorId) -> Call {
        let len = |id: TensorId| (self.plan.tensor(id).bytes / 4 / self.plan.batch) as u32;
        Call::of(&ConcatArgs {
            first: self.tensor(first),
            second: self.tensor(second),
            output: self.tensor(output),
            images: self.batch(),
            first_len: len(first),
            second_len: len(second),
            unused: 0,
        })
    }

    pub(super) fn attention(&self, input: TensorId, heads: usize, output: TensorId) -> Call {
        let (_, height, width) = self.feature(output);
        Call::of(&AttentionArgs {
            input: self.tensor(input),
            output: self.tensor(output),
            images: self.batch(),
            blocks: self.blocks(output),
            heads: heads as u32,
            pixels: height * width,
        })
    }

    pub(super) fn elu(&self, input: TensorId, output: TensorId) -> Call {
        Call::of(&EluArgs {
            input: self.tensor(input),
            output: self.tensor(output),
            len: (self.plan.tensor(input).bytes / 4) as u64,
        })
    }

    pub(super) fn max_pool(&self, input: TensorId, output: TensorId) -> Call {
        let (_, height, width) = self.feature(input);
        Call::of(&MaxPoolArgs {
            input: self.tensor(input),
            output: self.tensor(output),
            planes: self.batch() * self.blocks(input),
            height,
            width,
            unused: 0,
        })
    }

    pub(super) fn mean_pool(&self, input: TensorId, residual: Option<TensorId>, output: TensorId) -> Call {
        let (_, height, width) = self.feature(output);
        Call::of(&MeanPoolArgs {
            input: self.tensor(input),
            residual: self.tensor_or_none(residual),
            output: self.tensor(output),
            planes: self.batch() * self.blocks(output),
            height,
            width,
            unused: 0,
        })
    }

    pub(super) fn resize_add(&self, input: TensorId, addend: Option<TensorId>, output: TensorId) -> Call {
        let (_, from_height, from_width) = self.feature(input);
        let (_, height, width) = self.feature(output);
        Call::of(&ResizeAddArgs {
            input: self.tensor(input),
            addend: self.tensor_or_none(addend),
            output: self.tensor(output),
            planes: self.batch() * self.blocks(output),
            from_height,
            from_width,
            height,
            width,
            unused: 0,
        })
    }
}

//! Norms as one scale and one shift per image and channel: moments of every channel, then what the norm makes of them.

use qcs_kernels::global::Global;
use qcs_kernels::network::group_norm::GroupFinishArgs;
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMergeArgs, NormMomentsArgs};

use crate::engine::cuda::ops::{Call, Caller};
use crate::plan::{GroupNorm, ParamId, TensorId};

impl Caller<'_> {
    pub(super) fn norm_coefficients(
        &self,
        input: TensorId,
        statistics: Option<TensorId>,
        [alpha, gamma, beta]: [ParamId; 3],
        output: TensorId,
    ) -> [Call; 2] {
        let (channels, ..) = self.feature(input);
        let finish = NormFinishArgs {
            alpha: self.vector(alpha),
            gamma: self.vector(gamma),
            beta: self.vector(beta),
            output: self.tensor(output),
            images: self.batch(),
            channels,
        };
        [self.moments(input, statistics, self.tensor(output)), Call::of(&finish)]
    }

    /// Means and variances of every channel of a map, from the map or from what the convolution that made it left of it.
    fn moments(&self, map: TensorId, statistics: Option<TensorId>, output: Global<f32>) -> Call {
        let (_, height, width) = self.feature(map);
        let (images, blocks, pixels) = (self.batch(), self.blocks(map), height * width);
        let (input, unused) = (self.tensor(map), 0);
        match statistics {
            Some(statistics) => Call::of(&NormMergeArgs {
                input,
                statistics: self.tensor(statistics),
                output,
                images,
                blocks,
                pixels,
                unused,
            }),
            None => Call::of(&NormMomentsArgs {
                input,
                output,
                images,
                blocks,
                pixels,
                unused,
            }),
        }
    }

    pub(super) fn group_norm(&self, norm: &GroupNorm, scratch: usize) -> [Call; 2] {
        let (channels, ..) = self.feature(norm.input);
        let moments: Global<f32> = self.at(scratch);
        let terms = norm.terms.map(|terms| {
            let all: Global<f32> = self.tensor(terms.tensor);
            (all.from(terms.first), self.len(terms.tensor), terms.kind as u32)
        });
        let (terms, stride, kind) = terms.unwrap_or((Global::NONE, 0, 0));
        let finish = GroupFinishArgs {
            moments,
            gamma: self.vector(norm.gamma),
            beta: self.vector(norm.beta),
            terms,
            output: self.tensor(norm.output),
            epsilon: norm.epsilon,
            images: self.batch(),
            channels,
            of_group: channels / norm.groups as u32,
            stride,
            kind,
            unused: 0,
        };
        [self.moments(norm.input, norm.statistics, moments), Call::of(&finish)]
    }
}

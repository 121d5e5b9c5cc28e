//! Where the network begins and ends: states to feature maps, feature maps to scores.

use qcs_kernels::network::load_image::LoadImageArgs;
use qcs_kernels::network::load_scaled::{LoadScaledArgs, TELLS};
use qcs_kernels::network::precondition::Parametrisation;
use qcs_kernels::network::reflect::ReflectArgs;
use qcs_kernels::network::store_mixed::StoreMixedArgs;
use qcs_kernels::network::store_score::StoreScoreArgs;

use crate::engine::cuda::ops::{Call, Caller};
use crate::plan::TensorId;

impl Caller<'_> {
    pub(super) fn reflect(
        &self,
        input: TensorId,
        (height, width): (usize, usize),
        to: (usize, usize),
        output: TensorId,
    ) -> Call {
        Call::of(&ReflectArgs {
            input: self.tensor(input),
            output: self.tensor(output),
            planes: self.batch() * self.len(input) / (height * width) as u32,
            height: height as u32,
            width: width as u32,
            to_height: to.0 as u32,
            to_width: to.1 as u32,
            unused: 0,
        })
    }

    pub(super) fn load_image(&self, x: TensorId, output: TensorId) -> Call {
        let (channels, height, width) = self.feature(output);
        Call::of(&LoadImageArgs {
            x: self.tensor(x),
            output: self.tensor(output),
            states: self.batch(),
            channels,
            pixels: height * width,
            unused: 0,
        })
    }

    pub(super) fn load_scaled(&self, x: TensorId, level: TensorId, kind: Parametrisation, output: TensorId) -> Call {
        let (wide, height, width) = self.feature(output);
        let channels = self.len(x) / (height * width);
        Call::of(&LoadScaledArgs {
            level: self.tensor(level),
            x: self.tensor(x),
            output: self.tensor(output),
            states: self.batch(),
            channels,
            pixels: height * width,
            kind: kind.code() + (wide - channels) * TELLS,
        })
    }

    pub(super) fn store_score(&self, input: TensorId, level: TensorId, score: TensorId) -> Call {
        let (channels, height, width) = self.feature(input);
        Call::of(&StoreScoreArgs {
            level: self.tensor(level),
            input: self.tensor(input),
            score: self.tensor(score),
            states: self.batch(),
            channels,
            pixels: height * width,
            unused: 0,
        })
    }

    pub(super) fn store_mixed(
        &self,
        x: TensorId,
        input: TensorId,
        level: TensorId,
        kind: Parametrisation,
        score: TensorId,
    ) -> Call {
        let (channels, height, width) = self.feature(input);
        Call::of(&StoreMixedArgs {
            level: self.tensor(level),
            x: self.tensor(x),
            input: self.tensor(input),
            score: self.tensor(score),
            states: self.batch(),
            channels,
            pixels: height * width,
            kind: kind.code(),
        })
    }
}

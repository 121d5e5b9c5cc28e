//! What a network is told of the level: a vector per state, through dense layers.

use qcs_kernels::global::Global;
use qcs_kernels::network::dense::DenseArgs;
use qcs_kernels::network::embed::EmbedArgs;

use crate::engine::cuda::ops::{Call, Caller};
use crate::plan::{Embed, ParamId, TensorId};

impl Caller<'_> {
    pub(super) fn embed(&self, op: Embed) -> Call {
        let entries = |param| self.plan.param(param).shape[0] as u32 / 2;
        Call::of(&EmbedArgs {
            level: self.tensor(op.level),
            frequencies: self.vector(op.frequencies),
            table: op.table.map_or(Global::NONE, |table| self.vector(table)),
            output: self.tensor(op.output),
            states: self.batch(),
            count: entries(op.frequencies),
            entries: op.table.map_or(0, entries),
            told: op.told as u32,
            cosines_first: u32::from(op.cosines_first),
            unused: 0,
        })
    }

    pub(super) fn dense(
        &self,
        input: TensorId,
        (weight, bias): (ParamId, ParamId),
        silu: bool,
        output: TensorId,
    ) -> Call {
        Call::of(&DenseArgs {
            input: self.tensor(input),
            weights: self.vector(weight),
            bias: self.vector(bias),
            output: self.tensor(output),
            states: self.batch(),
            inputs: self.len(input),
            outputs: self.len(output),
            silu: u32::from(silu),
        })
    }
}

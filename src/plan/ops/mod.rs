//! The ops: everything an engine must be able to do, and nothing else. A file per room, as in the engines and the kernels.

mod likelihood;
mod network;
mod product;
mod sampler;
mod turbo;

pub use likelihood::{EpCarry, EpDamp, EpMoments, EpSeparate, EpSettle, EpStart, LikelihoodOp, Sites};
pub use network::{Activated, Activation, Conv, Embed, GroupNorm, LevelTerms, NetworkOp};
pub use product::ProductOp;
pub use sampler::{GammaRule, Langevin, LangevinNumbers, SamplerOp};
pub use turbo::{TurboDenoise, TurboDraw, TurboDrawStart, TurboFilter, TurboOp, TurboScale, TurboStart, TurboStep};

use super::{Contents, ParamId, Plan, TensorId};

/// One op of a plan. Names and equations follow the paper.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Network(NetworkOp),
    Product(ProductOp),
    Likelihood(LikelihoodOp),
    Sampler(SamplerOp),
    Turbo(TurboOp),
}

/// Writes `From` for each room and hands a question to the room that can answer it.
macro_rules! rooms {
    ($($room:ident($ops:ident)),*) => {
        $(impl From<$ops> for Op {
            fn from(op: $ops) -> Self {
                Self::$room(op)
            }
        })*

        impl Op {
            /// Short name, as benchmarks and profiles show it.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$room(op) => op.name()),* }
            }

            /// What the op reads and writes: the planner derives lifetimes from it, and engines may rely on the two being
            /// disjoint except for a tensor that stands in both.
            pub fn operands(&self) -> Operands {
                match self { $(Self::$room(op) => op.operands()),* }
            }

            /// 2 FLOP per multiply-add of the op's products, for one state.
            fn flops(&self, plan: &Plan) -> u64 {
                match self { $(Self::$room(op) => op.flops(plan)),* }
            }
        }
    };
}

rooms!(
    Network(NetworkOp),
    Product(ProductOp),
    Likelihood(LikelihoodOp),
    Sampler(SamplerOp),
    Turbo(TurboOp)
);

/// An op that is a struct of its own is pushed as it is.
macro_rules! structs {
    ($($room:ident { $($variant:ident($op:ident)),* })*) => {
        $($(impl From<$op> for Op {
            fn from(op: $op) -> Self {
                $room::$variant(op).into()
            }
        })*)*
    };
}

structs!(
    NetworkOp { Conv(Conv), GroupNorm(GroupNorm), Embed(Embed) }
    LikelihoodOp { EpMoments(EpMoments), EpCarry(EpCarry), EpDamp(EpDamp), EpSettle(EpSettle), EpSeparate(EpSeparate) }
    SamplerOp { Langevin(Langevin) }
    TurboOp {
        Start(TurboStart),
        Filter(TurboFilter),
        Scale(TurboScale),
        Step(TurboStep),
        Denoise(TurboDenoise),
        DrawStart(TurboDrawStart),
        Draw(TurboDraw)
    }
);

/// Tensors an op reads or writes.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    pub reads: Vec<TensorId>,
    pub writes: Vec<TensorId>,
}

impl Operands {
    fn new(reads: impl IntoIterator<Item = TensorId>, writes: impl IntoIterator<Item = TensorId>) -> Self {
        Self {
            reads: reads.into_iter().collect(),
            writes: writes.into_iter().collect(),
        }
    }
}

/// How an engine holds a weight of the prior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As the convolution that it belongs to wants it
    Conv(Conv),
    /// One value per channel, padded to whole blocks
    Channels,
    /// As it is
    Plain,
}

impl Op {
    /// The weights that the op computes with: what a session packs and uploads.
    pub fn params(&self) -> Vec<(ParamId, Packing)> {
        match self {
            Self::Network(op) => op.params(),
            Self::Turbo(op) => op.params(),
            Self::Product(_) | Self::Likelihood(_) | Self::Sampler(_) => Vec::new(),
        }
    }

    /// The work of one execution over the whole batch.
    pub fn cost(&self, plan: &Plan) -> Cost {
        let Operands { reads, writes } = self.operands();
        let moved = reads.iter().chain(&writes);
        Cost {
            flops: self.flops(plan) * plan.batch as u64,
            bytes: moved.map(|&id| plan.tensor(id).bytes as u64).sum(),
        }
    }
}

/// Elements per state of a tensor.
fn length(plan: &Plan, id: TensorId) -> u64 {
    match plan.tensor(id).contents {
        Contents::F32(len) | Contents::F64(len) | Contents::U32(len) => len as u64,
        Contents::Feature {
            channels,
            height,
            width,
        } => (channels * height * width) as u64,
    }
}

/// The work of an op: 2 FLOP per multiply-add of its products (0 for ops bound by memory), and the bytes of its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub flops: u64,
    pub bytes: u64,
}

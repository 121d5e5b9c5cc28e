//! From an op of the plan to the kernels that compute it, a file per room as in `plan::ops` and in the kernels.

mod likelihood;
mod network;
mod product;
mod sampler;
mod turbo;

use qcs_kernels::global::Global;
use qcs_kernels::launch::{Arguments, BLOCK, Launch};
use qcs_kernels::network::conv::tensor::Generation;
use qcs_kernels::sampler::step::{AdvanceStepArgs, StepTable};

use super::layout::Layout;
use crate::engine::{Constants, Precision};
use crate::plan::{Contents, Instruction, Op, ParamId, Plan, TensorId};
use crate::problem::Problem;
pub use product::Product;

/// A kernel with its grid and its argument.
pub struct Call {
    pub kernel: &'static str,
    pub launch: Launch,
    pub argument: Box<[u8]>,
}

impl Call {
    fn of(args: &impl Arguments) -> Self {
        Self {
            kernel: args.kernel(),
            launch: args.launch(),
            argument: args.bytes().into(),
        }
    }
}

/// Writes calls for ops, knowing where everything lies.
pub struct Caller<'a> {
    pub plan: &'a Plan,
    pub constants: Constants<'a>,
    pub layout: &'a Layout,
    pub precision: Precision,
    /// Of the GPU
    pub generation: Generation,
    pub multiprocessors: u32,
    /// The address of the session's memory
    pub base: u64,
}

impl Caller<'_> {
    /// The kernels of one op, in order.
    pub fn calls(&self, instruction: &Instruction) -> Vec<Call> {
        let scratch = instruction.scratch.start;
        match &instruction.op {
            Op::Network(op) => self.network(op, instruction.scratch.clone()),
            Op::Product(op) => self.product(op),
            Op::Likelihood(op) => self.likelihood(op, scratch),
            Op::Sampler(op) => self.sampler(op, scratch),
            Op::Turbo(op) => vec![self.turbo(op)],
        }
    }

    /// The kernel that ends a step.
    pub fn advance(&self) -> Call {
        Call::of(&AdvanceStepArgs {
            cursor: self.steps().cursor,
        })
    }

    fn at<T>(&self, offset: usize) -> Global<T> {
        Global::new(self.base + offset as u64)
    }

    fn tensor<T>(&self, id: TensorId) -> Global<T> {
        self.at(self.plan.tensor(id).offset)
    }

    fn tensor_or_none<T>(&self, id: Option<TensorId>) -> Global<T> {
        id.map_or(Global::NONE, |id| self.tensor(id))
    }

    fn vector(&self, param: ParamId) -> Global<f32> {
        self.at(self.layout.param(param))
    }

    fn steps(&self) -> StepTable {
        StepTable {
            records: self.at(self.layout.records),
            cursor: self.at(self.layout.cursor),
        }
    }

    fn problem(&self) -> &Problem {
        let problem = self.constants.problem;
        problem.expect("a plan with a likelihood is made from a problem")
    }

    fn batch(&self) -> u32 {
        self.plan.batch as u32
    }

    /// M
    fn measurements(&self) -> u32 {
        self.problem().a().rows() as u32
    }

    /// Elements of a state's vector.
    fn len(&self, id: TensorId) -> u32 {
        match self.plan.tensor(id).contents {
            Contents::F32(len) | Contents::F64(len) | Contents::U32(len) => len as u32,
            Contents::Feature { .. } => panic!("a feature map stands where a vector is needed"),
        }
    }

    /// Channels, height and width.
    fn feature(&self, id: TensorId) -> (u32, u32, u32) {
        let (channels, height, width) = self.plan.tensor(id).contents.feature();
        (channels as u32, height as u32, width as u32)
    }

    fn blocks(&self, id: TensorId) -> u32 {
        self.feature(id).0.div_ceil(BLOCK as u32)
    }
}

//! The CPU engine: one arena, one pool of threads, one function per op.

mod memory;
mod ops;
mod peak;
mod session;
mod simd;
mod threads;

use crate::Result;
use crate::engine::{Constants, Engine, Precision, Session};
use crate::plan::{Conv, Langevin, Op, Plan, PlanBuilder, ProductOp, SamplerOp, Target};
pub use ops::network::conv::Algorithm;
use ops::network::conv::ConvShape;
use ops::network::{BLOCK, scratch_bytes};
use simd::Isa;
use threads::Threads;

/// Executes plans on the machine's cores.
pub struct CpuEngine {
    threads: Threads,
    isa: Isa,
    precision: Precision,
    target: CpuTarget,
}

impl CpuEngine {
    /// An engine with `threads` threads; 0 means as many as the machine runs at once.
    pub fn new(threads: usize) -> Self {
        let threads = Threads::new(threads);
        let target = CpuTarget {
            threads: threads.count(),
        };
        Self {
            threads,
            isa: Isa::detect(),
            precision: Precision::Fp32,
            target,
        }
    }

    /// The same with inputs and weights of the inner convolutions rounded as a GPU's tensor cores round them: to see what
    /// that does to results, at no gain in speed.
    pub fn rounding(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The same without special instructions, as on a machine that has none.
    pub fn portable(threads: usize) -> Self {
        Self {
            isa: Isa::Portable,
            ..Self::new(threads)
        }
    }

    /// One for each instruction set that the machine has, the plainest first.
    pub fn every(threads: usize) -> Vec<Self> {
        let of = |isa| Self {
            isa,
            ..Self::new(threads)
        };
        Isa::all().into_iter().map(of).collect()
    }
}

impl Engine for CpuEngine {
    fn describe(&self) -> String {
        let count = self.threads.count();
        let plural = if count == 1 { "" } else { "s" };
        let rounded = match self.precision {
            Precision::Fp32 => String::new(),
            other => format!(", rounding like {other}"),
        };
        format!("CPU, {count} thread{plural}, {}{rounded}", self.isa.name())
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn rounds_as(&self) -> &'static str {
        self.isa.rounds_as()
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize {
        session::bytes(plan, constants)
    }

    /// The operating system may give more than is free, and take it back from others.
    fn free_bytes(&self) -> Option<usize> {
        None
    }

    fn peak_gflops(&self) -> Option<f64> {
        Some(peak::measure(self.threads.count(), self.isa))
    }

    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(session::CpuSession::new(
            &mut self.threads,
            self.isa,
            self.precision,
            plan,
            constants,
        )?))
    }
}

/// Blocks of eight channels; scratch for padded inputs, for tiles of each thread, for transposed results of products.
struct CpuTarget {
    threads: usize,
}

impl Target for CpuTarget {
    fn channel_block(&self) -> usize {
        BLOCK
    }

    fn scratch_bytes(&self, op: &Op, plan: &PlanBuilder) -> usize {
        let bytes = |id| plan.batch() * plan.contents(id).bytes(BLOCK);
        match *op {
            Op::Network(op) => scratch_bytes(&op, plan, self.threads),
            // x in f64, and z before it is transposed
            Op::Product(ProductOp::Project { x, z }) => 2 * bytes(x) + bytes(z),
            // the f64 sums of an f32 result
            Op::Product(ProductOp::BackProject { score, .. }) => 2 * bytes(score),
            Op::Product(ProductOp::RotateIn { output, .. } | ProductOp::RotateOut { output, .. }) => bytes(output),
            Op::Sampler(SamplerOp::Langevin(Langevin { x, .. })) => bytes(x),
            _ => 0,
        }
    }
}

/// How a convolution of the plan is computed.
pub fn conv_algorithm(plan: &Plan, conv: &Conv) -> Algorithm {
    ConvShape::new(plan.batch, conv, |id| plan.tensor(id).contents).algorithm
}

//! The CUDA engine: the kernels of `qcs-kernels` on an NVIDIA GPU, driven through the driver API.
//!
//! The driver is looked for at run time: nothing here is needed to build qcs or to run it on a CPU. This is the only place
//! that knows of CUDA.

pub mod blas;
mod calls;
mod check;
mod driver;
mod layout;
mod library;
mod session;
pub mod solver;
pub mod trace;

use std::rc::Rc;

use qcs_kernels::launch::BLOCK;
use qcs_kernels::likelihood::ep_moments::partial_sums;
use qcs_kernels::network::conv::prepare::prepared_words;
use qcs_kernels::network::conv::statistics::{statistics_len, statistics_pay};

use super::{Constants, Engine, Precision, Session};
use crate::plan::{Contents, Op, Plan, PlanBuilder, Target};
use crate::{Error, Result};
pub use check::{Verdict, check};
pub use driver::{Device, Properties, count, driver_is_installed};
use layout::{Layout, tensor_precision};

/// The fastest precision of a GPU that keeps the quality of reconstructions.
pub fn default_precision(_capability: u32) -> Precision {
    Precision::Fp32
}

/// Executes plans on one GPU.
pub struct CudaEngine {
    device: Rc<Device>,
    target: CudaTarget,
}

impl CudaEngine {
    /// Opens GPU number `ordinal`; without a precision in the [default](default_precision) one.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no such GPU, or it cannot compute in that precision.
    pub fn new(ordinal: usize, precision: Option<Precision>) -> Result<Self> {
        let device = Device::open(ordinal)?;
        let precision = precision.unwrap_or_else(|| default_precision(device.properties.capability));
        if precision == Precision::Tf32 && device.properties.capability < 80 {
            return Err(Error::Device(format!(
                "cuda:{ordinal}, {}: TF32 needs compute capability 8.0 (A100); use --precision fp16 or fp32",
                device.properties.name
            )));
        }
        Ok(Self {
            device: Rc::new(device),
            target: CudaTarget { precision },
        })
    }

    /// What the GPU is.
    pub fn properties(&self) -> &Properties {
        &self.device.properties
    }
}

impl Engine for CudaEngine {
    fn describe(&self) -> String {
        let Properties { name, capability, .. } = self.properties();
        format!(
            "cuda:{}, {name}, sm_{capability}, {}",
            self.device.ordinal(),
            self.target.precision
        )
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize {
        Layout::new(plan, constants, self.target.precision).bytes
    }

    fn free_bytes(&self) -> Option<usize> {
        self.device.memory().ok().map(|(free, _)| free)
    }

    fn peak_gflops(&self) -> Option<f64> {
        let Properties {
            capability,
            multiprocessors,
            clock,
            ..
        } = self.properties();
        // Floating-point operations of a multiprocessor in a clock.
        let per_clock = match (capability, self.target.precision) {
            (70 | 80, Precision::Fp32) => 128,
            (86 | 89 | 90, Precision::Fp32) => 256,
            (70, Precision::Fp16) | (80, Precision::Tf32) => 1024,
            (80, Precision::Fp16) => 2048,
            _ => return None,
        };
        Some(f64::from(per_clock) * f64::from(*multiprocessors) * f64::from(*clock) / 1e6)
    }

    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>> {
        let precision = self.target.precision;
        Ok(Box::new(session::CudaSession::new(
            &self.device,
            precision,
            plan,
            constants,
        )?))
    }
}

/// Blocks of eight channels, 32 bytes; scratch for rounded inputs of the tensor cores, for sums over blocks of cells, for
/// the proposals of a Langevin step.
struct CudaTarget {
    precision: Precision,
}

impl Target for CudaTarget {
    fn channel_block(&self) -> usize {
        BLOCK
    }

    fn statistics(&self, output: Contents) -> Option<Contents> {
        let (channels, height, width) = output.feature();
        let (blocks, pixels) = (channels.div_ceil(BLOCK) as u32, (height * width) as u32);
        statistics_pay(pixels).then(|| Contents::F32(statistics_len(1, blocks, pixels)))
    }

    fn scratch_bytes(&self, op: &Op, plan: &PlanBuilder) -> usize {
        let batch = plan.batch();
        match *op {
            Op::Conv(conv) => tensor_precision(self.precision, &conv, |id| plan.contents(id)).map_or(0, |precision| {
                let (channels, height, width) = plan.contents(conv.input).feature();
                4 * prepared_words(precision, batch, channels, height * width)
            }),
            Op::EpMoments { z, .. } => {
                let measurements = plan.contents(z).bytes(1) / 8;
                8 * batch * partial_sums(measurements)
            }
            Op::Langevin { x, .. } => batch * plan.contents(x).bytes(1),
            _ => 0,
        }
    }
}

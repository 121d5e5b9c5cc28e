//! The CUDA engine: the kernels of `qcs-kernels` on an NVIDIA GPU, driven through the driver API.
//!
//! The driver is looked for at run time: nothing here is needed to build qcs or to run it on a CPU. This is the only place
//! that knows of CUDA.

mod algorithm;
// Public for `tests/cuda_libraries.rs` alone, which calls each function of the libraries by itself.
#[doc(hidden)]
pub mod blas;
mod driver;
mod module_image;
// Public for tests that run kernels on the emulator.
#[doc(hidden)]
pub mod laid_out;
mod layout;
mod library;
mod ops;
mod peaks;
mod session;
#[doc(hidden)]
pub mod solver;
#[doc(hidden)]
pub mod trace;

use std::cell::OnceCell;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Instant;

use qcs_kernels::launch::BLOCK;
use qcs_kernels::likelihood::ep_moments::partial_sums;
use qcs_kernels::network::conv::tensor::Generation;
use qcs_kernels::network::conv::winograd::SCRATCH_BYTES;

use super::{Constants, Engine, Precision, Products, Session};
use crate::error::Remedy;
use crate::plan::{
    Activation, Contents, Conv, EpMoments, Langevin, LikelihoodOp, NetworkOp, Op, Plan, PlanBuilder, Program,
    SamplerOp, Target,
};
use crate::problem::{Matrix, Problem, Spectrum};
use crate::{Error, Result};
use algorithm::Layer;
use blas::{Blas, Shape};
pub use driver::{Device, KernelResources, Properties, count, driver_is_installed};
use layout::Layout;
use solver::{Factorisation, Solver};

/// The fastest precision that keeps the quality of reconstructions. Every GPU that the kernels are compiled for multiplies
/// fastest in fp16; what that does to the PSNR is in `docs/performance.md`.
pub const DEFAULT_PRECISION: Precision = Precision::Fp16;

/// From this many rows on, cuBLAS multiplies by U if it is there. Below, launching takes longer than multiplying.
const LARGE: usize = 512;

/// What a session leaves free: graphs, the libraries' kernels, which are loaded when they are first used, and whoever else
/// works on the GPU.
const MARGIN_SHARE: usize = 20;
const MARGIN_BYTES: usize = 256 << 20;

/// A·Aᵀ with a smaller ratio of eigenvalues has lost singular values of A: they are then computed from A itself.
const SQUARABLE: f64 = 1e-12;

/// Executes plans on one GPU.
pub struct CudaEngine {
    // Dropped before the device that it works on.
    blas: OnceCell<Result<Blas, String>>,
    device: Rc<Device>,
    target: CudaTarget,
    products: Products,
    /// Stages that a profiler records
    profiled: Option<RangeInclusive<u32>>,
}

impl CudaEngine {
    /// Opens GPU number `ordinal`; without a precision in the [default](DEFAULT_PRECISION) one.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no such GPU, or it cannot compute in that precision.
    pub fn new(ordinal: usize, precision: Option<Precision>) -> Result<Self> {
        let device = Device::open(ordinal)?;
        let precision = precision.unwrap_or(DEFAULT_PRECISION);
        if !precision.on_gpu(device.properties.capability) {
            let needs = match precision {
                Precision::Bf16 => "bf16 is the CPU's (AVX-512 BF16): our kernels multiply in fp16 or fp32",
                _ => "TF32 needs compute capability 8.0 (A100)",
            };
            let name = &device.properties.name;
            return Err(Error::Device(format!("cuda:{ordinal}, {name}: {needs}")).or(Remedy::OtherPrecision));
        }
        Ok(Self {
            blas: OnceCell::new(),
            device: Rc::new(device),
            target: CudaTarget::new(precision),
            products: Products::default(),
            profiled: None,
        })
    }

    /// cuBLAS, or why there is none. It is opened when it is first needed: that takes time and memory.
    fn blas(&self) -> Result<&Blas, &String> {
        let open = || self.open_blas().map_err(|e| e.to_string());
        self.blas.get_or_init(open).as_ref()
    }

    /// Opens cuBLAS and multiplies once: a library may load that has no kernels for the GPU, as CUDA 13's for Volta.
    fn open_blas(&self) -> Result<Blas> {
        const SIZE: usize = 8;
        let shape = Shape {
            rows: SIZE,
            columns: SIZE,
            states: SIZE,
        };
        let bytes = size_of::<f64>() * SIZE * SIZE;
        self.device.current()?;
        // SAFETY: the stream is the device's, which lives longer.
        let blas = unsafe { Blas::open(self.device.stream())? };
        let arrays = self.device.allocate(3 * bytes)?;
        arrays.clear(0, 3 * bytes)?;
        let at = |index: usize| arrays.address() + (index * bytes) as u64;
        // SAFETY: three arrays of that size, one after the other.
        unsafe { blas.matrix_times::<f64>(shape, at(0), at(1), at(2)) }
            .and_then(|()| self.device.wait())
            .map_err(|e| Error::Device(format!("cuBLAS {} is of no use here: {e}", blas.version())))?;
        Ok(blas)
    }

    /// cuBLAS, if a plan has products that are worth it.
    fn blas_for(&self, plan: &Plan, constants: Constants<'_>) -> Option<&Blas> {
        let rows = constants.problem.map_or(0, |problem| problem.a().rows());
        if self.wants_blas(rows) && plan.rotates() {
            self.blas().ok()
        } else {
            None
        }
    }

    /// Whether cuBLAS, if there is one, should multiply by a U of this many rows.
    fn wants_blas(&self, rows: usize) -> bool {
        match self.products {
            Products::Auto => rows >= LARGE,
            Products::Own => false,
            Products::Library => true,
        }
    }

    /// The spectrum of A by cuSOLVER, and how it was computed.
    fn spectrum(&self, a: &Matrix) -> Result<(Spectrum, Factorisation)> {
        let blas = self.blas().map_err(|reason| Error::Device(reason.clone()))?;
        self.device.current()?;
        // SAFETY: the stream is the device's, which lives longer.
        let solver = unsafe { Solver::open(self.device.stream())? };
        let values = a.to_f64();
        let compute = |how: Factorisation| {
            let scratch = self.device.allocate(solver.spectrum_bytes(a.rows(), a.cols(), how)?)?;
            // SAFETY: so much memory was allocated for it; both libraries are on the device's stream.
            unsafe { solver.spectrum(blas, &values, a.rows(), a.cols(), how, scratch.address()) }
        };
        let mut spectrum = compute(Factorisation::Eigen)?;
        // With more rows than columns the others are 0 whatever A is: no reason for the slower way.
        let rank = a.rows().min(a.cols());
        spectrum.eigenvalues[rank..].fill(0.0);
        if spectrum.eigenvalues[rank - 1] >= SQUARABLE * spectrum.eigenvalues[0] {
            return Ok((spectrum, Factorisation::Eigen));
        }
        Ok((compute(Factorisation::Singular)?, Factorisation::Singular))
    }

    /// What the GPU is.
    pub fn properties(&self) -> &Properties {
        &self.device.properties
    }

    /// What every kernel takes, as the driver sees it.
    ///
    /// # Errors
    /// [`Error::Device`] if the driver does not say.
    pub fn kernel_resources(&self) -> Result<Vec<KernelResources>> {
        self.device.kernels()
    }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        // cuBLAS is closed in the context that it was opened in. One that is lost needs no closing.
        let _ = self.device.current();
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

    fn precision(&self) -> Precision {
        self.target.precision
    }

    fn kernels(&self) -> Option<String> {
        let driver = self.properties().driver;
        let (major, minor) = (driver / 1000, driver % 1000 / 10);
        Some(format!("{}; the driver is for CUDA {major}.{minor}", self.device.image))
    }

    fn target(&self) -> &dyn Target {
        &self.target
    }

    fn rounds_as(&self) -> &'static str {
        "cuda"
    }

    fn factorise(&mut self, problem: &Problem) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        if problem.known_spectrum().is_none() {
            let begun = Instant::now();
            let mut how = Factorisation::Eigen;
            let computed = problem.spectrum_by(|a| {
                let (spectrum, by) = self.spectrum(a)?;
                how = by;
                Ok(spectrum)
            });
            let seconds = begun.elapsed().as_secs_f64();
            match computed.map(|_| how) {
                Ok(Factorisation::Eigen) => notes.push(format!("A·Aᵀ factorised by cuSOLVER in {seconds:.1} s")),
                Ok(Factorisation::Singular) => {
                    notes.push(format!(
                        "A, ill-conditioned or of deficient rank, factorised by cuSOLVER in {seconds:.1} s"
                    ));
                }
                Err(reason) => {
                    notes.push(format!("A·Aᵀ is factorised on the host: {reason}"));
                    problem.spectrum()?;
                }
            }
        }
        if problem.rotates() && self.wants_blas(problem.a().rows()) {
            notes.push(match self.blas() {
                Ok(blas) => format!("products with U by cuBLAS {}", blas.version()),
                Err(reason) => format!("products with U by our own kernel: {reason}"),
            });
        }
        Ok(notes)
    }

    fn choose_products(&mut self, by: Products) -> bool {
        self.products = by;
        by != Products::Library || self.blas().is_ok()
    }

    fn profile(&mut self, stages: RangeInclusive<u32>) -> Result<()> {
        self.profiled = Some(stages);
        Ok(())
    }

    fn bytes(&self, plan: &Plan, constants: Constants<'_>) -> usize {
        let with_blas = self.blas_for(plan, constants).is_some();
        Layout::new(plan, constants, self.target.precision, with_blas).bytes
    }

    fn free_bytes(&self) -> Option<usize> {
        let (free, _) = self.device.memory().ok()?;
        Some(free.saturating_sub(free / MARGIN_SHARE + MARGIN_BYTES))
    }

    fn can_index(&self, plan: &Plan) -> bool {
        layout::can_index(plan, self.target.precision)
    }

    /// Of the convolutions: most of a step, and what leaves multiprocessors idle at some sizes.
    fn effort(&self, plan: &Plan, batch: usize) -> Option<u64> {
        let &Properties {
            capability,
            multiprocessors,
            ..
        } = self.properties();
        let (precision, generation) = (self.target.precision, Generation::of(capability));
        Some(layout::effort(plan, batch, precision, generation, multiprocessors))
    }

    fn peak_gflops(&self) -> Option<f64> {
        let Properties {
            capability,
            multiprocessors,
            clock,
            ..
        } = self.properties();
        let per_clock = peaks::flop_per_clock(*capability, self.target.precision)?;
        Some(f64::from(per_clock) * f64::from(*multiprocessors) * f64::from(*clock) / 1e6)
    }

    fn session<'a>(&'a mut self, plan: &'a Plan, constants: Constants<'a>) -> Result<Box<dyn Session + 'a>> {
        if !self.can_index(plan) {
            return Err(Error::Device(format!(
                "cuda:{}: a batch of {} is more than the kernels can index, 4 GiB of a rounded map or 16 of another",
                self.device.ordinal(),
                plan.batch
            ))
            .or(Remedy::SmallerBatch));
        }
        let programs = [Program::Start, Program::Step, Program::Finish].map(|program| plan.program(program));
        if programs.concat().iter().any(|one| one.op.name() == "call_out") {
            return Err(Error::Device(
                "a prior that is a function of yours runs on the CPU: choose the device cpu".to_owned(),
            ));
        }
        let blas = self.blas_for(plan, constants);
        Ok(Box::new(session::CudaSession::new(
            &self.device,
            blas,
            self.target.precision,
            self.profiled.clone(),
            plan,
            constants,
        )?))
    }
}

/// Blocks of eight channels, 32 bytes; scratch for rounded inputs of the tensor cores, for Winograd's transforms, for sums over blocks of cells, for
/// the proposals of a Langevin step.
struct CudaTarget {
    precision: Precision,
    /// Bytes that Winograd's transforms of a layer may take
    transforms: usize,
}

impl CudaTarget {
    fn new(precision: Precision) -> Self {
        Self {
            precision,
            transforms: SCRATCH_BYTES,
        }
    }
}

impl Target for CudaTarget {
    fn channel_block(&self) -> usize {
        BLOCK
    }

    fn statistics(&self, conv: &Conv, plan: &PlanBuilder) -> Option<Contents> {
        Layer::of(conv, |id| plan.contents(id)).statistics(self.precision)
    }

    fn activated(&self, writer: &Conv, reader: &Conv, plan: &PlanBuilder) -> Option<Contents> {
        let of = |conv: &Conv| Layer::of(conv, |id| plan.contents(id));
        match reader.activation {
            Activation::NormElu(_) | Activation::NormSilu(_) | Activation::Norm(_) | Activation::Relu => None,
            Activation::None | Activation::Elu => of(writer).prepared(&of(reader), self.precision),
        }
    }

    /// A graph has a branch for the likelihood beside the network, whose layers leave multiprocessors idle.
    fn forks(&self) -> bool {
        true
    }

    fn scratch_bytes(&self, op: &Op, plan: &PlanBuilder) -> usize {
        let batch = plan.batch();
        match *op {
            Op::Network(NetworkOp::Conv(conv)) if conv.activated.is_some() => 0,
            Op::Network(NetworkOp::Conv(conv)) => {
                Layer::of(&conv, |id| plan.contents(id)).scratch_bytes(self.precision, batch, self.transforms)
            }
            Op::Network(NetworkOp::GroupNorm(norm)) => batch * plan.contents(norm.output).bytes(1),
            Op::Likelihood(LikelihoodOp::EpMoments(EpMoments { z, .. })) => {
                let measurements = plan.contents(z).bytes(1) / 8;
                8 * batch * partial_sums(measurements)
            }
            Op::Sampler(SamplerOp::Langevin(Langevin { x, .. })) => batch * plan.contents(x).bytes(1),
            _ => 0,
        }
    }
}

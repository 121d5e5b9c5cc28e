//! From an op of the plan to the kernels that compute it.

use qcs_kernels::global::Global;
use qcs_kernels::launch::{Arguments, BLOCK, Launch};
use qcs_kernels::likelihood::diag_gradient::DiagGradientArgs;
use qcs_kernels::likelihood::ep_gradient::EpGradientArgs;
use qcs_kernels::likelihood::ep_moments::{EpMessagesArgs, EpMomentsArgs};
use qcs_kernels::likelihood::ep_separate::EpSeparateArgs;
use qcs_kernels::likelihood::ep_start::EpStartArgs;
use qcs_kernels::likelihood::matrix_times::MatrixTimesArgs;
use qcs_kernels::likelihood::transposed_times::TransposedTimesArgs;
use qcs_kernels::network::conv::ConvArgs;
use qcs_kernels::network::conv::prepare::ConvPrepareArgs;
use qcs_kernels::network::conv::tensor::TensorConvArgs;
use qcs_kernels::network::elu::EluArgs;
use qcs_kernels::network::load_image::LoadImageArgs;
use qcs_kernels::network::max_pool::MaxPoolArgs;
use qcs_kernels::network::mean_pool::MeanPoolArgs;
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMergeArgs, NormMomentsArgs};
use qcs_kernels::network::resize_add::ResizeAddArgs;
use qcs_kernels::network::store_score::StoreScoreArgs;
use qcs_kernels::sampler::denoise::DenoiseArgs;
use qcs_kernels::sampler::gamma::GammaArgs;
use qcs_kernels::sampler::langevin::{LangevinAcceptArgs, LangevinProposeArgs};
use qcs_kernels::sampler::start_state::StartStateArgs;
use qcs_kernels::sampler::step::{AdvanceStepArgs, Schedule};

use super::blas::{Blas, Shape};
use super::layout::{Layout, tensor_precision};
use crate::Result;
use crate::engine::{Constants, Precision};
use crate::likelihood::EpStart;
use crate::plan::{Activation, Contents, Conv, Instruction, Op, ParamId, Plan, TensorId};
use crate::problem::{Problem, Values};
use crate::sampler::GammaRule;

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

/// A product with U by cuBLAS, or with Uᵀ.
pub struct Product {
    shape: Shape,
    transposed: bool,
    matrix: u64,
    input: u64,
    output: u64,
}

impl Product {
    pub fn launch(&self, blas: &Blas) -> Result<()> {
        // SAFETY: `Caller` took the addresses from tensors of the session's memory, which is alive; the planner keeps
        // what is read and what is written apart.
        unsafe {
            if self.transposed {
                blas.transposed_times::<f64>(self.shape, self.matrix, self.input, self.output)
            } else {
                blas.matrix_times::<f64>(self.shape, self.matrix, self.input, self.output)
            }
        }
    }
}

/// Writes calls for ops, knowing where everything lies.
pub struct Caller<'a> {
    pub plan: &'a Plan,
    pub constants: Constants<'a>,
    pub layout: &'a Layout,
    pub precision: Precision,
    /// The address of the session's memory
    pub base: u64,
}

impl Caller<'_> {
    /// The kernels of one op, in order.
    pub fn calls(&self, instruction: &Instruction) -> Vec<Call> {
        let scratch = instruction.scratch.start;
        match instruction.op {
            Op::Conv(conv) => self.conv(&conv, scratch),
            Op::LoadImage { .. }
            | Op::NormCoefficients { .. }
            | Op::Elu { .. }
            | Op::MaxPool { .. }
            | Op::MeanPool { .. }
            | Op::ResizeAdd { .. }
            | Op::StoreScore { .. } => self.network(&instruction.op),
            Op::Project { .. } | Op::BackProject { .. } | Op::RotateIn { .. } | Op::RotateOut { .. } => {
                vec![self.product(&instruction.op)]
            }
            Op::EpStart { .. }
            | Op::EpMoments { .. }
            | Op::EpSeparate { .. }
            | Op::EpGradient { .. }
            | Op::DiagGradient { .. } => self.likelihood(&instruction.op, scratch),
            Op::StartState { .. } | Op::Gamma { .. } | Op::Langevin { .. } | Op::Denoise { .. } => {
                self.sampler(&instruction.op, scratch)
            }
        }
    }

    /// The same for cuBLAS, if the op is a product with U. Those with A mix f32 and f64, which cuBLAS does not.
    pub fn rotation(&self, op: &Op) -> Option<Product> {
        let (input, output, transposed) = match *op {
            Op::RotateIn { input, output } => (input, output, true),
            Op::RotateOut { input, output } => (input, output, false),
            _ => return None,
        };
        let m = self.problem().a().rows();
        Some(Product {
            shape: Shape {
                rows: m,
                columns: m,
                states: self.plan.batch,
            },
            transposed,
            matrix: self.at::<f64>(self.layout.u).address(),
            input: self.tensor::<f64>(input).address(),
            output: self.tensor::<f64>(output).address(),
        })
    }

    /// The kernel that ends a step.
    pub fn advance(&self) -> Call {
        Call::of(&AdvanceStepArgs {
            cursor: self.schedule().cursor,
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
        self.at(self.layout.vector(param))
    }

    fn schedule(&self) -> Schedule {
        Schedule {
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

    fn conv(&self, conv: &Conv, scratch: usize) -> Vec<Call> {
        let (inputs, height, width) = self.feature(conv.input);
        let taps = (conv.kernel * conv.kernel) as u32;
        let (elu, coefficients) = match conv.activation {
            Activation::None => (0, Global::NONE),
            Activation::Elu => (1, Global::NONE),
            Activation::NormElu(coefficients) => (1, self.tensor(coefficients)),
        };
        let weights = self.at(self.layout.conv(conv.weight));
        let bias = conv.bias.map_or(Global::NONE, |bias| self.vector(bias));
        let residual = self.tensor_or_none(conv.residual);
        let statistics = self.tensor_or_none(conv.statistics);
        let Some(precision) = tensor_precision(self.precision, conv, |id| self.plan.tensor(id).contents) else {
            return vec![Call::of(&ConvArgs {
                input: self.tensor(conv.input),
                coefficients,
                weights,
                bias,
                residual,
                output: self.tensor(conv.output),
                statistics,
                images: self.batch(),
                in_blocks: self.blocks(conv.input),
                out_blocks: self.blocks(conv.output),
                height,
                width,
                taps,
                dilation: conv.dilation as u32,
                elu,
            })];
        };
        let prepared = self.at(scratch);
        let prepare = ConvPrepareArgs {
            input: self.tensor(conv.input),
            coefficients,
            output: prepared,
            images: self.batch(),
            in_blocks: self.blocks(conv.input),
            pixels: height * width,
            elu,
            precision: precision.code(),
            unused: 0,
        };
        let product = TensorConvArgs {
            input: prepared,
            weights,
            bias,
            residual,
            output: self.tensor(conv.output),
            statistics,
            images: self.batch(),
            units: precision.units(inputs as usize) as u32,
            out_blocks: self.blocks(conv.output),
            height,
            width,
            taps,
            dilation: conv.dilation as u32,
            precision: precision.code(),
        };
        vec![Call::of(&prepare), Call::of(&product)]
    }

    fn network(&self, op: &Op) -> Vec<Call> {
        let (images, unused) = (self.batch(), 0);
        match *op {
            Op::LoadImage { x, output } => {
                let (channels, height, width) = self.feature(output);
                vec![Call::of(&LoadImageArgs {
                    x: self.tensor(x),
                    output: self.tensor(output),
                    states: images,
                    channels,
                    pixels: height * width,
                    unused,
                })]
            }
            Op::NormCoefficients {
                input,
                statistics,
                alpha,
                gamma,
                beta,
                output,
            } => {
                let (channels, height, width) = self.feature(input);
                let (blocks, pixels) = (self.blocks(input), height * width);
                let (input, moments) = (self.tensor(input), self.tensor(output));
                let moments = match statistics {
                    Some(statistics) => Call::of(&NormMergeArgs {
                        input,
                        statistics: self.tensor(statistics),
                        output: moments,
                        images,
                        blocks,
                        pixels,
                        unused,
                    }),
                    None => Call::of(&NormMomentsArgs {
                        input,
                        output: moments,
                        images,
                        blocks,
                        pixels,
                        unused,
                    }),
                };
                let finish = NormFinishArgs {
                    alpha: self.vector(alpha),
                    gamma: self.vector(gamma),
                    beta: self.vector(beta),
                    output: self.tensor(output),
                    images,
                    channels,
                };
                vec![moments, Call::of(&finish)]
            }
            Op::Elu { input, output } => vec![Call::of(&EluArgs {
                input: self.tensor(input),
                output: self.tensor(output),
                len: (self.plan.tensor(input).bytes / 4) as u64,
            })],
            Op::MaxPool { input, output } => {
                let (_, height, width) = self.feature(input);
                vec![Call::of(&MaxPoolArgs {
                    input: self.tensor(input),
                    output: self.tensor(output),
                    planes: images * self.blocks(input),
                    height,
                    width,
                    unused,
                })]
            }
            Op::MeanPool {
                input,
                residual,
                output,
            } => {
                let (_, height, width) = self.feature(output);
                vec![Call::of(&MeanPoolArgs {
                    input: self.tensor(input),
                    residual: self.tensor_or_none(residual),
                    output: self.tensor(output),
                    planes: images * self.blocks(output),
                    height,
                    width,
                    unused,
                })]
            }
            Op::ResizeAdd { input, addend, output } => {
                let (_, from_height, from_width) = self.feature(input);
                let (_, height, width) = self.feature(output);
                vec![Call::of(&ResizeAddArgs {
                    input: self.tensor(input),
                    addend: self.tensor_or_none(addend),
                    output: self.tensor(output),
                    planes: images * self.blocks(output),
                    from_height,
                    from_width,
                    height,
                    width,
                    unused,
                })]
            }
            Op::StoreScore { input, score } => {
                let (channels, height, width) = self.feature(input);
                vec![Call::of(&StoreScoreArgs {
                    schedule: self.schedule(),
                    input: self.tensor(input),
                    score: self.tensor(score),
                    states: images,
                    channels,
                    pixels: height * width,
                    unused,
                })]
            }
            _ => unreachable!("not an op of the network"),
        }
    }

    fn product(&self, op: &Op) -> Call {
        let single = matches!(self.problem().a().values(), Values::F32(_));
        let (a, u) = (self.layout.a, self.layout.u);
        match *op {
            Op::Project { x, z } if single => self.matrix_times::<f32, f32>(a, x, z),
            Op::Project { x, z } => self.matrix_times::<f64, f32>(a, x, z),
            Op::BackProject { g, score } if single => self.transposed_times::<f32, f32>(a, g, score),
            Op::BackProject { g, score } => self.transposed_times::<f64, f32>(a, g, score),
            Op::RotateIn { input, output } => self.transposed_times::<f64, f64>(u, input, output),
            Op::RotateOut { input, output } => self.matrix_times::<f64, f64>(u, input, output),
            _ => unreachable!("not a product"),
        }
    }

    /// y = matrix·x
    fn matrix_times<E, X>(&self, matrix: usize, x: TensorId, y: TensorId) -> Call
    where
        MatrixTimesArgs<E, X>: Arguments,
    {
        Call::of(&MatrixTimesArgs::<E, X> {
            matrix: self.at(matrix),
            x: self.tensor(x),
            y: self.tensor(y),
            rows: self.len(y),
            columns: self.len(x),
            states: self.batch(),
            unused: 0,
        })
    }

    /// y = matrixᵀ·g
    fn transposed_times<E, Y>(&self, matrix: usize, g: TensorId, y: TensorId) -> Call
    where
        TransposedTimesArgs<E, Y>: Arguments,
    {
        Call::of(&TransposedTimesArgs::<E, Y> {
            matrix: self.at(matrix),
            g: self.tensor(g),
            y: self.tensor(y),
            rows: self.len(g),
            columns: self.len(y),
            states: self.batch(),
            unused: 0,
        })
    }

    fn likelihood(&self, op: &Op, scratch: usize) -> Vec<Call> {
        let (states, measurements, schedule) = (self.batch(), self.measurements(), self.schedule());
        let (lower, upper) = (self.at(self.layout.lower), self.at(self.layout.upper));
        let sigma2 = self.problem().sigma2_floored();
        match *op {
            Op::EpStart { h_f, tau_f, start } => {
                let diag = self.problem().diag();
                vec![Call::of(&EpStartArgs {
                    schedule,
                    h_f: self.tensor(h_f),
                    tau_f: self.tensor(tau_f),
                    sigma2,
                    mean_diag: diag.iter().sum::<f64>() / diag.len() as f64,
                    states,
                    measurements,
                    matched: u32::from(start == EpStart::Matched),
                    unused: 0,
                })]
            }
            Op::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
            } => {
                let moments = EpMomentsArgs {
                    lower,
                    upper,
                    z: self.tensor(z),
                    h_f: self.tensor(h_f),
                    tau_f: self.tensor(tau_f),
                    m_a: self.tensor(h_g),
                    variances: self.at(scratch),
                    states,
                    measurements,
                };
                let messages = EpMessagesArgs {
                    h_f: self.tensor(h_f),
                    tau_f: self.tensor(tau_f),
                    variances: self.at(scratch),
                    h_g: self.tensor(h_g),
                    tau_g: self.tensor(tau_g),
                    states,
                    measurements,
                };
                vec![Call::of(&moments), Call::of(&messages)]
            }
            Op::EpSeparate {
                input,
                tau_g,
                output,
                tau_f,
            } => vec![Call::of(&EpSeparateArgs {
                schedule,
                eigenvalues: self.at(self.layout.eigenvalues),
                input: self.tensor(input),
                tau_g: self.tensor(tau_g),
                output: self.tensor(output),
                tau_f: self.tensor(tau_f),
                sigma2,
                states,
                measurements,
            })],
            Op::EpGradient { z, h_f, tau_f, g } => vec![Call::of(&EpGradientArgs {
                lower,
                upper,
                z: self.tensor(z),
                h_f: self.tensor(h_f),
                tau_f: self.tensor(tau_f),
                g: self.tensor(g),
                states,
                measurements,
            })],
            Op::DiagGradient { z, g } => vec![Call::of(&DiagGradientArgs {
                schedule,
                diag: self.at(self.layout.diag),
                lower,
                upper,
                z: self.tensor(z),
                g: self.tensor(g),
                sigma2,
                states,
                measurements,
            })],
            _ => unreachable!("not an op of the likelihood"),
        }
    }

    fn sampler(&self, op: &Op, scratch: usize) -> Vec<Call> {
        let (states, seed, schedule) = (self.batch(), self.constants.seed, self.schedule());
        let keys = self.at(self.layout.keys);
        match *op {
            Op::StartState { x, frozen } => vec![Call::of(&StartStateArgs {
                keys,
                x: self.tensor(x),
                frozen: self.tensor(frozen),
                seed,
                states,
                len: self.len(x),
            })],
            Op::Gamma {
                prior,
                likelihood,
                rule,
                gamma,
            } => {
                let (factor, adaptive) = match rule {
                    GammaRule::Adaptive { xi } => (xi, 1),
                    GammaRule::Constant { gamma } => (gamma, 0),
                };
                vec![Call::of(&GammaArgs {
                    prior: self.tensor(prior),
                    likelihood: self.tensor(likelihood),
                    gamma: self.tensor(gamma),
                    factor,
                    adaptive,
                    states,
                    len: self.len(prior),
                    unused: 0,
                })]
            }
            Op::Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            } => {
                let (score, gamma) = likelihood.unzip();
                let velocity = self.tensor_or_none(velocity);
                let (next, len) = (self.at(scratch), self.len(x));
                let propose = LangevinProposeArgs {
                    schedule,
                    keys,
                    x: self.tensor(x),
                    prior: self.tensor(prior),
                    likelihood: self.tensor_or_none(score),
                    gamma: self.tensor_or_none(gamma),
                    velocity,
                    frozen: self.tensor(frozen),
                    next,
                    seed,
                    states,
                    len,
                };
                let accept = LangevinAcceptArgs {
                    next,
                    frozen: self.tensor(frozen),
                    x: self.tensor(x),
                    velocity,
                    states,
                    len,
                };
                vec![Call::of(&propose), Call::of(&accept)]
            }
            Op::Denoise { x, prior, frozen } => vec![Call::of(&DenoiseArgs {
                schedule,
                prior: self.tensor(prior),
                frozen: self.tensor(frozen),
                x: self.tensor(x),
                states,
                len: self.len(x),
            })],
            _ => unreachable!("not an op of the sampler"),
        }
    }
}

//! The ops: everything an engine must be able to do, and nothing else.

use super::{Contents, ParamId, Plan, TensorId};

/// What happens to an input on its way into a convolution, so that no pass over memory is spent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Elu,
    /// elu(scale·x + shift), with the coefficients of [`Op::NormCoefficients`] per image and channel
    NormElu(TensorId),
}

/// A 3×3 or 1×1 convolution, stride 1, zero padding that keeps the size (applied after the activation).
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    pub input: TensorId,
    pub activation: Activation,
    pub weight: ParamId,
    pub bias: Option<ParamId>,
    /// Added to the result.
    pub residual: Option<TensorId>,
    pub output: TensorId,
    pub kernel: usize,
    pub dilation: usize,
    /// Statistics of the output for the norm that follows, where the target has a use for them.
    pub statistics: Option<TensorId>,
}

/// One op of a plan. Names and equations follow the paper; `beta` is the step's noise level.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// 2x − 1, from the state to a feature map
    LoadImage {
        x: TensorId,
        output: TensorId,
    },
    Conv(Conv),
    /// InstanceNorm++ as one scale and one shift per image and channel: `[2, channels]`, padded to whole blocks
    NormCoefficients {
        input: TensorId,
        /// What the convolution that wrote the input left of it
        statistics: Option<TensorId>,
        alpha: ParamId,
        gamma: ParamId,
        beta: ParamId,
        output: TensorId,
    },
    Elu {
        input: TensorId,
        output: TensorId,
    },
    /// 5×5 maximum, stride 1, same size
    MaxPool {
        input: TensorId,
        output: TensorId,
    },
    /// 2×2 mean, stride 2, plus `residual`
    MeanPool {
        input: TensorId,
        residual: Option<TensorId>,
        output: TensorId,
    },
    /// Bilinear resize with aligned corners to the output's size, plus `addend`
    ResizeAdd {
        input: TensorId,
        addend: Option<TensorId>,
        output: TensorId,
    },
    /// The feature map divided by beta, as a state
    StoreScore {
        input: TensorId,
        score: TensorId,
    },

    /// z = A·x
    Project {
        x: TensorId,
        z: TensorId,
    },
    /// h^F = 0 and tau^F as the configuration says
    EpStart {
        h_f: TensorId,
        tau_f: TensorId,
        start: crate::likelihood::EpStart,
    },
    /// Moments of the cells under N(h^F/tau^F, 1/tau^F): h^G = m^a/chi^a − h^F, tau^G = 1/chi^a − tau^F
    EpMoments {
        z: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        h_g: TensorId,
        tau_g: TensorId,
    },
    /// Uᵀ·input
    RotateIn {
        input: TensorId,
        output: TensorId,
    },
    /// In the eigenbasis: output = (w/chi^b − 1)∘input, w = 1/(tau^G + D), and the new tau^F
    EpSeparate {
        input: TensorId,
        tau_g: TensorId,
        output: TensorId,
        tau_f: TensorId,
    },
    /// U·input
    RotateOut {
        input: TensorId,
        output: TensorId,
    },
    /// g_m of the paper's pseudo-likelihood score, under N(h^F/tau^F, 1/tau^F)
    EpGradient {
        z: TensorId,
        h_f: TensorId,
        tau_f: TensorId,
        g: TensorId,
    },
    /// g_m with the diagonal of C_t⁻¹ = sigma²·I + beta²·A·Aᵀ: QCS-SGM
    DiagGradient {
        z: TensorId,
        g: TensorId,
    },
    /// The likelihood score Aᵀ·g
    BackProject {
        g: TensorId,
        score: TensorId,
    },

    /// x ~ U(0, 1), and no state is frozen
    StartState {
        x: TensorId,
        frozen: TensorId,
    },
    /// gamma = xi·‖prior‖/‖likelihood‖ per state, or a constant; 0 where the likelihood score vanishes
    Gamma {
        prior: TensorId,
        likelihood: TensorId,
        rule: crate::sampler::GammaRule,
        gamma: TensorId,
    },
    /// x += momentum·velocity + alpha·(prior + gamma·likelihood) + noise·z, z normal; a state that would become
    /// non-finite is frozen
    Langevin {
        x: TensorId,
        prior: TensorId,
        likelihood: Option<(TensorId, TensorId)>,
        /// What the step added to x, for the next one to repeat a part of it
        velocity: Option<TensorId>,
        frozen: TensorId,
    },
    /// x += beta²·prior
    Denoise {
        x: TensorId,
        prior: TensorId,
        frozen: TensorId,
    },
}

/// Tensors an op reads or writes; at most four and three.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operands {
    pub reads: [Option<TensorId>; 4],
    pub writes: [Option<TensorId>; 3],
}

impl Op {
    /// Short name, as benchmarks and profiles show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LoadImage { .. } => "load_image",
            Self::Conv(_) => "conv",
            Self::NormCoefficients { .. } => "norm_coefficients",
            Self::Elu { .. } => "elu",
            Self::MaxPool { .. } => "max_pool",
            Self::MeanPool { .. } => "mean_pool",
            Self::ResizeAdd { .. } => "resize_add",
            Self::StoreScore { .. } => "store_score",
            Self::Project { .. } => "project",
            Self::EpStart { .. } => "ep_start",
            Self::EpMoments { .. } => "ep_moments",
            Self::RotateIn { .. } => "rotate_in",
            Self::EpSeparate { .. } => "ep_separate",
            Self::RotateOut { .. } => "rotate_out",
            Self::EpGradient { .. } => "ep_gradient",
            Self::DiagGradient { .. } => "diag_gradient",
            Self::BackProject { .. } => "back_project",
            Self::StartState { .. } => "start_state",
            Self::Gamma { .. } => "gamma",
            Self::Langevin { .. } => "langevin",
            Self::Denoise { .. } => "denoise",
        }
    }

    /// What the op reads and writes: the planner derives lifetimes from it, and engines may rely on the two being
    /// disjoint except for a tensor that stands in both.
    pub fn operands(&self) -> Operands {
        let of = |reads: [Option<TensorId>; 4], [first, second]: [Option<TensorId>; 2]| Operands {
            reads,
            writes: [first, second, None],
        };
        match *self {
            Self::LoadImage { x, output } => of([Some(x), None, None, None], [Some(output), None]),
            Self::Conv(c) => {
                let norm = match c.activation {
                    Activation::NormElu(coefficients) => Some(coefficients),
                    _ => None,
                };
                of([Some(c.input), norm, c.residual, None], [Some(c.output), c.statistics])
            }
            Self::NormCoefficients {
                input,
                statistics,
                output,
                ..
            } => of([Some(input), statistics, None, None], [Some(output), None]),
            Self::Elu { input, output }
            | Self::MaxPool { input, output }
            | Self::RotateIn { input, output }
            | Self::RotateOut { input, output } => of([Some(input), None, None, None], [Some(output), None]),
            Self::MeanPool {
                input,
                residual,
                output,
            } => of([Some(input), residual, None, None], [Some(output), None]),
            Self::ResizeAdd { input, addend, output } => of([Some(input), addend, None, None], [Some(output), None]),
            Self::StoreScore { input, score } => of([Some(input), None, None, None], [Some(score), None]),
            Self::Project { x, z } => of([Some(x), None, None, None], [Some(z), None]),
            Self::EpStart { h_f, tau_f, .. } => of([None; 4], [Some(h_f), Some(tau_f)]),
            Self::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
            } => of([Some(z), Some(h_f), Some(tau_f), None], [Some(h_g), Some(tau_g)]),
            Self::EpSeparate {
                input,
                tau_g,
                output,
                tau_f,
            } => of([Some(input), Some(tau_g), None, None], [Some(output), Some(tau_f)]),
            Self::EpGradient { z, h_f, tau_f, g } => of([Some(z), Some(h_f), Some(tau_f), None], [Some(g), None]),
            Self::DiagGradient { z, g } => of([Some(z), None, None, None], [Some(g), None]),
            Self::BackProject { g, score } => of([Some(g), None, None, None], [Some(score), None]),
            Self::StartState { x, frozen } => of([None; 4], [Some(x), Some(frozen)]),
            Self::Gamma {
                prior,
                likelihood,
                gamma,
                ..
            } => of([Some(prior), Some(likelihood), None, None], [Some(gamma), None]),
            Self::Langevin {
                x,
                prior,
                likelihood,
                velocity,
                frozen,
            } => {
                let (score, gamma) = likelihood.unzip();
                Operands {
                    reads: [Some(prior), score, gamma, Some(frozen)],
                    writes: [Some(x), Some(frozen), velocity],
                }
            }
            Self::Denoise { x, prior, frozen } => of([Some(prior), Some(frozen), None, None], [Some(x), None]),
        }
    }

    /// The work of one execution over the whole batch.
    pub fn cost(&self, plan: &Plan) -> Cost {
        let batch = plan.batch as u64;
        let bytes_of = |id: &TensorId| plan.tensor(*id).bytes as u64;
        let operands = self.operands();
        let moved = operands.reads.iter().chain(&operands.writes).flatten();
        let flops = match *self {
            Self::Conv(c) => {
                let (inputs, ..) = plan.tensor(c.input).contents.feature();
                let (outputs, height, width) = plan.tensor(c.output).contents.feature();
                2 * (c.kernel * c.kernel * inputs * outputs * height * width) as u64
            }
            Self::Project { x, z } => 2 * (length(plan, x) * length(plan, z)),
            Self::BackProject { g, score } => 2 * (length(plan, g) * length(plan, score)),
            Self::RotateIn { input, output } | Self::RotateOut { input, output } => {
                2 * (length(plan, input) * length(plan, output))
            }
            _ => 0,
        };
        Cost {
            flops: flops * batch,
            bytes: moved.map(bytes_of).sum(),
        }
    }
}

/// Elements per state of a vector.
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

//! Groups of flags that several commands share. All are optional: what is left out comes from the configuration, the
//! preset or the model.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use qcs::likelihood::{EpStart, Method};
use qcs::prior::Prior;
use qcs::run::{MeasureConfig, RunConfig, demo};
use qcs::sampler::Preset;
use qcs::{ImageShape, Result};

/// TOML holds no larger integer.
pub const MOST_SEED: i64 = i64::MAX;

/// Which score network.
#[derive(Args, Clone, Debug)]
pub struct ModelFlags {
    /// NCSNv2 weights (.safetensors); the shipped MNIST prior if left out
    #[arg(long, value_name = "FILE")]
    pub model: Option<String>,
    /// Image shape C,H,W, for a model file that does not say it
    #[arg(long, value_name = "C,H,W")]
    pub shape: Option<ImageShape>,
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// QCS-SGM+: expectation propagation
    Ep,
    /// QCS-SGM: diagonal approximation
    Diag,
    /// One after the other, on the same problem with the same noise
    Both,
}

impl MethodChoice {
    pub fn methods(self) -> Vec<Method> {
        match self {
            Self::Ep => vec![Method::Ep],
            Self::Diag => vec![Method::Diag],
            Self::Both => vec![Method::Diag, Method::Ep],
        }
    }
}

/// The first message of EP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StartChoice {
    /// tau = 1, as in the paper's code
    Unit,
    /// tau = 1/mean diag(C⁻¹)
    Matched,
}

impl From<StartChoice> for EpStart {
    fn from(choice: StartChoice) -> Self {
        match choice {
            StartChoice::Unit => Self::Unit,
            StartChoice::Matched => Self::Matched,
        }
    }
}

/// How images are measured.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Measurements")]
pub struct MeasureFlags {
    /// Index of the first image to take [default: 0]
    #[arg(long, value_name = "I")]
    pub first: Option<usize>,
    /// Law of A (gaussian, row-orthogonal, ill-conditioned, correlated) or a file with A (.npy, .safetensors)
    /// [default: gaussian]
    #[arg(long, value_name = "LAW|FILE")]
    pub matrix: Option<String>,
    /// Condition of the ill-conditioned A: singular values fall by kappa^(1/M)
    #[arg(long, value_name = "KAPPA")]
    pub kappa: Option<f64>,
    /// Correlation of the correlated A, 0 ≤ rho < 1
    #[arg(long, value_name = "RHO")]
    pub rho: Option<f64>,
    /// M, the measurements of each image [default: the preset's]
    #[arg(long, short = 'm', value_name = "M")]
    pub measurements: Option<usize>,
    /// Standard deviation of the noise before quantisation [default: 0.05]
    #[arg(long, value_name = "SIGMA")]
    pub sigma: Option<f64>,
    /// Bits of the quantiser, 1 to 8 [default: 1]
    #[arg(long, value_name = "BITS")]
    pub bits: Option<u8>,
    /// Step of the quantiser [default: the optimum for the preset's data]
    #[arg(long, value_name = "STEP")]
    pub step: Option<f64>,
}

impl MeasureFlags {
    /// The first flag that is given, if any.
    pub fn given(&self) -> Option<&'static str> {
        [
            ("--first", self.first.is_some()),
            ("--matrix", self.matrix.is_some()),
            ("--kappa", self.kappa.is_some()),
            ("--rho", self.rho.is_some()),
            ("--measurements", self.measurements.is_some()),
            ("--sigma", self.sigma.is_some()),
            ("--bits", self.bits.is_some()),
            ("--step", self.step.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }

    /// The measurement of `images` with everything else at its default.
    pub fn defaults(images: &Path) -> Result<MeasureConfig> {
        Ok(MeasureConfig {
            images: absolute(images)?,
            first: 0,
            count: None,
            matrix: "gaussian".to_owned(),
            kappa: None,
            rho: None,
            measurements: None,
            sigma: 0.05,
            bits: 1,
            step: None,
            mean_square: None,
            seed: 0,
        })
    }

    /// Overwrites what the flags and the preset name.
    pub fn apply(&self, config: &mut MeasureConfig, preset: Option<&Preset>) -> Result<()> {
        if let Some(preset) = preset {
            config.measurements = Some(preset.measurements);
            config.mean_square = Some(preset.mean_square);
        }
        if let Some(matrix) = &self.matrix {
            // Another matrix brings its own parameters and size.
            (config.kappa, config.rho) = (None, None);
            config.matrix = matrix.clone();
            if Path::new(matrix).is_file() {
                config.matrix = absolute(Path::new(matrix))?;
                config.measurements = None;
            }
        }
        config.first = self.first.unwrap_or(config.first);
        config.kappa = self.kappa.or(config.kappa);
        config.rho = self.rho.or(config.rho);
        config.measurements = self.measurements.or(config.measurements);
        config.sigma = self.sigma.unwrap_or(config.sigma);
        if let Some(bits) = self.bits {
            config.bits = bits;
            config.step = None;
        }
        config.step = self.step.or(config.step);
        Ok(())
    }
}

/// Annealed Langevin dynamics.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sampler")]
pub struct SamplerFlags {
    /// First noise level beta_1 [default: the preset's or the model's, as for all that follow]
    #[arg(long, value_name = "BETA")]
    pub sigma_begin: Option<f64>,
    /// Last noise level beta_T
    #[arg(long, value_name = "BETA")]
    pub sigma_end: Option<f64>,
    /// T, the number of noise levels, geometric between the two
    #[arg(long, value_name = "T")]
    pub levels: Option<usize>,
    /// K, Langevin steps at each level
    #[arg(long, value_name = "K")]
    pub steps_per_level: Option<usize>,
    /// Step size over beta²: alpha_t = SCALE·beta_t²
    #[arg(long, value_name = "SCALE", conflicts_with = "epsilon")]
    pub step_scale: Option<f64>,
    /// The same as the paper writes it: alpha_t = EPSILON·beta_t²/beta_T²
    #[arg(long, value_name = "EPSILON")]
    pub epsilon: Option<f64>,
    /// The share of a step's movement that the next one repeats: 0 is the paper's sampler; with the shipped prior, 0.9 gets
    /// as far in a quarter of the steps
    #[arg(long, value_name = "SHARE")]
    pub momentum: Option<f64>,
    /// Skip the final denoising step
    #[arg(long, overrides_with = "denoise")]
    pub no_denoise: bool,
    /// End with the denoising step, where a configuration says otherwise
    #[arg(long)]
    pub denoise: bool,
    /// States worked on at once, or auto for as many as the device has room for: changes speed and memory, never results
    #[arg(long, value_name = "N|auto")]
    pub batch: Option<BatchChoice>,
}

/// How many states at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchChoice {
    Auto,
    Of(usize),
}

impl std::str::FromStr for BatchChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Of).map_err(|_| "a number or auto".to_owned()),
        }
    }
}

/// How the likelihood enters.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Likelihood")]
pub struct LikelihoodFlags {
    /// Adaptive factor of the likelihood: gamma = XI·‖prior score‖/‖likelihood score‖
    #[arg(long, value_name = "XI", conflicts_with = "gamma")]
    pub xi: Option<f64>,
    /// Constant factor of the likelihood instead
    #[arg(long, value_name = "GAMMA")]
    pub gamma: Option<f64>,
    /// EP iterations in each step [default: 5]
    #[arg(long, value_name = "N")]
    pub ep_iters: Option<usize>,
    /// Where EP starts
    #[arg(long, value_name = "START")]
    pub ep_start: Option<StartChoice>,
    /// Samples drawn for each image [default: 1]
    #[arg(long, value_name = "N")]
    pub chains: Option<usize>,
}

/// The path as it will still be right in another folder; names of bundled data stay as they are.
pub fn absolute(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        qcs::Error::usage(format!(
            "{}: the path is not UTF-8, which a configuration must be",
            path.display()
        ))
    })?;
    if [Prior::SHIPPED, demo::DIGITS].contains(&text) {
        return Ok(text.to_owned());
    }
    let absolute: PathBuf = std::path::absolute(path).map_err(|e| qcs::Error::io(path, "read", e))?;
    Ok(absolute.to_str().map_or_else(|| text.to_owned(), str::to_owned))
}

impl LikelihoodFlags {
    pub fn apply(&self, config: &mut RunConfig) {
        let sampler = &mut config.sampler;
        if self.xi.is_some() || self.gamma.is_some() {
            (sampler.xi, sampler.gamma) = (self.xi, self.gamma);
        }
        sampler.ep_iterations = self.ep_iters.unwrap_or(sampler.ep_iterations);
        sampler.ep_start = self.ep_start.map_or(sampler.ep_start, EpStart::from);
        sampler.chains = self.chains.unwrap_or(sampler.chains);
    }
}

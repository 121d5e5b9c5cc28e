//! `qcs bench`: how fast, in the manner of llama-bench: every combination of the lists, one line each.

mod cases;
mod report;

use clap::{Args, ValueEnum};

use qcs::engine::{self, Device, Precision};
use qcs::methods::{PRESETS, Preset};
use qcs::{Error, Result};

use super::Global;
use super::flags::ModelFlags;
use cases::{Setting, Subject};
use report::{Format, Reporter};

/// Measure how fast this machine computes
#[derive(Args)]
#[command(
    long_about = "Times the parts of a reconstruction on a simulated problem: of a model, the bundled prior unless --model names \
                  another, or of networks with random weights, for every combination of the given lists. Mean and standard \
                  deviation over repetitions after a warm-up. Lists are separated by commas.",
    after_help = "Examples:
  qcs bench                                                       the forward pass of the bundled prior
  qcs bench forward turbo --model bundled:photo --shape 3,256,256 --batch 1
  qcs bench forward --preset cifar10 --ngf 128 --batch 8 --device cpu --json
  qcs bench all --preset mnist --ngf 24,128 --batch 1,8           every part
  qcs bench products --preset cifar10 --batch 1,8 --device cuda   our kernel and cuBLAS
  qcs bench step --device cpu,cuda --precision fp32,fp16 --csv    two devices"
)]
pub struct BenchArgs {
    /// What to measure
    #[arg(value_name = "WHAT", value_enum, num_args = 0.., default_value = "forward")]
    what: Vec<What>,
    #[command(flatten)]
    model: ModelFlags,
    /// Networks with random weights for these presets: mnist, cifar10, celeba [default: all, if --network or --ngf is given]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["model", "shape"])]
    preset: Vec<String>,
    /// Their kind: the paper's, or the bundled prior's [default: ncsnv2]
    #[arg(long, value_enum, conflicts_with_all = ["model", "shape"])]
    network: Option<Architecture>,
    /// Their widths [default: 128]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["model", "shape"])]
    ngf: Vec<usize>,
    /// Batch sizes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8")]
    batch: Vec<usize>,
    /// Measurements M [default: the preset's; half as many as values where no preset has images of that shape]
    #[arg(long, short = 'm', value_name = "M")]
    measurements: Option<usize>,
    /// Noise levels of `run`, out of the preset's
    #[arg(long, value_name = "T", default_value_t = 4)]
    levels: usize,
    /// Repetitions
    #[arg(long, short, value_name = "N", default_value_t = 5)]
    repetitions: usize,
    /// Executions before the first repetition
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: usize,
    /// One JSON object per line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Comma-separated values
    #[arg(long)]
    csv: bool,
}

/// A kind of network, with random weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    #[default]
    Ncsnv2,
    Unet,
}

impl Architecture {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ncsnv2 => "ncsnv2",
            Self::Unet => "unet",
        }
    }
}

/// A part of the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// The score network
    Forward,
    /// The likelihood score of QCS-SGM+, five EP iterations
    Ep,
    /// The likelihood score of QCS-SGM
    Diag,
    /// gamma and the Langevin update
    Langevin,
    /// The product with U, EP's largest: by our own code and, where it loads, by cuBLAS
    Products,
    /// One whole step of QCS-SGM+
    Step,
    /// One iteration of turbo: a round of EP, the network, the messages
    Turbo,
    /// A reconstruction by QCS-SGM+ from end to end, over a few noise levels
    Run,
    /// All of these
    All,
}

impl What {
    const PARTS: [Self; 8] = [
        Self::Forward,
        Self::Ep,
        Self::Diag,
        Self::Langevin,
        Self::Products,
        Self::Step,
        Self::Turbo,
        Self::Run,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Ep => "ep",
            Self::Diag => "diag",
            Self::Langevin => "langevin",
            Self::Products => "products",
            Self::Step => "step",
            Self::Turbo => "turbo",
            Self::Run => "run",
            Self::All => "all",
        }
    }
}

/// The most feature maps: a network of more has weights beyond any machine.
const MOST: usize = 4096;

pub fn bench(args: &BenchArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    for (name, list) in [("--ngf", &args.ngf), ("--batch", &args.batch)] {
        if let Some(zero) = list.iter().find(|&&n| n == 0) {
            return Err(Error::usage(format!("{name} {zero}: must be at least 1")));
        }
    }
    if let Some(many) = args.ngf.iter().find(|&&ngf| ngf > MOST) {
        return Err(Error::usage(format!("--ngf {many}: at most {MOST}")));
    }
    if args.repetitions == 0 || args.levels == 0 {
        return Err(Error::usage("--repetitions and --levels must be at least 1"));
    }
    let subjects = args.subjects()?;
    let whats = if args.what.contains(&What::All) {
        What::PARTS.to_vec()
    } else {
        args.what.clone()
    };
    let format = match (args.json, args.csv) {
        (true, _) => Format::JsonLines,
        (_, true) => Format::Csv,
        _ => Format::Markdown,
    };
    let precisions = precisions(global.precision.as_deref())?;
    let mut reporter = Reporter::new(format);
    for device in devices(&global.device)? {
        for &precision in &precisions {
            let mut opened = engine::open(&device, Some(precision), global.threads)?;
            global.note(&opened.engine.describe());
            if let Some(note) = opened.note {
                global.note(&format!("note: {note}"));
            }
            opened.engine.choose_products(global.products());
            let peak = opened.engine.peak_gflops();
            for subject in &subjects {
                let prior = subject.prior()?;
                for &batch in &args.batch {
                    let setting = Setting {
                        subject,
                        prior: &prior,
                        batch,
                        measurements: args.measurements.unwrap_or(subject.preset.measurements),
                        levels: args.levels.min(subject.preset.levels),
                        repetitions: args.repetitions,
                        warm_up: args.warm_up,
                        products: global.products(),
                    };
                    setting.run(&whats, opened.engine.as_mut(), &mut |timing| {
                        reporter.report(&setting, &device, precision, timing, peak)
                    })?;
                }
            }
        }
    }
    reporter.finish()
}

impl BenchArgs {
    /// The model, or a random network for each preset and width.
    fn subjects(&self) -> Result<Vec<Subject>> {
        if self.preset.is_empty() && self.network.is_none() && self.ngf.is_empty() {
            let (name, prior) = self.model.load()?;
            return Ok(vec![Subject::of_model(name, prior)?]);
        }
        let presets: Vec<&Preset> = match self.preset.is_empty() {
            true => PRESETS.iter().collect(),
            false => self
                .preset
                .iter()
                .map(|name| Preset::find(name))
                .collect::<Result<_>>()?,
        };
        let network = self.network.unwrap_or_default();
        let ngf = if self.ngf.is_empty() {
            vec![128]
        } else {
            self.ngf.clone()
        };
        let of = |preset: &Preset| {
            ngf.iter()
                .map(|&ngf| Subject::random(*preset, network, ngf))
                .collect::<Vec<_>>()
        };
        Ok(presets.into_iter().flat_map(of).collect())
    }
}

/// A list of devices; a number after a comma belongs to the GPUs before it.
fn devices(text: &str) -> Result<Vec<Device>> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',') {
        match names.last_mut() {
            Some(last) if part.parse::<usize>().is_ok() => *last = format!("{last},{part}"),
            _ => names.push(part.to_owned()),
        }
    }
    names.iter().map(|name| name.parse()).collect()
}

/// A list of precisions; fp32 where none is named.
fn precisions(list: Option<&str>) -> Result<Vec<Precision>> {
    let names = list.unwrap_or("fp32").split(',');
    names.map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_devices_keeps_the_gpus_of_one_entry_together() {
        let shown = |text: &str| {
            let all: Vec<String> = devices(text).unwrap().iter().map(ToString::to_string).collect();
            all.join(" ")
        };
        assert_eq!(shown("cpu"), "cpu");
        assert_eq!(shown("cpu,cuda:0,1,cuda:2"), "cpu cuda:0,1 cuda:2");
        assert!(devices("0,1").is_err() && devices("cpu,").is_err());
    }
}

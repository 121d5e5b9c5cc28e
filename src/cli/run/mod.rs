//! `qcs run`: from a problem or images to a folder of samples, pictures and metrics.

mod output;
mod several;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;

use qcs::engine::Engine;
use qcs::methods::{self, Options};
use qcs::run::{Batch, Cache, Found, MeasureConfig, Pictures, Reuse, Run, RunConfig, Shard};
use qcs::{Error, Result};

use super::Global;
use super::flags::{Flags, MOST_SEED, MethodFlags, ModelFlags, absolute, is_problem};
pub use output::Output;

/// Reconstruct images from quantised measurements
#[derive(Args)]
#[command(
    long_about = "Draws samples from the posterior of the images, given a problem file or images to measure first, and \
                  writes a folder: samples (.npy and PNG), a grid picture, metrics (.json, .csv) and config.toml, \
                  which --config takes back to repeat the run bit for bit.",
    after_help = "Examples:
  qcs run problem.safetensors --out results                your own measurements
  qcs run digits/ --out results --bits 2 --method diag,ep  measure images first
  qcs run --config results/config.toml --out again         repeat bit for bit
  qcs run 'scans/*.safetensors' --out results --cache svd  many problems; a matrix that is known is not factorised again
  qcs run --resume --out results                           go on after Ctrl-C"
)]
pub struct RunArgs {
    /// A problem file (.safetensors), or images to measure: a folder, PNG, JPEG, idx, npy or npz file. Of several problem files,
    /// or a quoted pattern like 'problems/*.safetensors', each has a folder of its own in --out
    #[arg(value_name = "PROBLEM|IMAGES")]
    pub input: Vec<PathBuf>,
    /// Folder to write to
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// Start from the configuration of another run; flags override it
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub config: Option<PathBuf>,
    /// The paper's settings for a data set: mnist, cifar10 or celeba [default: the one of the model's image shape]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    #[command(flatten)]
    pub model: ModelFlags,
    /// Methods to run one after the other on the same problem with the same noise: a list of diag (QCS-SGM), ep (QCS-SGM+),
    /// turbo, and the baselines bipg, oneshot and linear; or both (diag, ep), or all (diag, ep, turbo) [default: ep]
    #[arg(long, value_name = "LIST")]
    pub method: Option<String>,
    /// How many images to reconstruct [default: all]
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Seed of all that is drawn: the chains, and where images are measured also A and the noise [default: 0]
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u64).range(0..=MOST_SEED as u64))]
    pub seed: Option<u64>,
    /// Reconstruct one share of the images, I/N with I from 1 to N, into a folder of its own in --out: for jobs that run by
    /// themselves; `qcs merge` puts them together. auto takes the task of a Slurm array; see docs/cluster.md
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Continue the unfinished run in the folder
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Replace an earlier run in the folder
    #[arg(long)]
    pub force: bool,
    /// Noise levels that a profiler records, like 10 or 10-12; see docs/profiling.md
    #[arg(long, value_name = "LEVELS")]
    pub profile: Option<String>,
    /// Print the metrics as JSON
    #[arg(long)]
    pub json: bool,
    /// Samples drawn for each image [default: 1]
    #[arg(long, value_name = "N")]
    pub chains: Option<usize>,
    /// States worked on at once, or auto for as many as the device has room for: changes speed and memory, never results
    #[arg(long, value_name = "N|auto")]
    pub batch: Option<Batch>,
    /// Images whose results are held in memory at once: changes memory, never results [default: a thousand states' worth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub block: Option<u64>,
    /// Folder that keeps factorisations of A for later runs: checked when they are read, made when there is none
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Pictures to write beside the arrays: none, the grid of the first hundred images, or all, each image too [default: all
    /// up to 1000 images, grid above]
    #[arg(long, value_name = "WHICH")]
    pub pictures: Option<Pictures>,
    #[command(flatten, next_help_heading = "Measurements")]
    pub measure: Flags<MeasureConfig>,
    #[command(flatten)]
    pub methods: MethodFlags,
}

impl RunArgs {
    /// The share that is asked for.
    fn shard(&self) -> Result<Option<Shard>> {
        match self.shard.as_deref() {
            None => Ok(None),
            Some("auto") => Shard::of_slurm().map(Some),
            Some(text) => {
                let shard = text.parse().map_err(|e: String| Error::setting("shard", e));
                shard.map(Some)
            }
        }
    }

    /// Whether the command line says at all what to run, beside where.
    fn names_a_run(&self) -> bool {
        !self.input.is_empty() || self.config.is_some()
    }

    /// Whether no setting is named that could contradict a run.
    fn is_silent(&self, global: &Global) -> bool {
        let counts = [self.count, self.chains];
        !self.names_a_run()
            && !self.model.given()
            && self.preset.is_none()
            && self.method.is_none()
            && self.seed.is_none()
            && self.batch.is_none()
            && self.block.is_none()
            && self.pictures.is_none()
            && global.precision.is_none()
            && counts.iter().all(Option::is_none)
            && self.measure.is_empty()
            && self.methods.is_empty()
    }

    /// The configuration that the command line asks for: its flags over `base`, of this input if there is one.
    fn over(&self, base: RunConfig, input: Option<&Path>) -> Result<RunConfig> {
        let mut config = base;
        self.model.apply(&mut config)?;
        if self.preset.is_some() {
            config.preset.clone_from(&self.preset);
        }
        if let Some(list) = &self.method {
            let kinds = methods::parse_list(list)?;
            config.methods = kinds.iter().map(|kind| kind.key().to_owned()).collect();
        }
        self.problem(&mut config, input)?;
        config.apply(self.methods.iter())?;
        config.chains = self.chains.unwrap_or(config.chains);
        config.batch = self.batch.unwrap_or(config.batch);
        config.block = self.block.map(|block| block as usize).or(config.block);
        config.pictures = self.pictures.or(config.pictures);
        if let Some(seed) = self.seed {
            config.seed = seed;
            if let Some(measure) = &mut config.measure {
                measure.seed = Some(seed);
            }
        }
        let measures = !self.measure.is_empty();
        if self.model.given() || input.is_some() || self.seed.is_some() || measures {
            config.identity = None;
        }
        Ok(config)
    }

    /// Where the problem comes from: a file, images that are measured, or what the configuration says.
    fn problem(&self, config: &mut RunConfig, input: Option<&Path>) -> Result<()> {
        if let Some(input) = input {
            (config.problem, config.measure) = (None, None);
            (config.first, config.count) = (None, None);
            if is_problem(input) {
                config.problem = Some(absolute(input)?.into());
            } else {
                config.measure = Some(MeasureConfig {
                    images: Some(absolute(input)?),
                    ..MeasureConfig::default()
                });
            }
        }
        config.count = self.count.or(config.count);
        let mut flags = self.measure.options.clone();
        if let Some(matrix) = flags.matrix.as_mut().filter(|matrix| Path::new(matrix).is_file()) {
            *matrix = absolute(Path::new(matrix))?;
        }
        match &mut config.measure {
            Some(measure) => {
                flags.count = self.count;
                *measure = flags.over(std::mem::take(measure));
            }
            None if config.problem.is_none() => {
                return Err(Error::usage(
                    "what should be reconstructed? Name a problem file, images, or --config FILE",
                ));
            }
            None => {
                config.first = flags.first.take().or(config.first);
                if let Some(flag) = self.measure.given.iter().find(|flag| **flag != "first") {
                    return Err(Error::usage(format!(
                        "--{} is about measuring images, but a problem file holds its measurements already",
                        flag.replace('_', "-")
                    )));
                }
            }
        }
        Ok(())
    }
}

pub fn run(args: &RunArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    let inputs = several::expanded(&args.input)?;
    let mut command = RunCommand {
        args,
        global,
        shared: Reuse::default(),
        cache: args.cache.as_ref().map(Cache::new),
        engine: None,
    };
    match inputs.as_slice() {
        [] => command.run(None, &args.out),
        [input] => command.run(Some(input), &args.out),
        inputs => several::run(&mut command, inputs),
    }
}

/// What runs of one command have in common.
struct RunCommand<'a> {
    args: &'a RunArgs,
    global: &'a Global,
    shared: Reuse,
    cache: Option<Cache>,
    /// From the first run on that needs it
    engine: Option<Box<dyn Engine>>,
}

impl RunCommand<'_> {
    /// Runs one problem, or what the configuration says, into a folder.
    fn run(&mut self, input: Option<&Path>, out: &Path) -> Result<()> {
        let (args, global) = (self.args, self.global);
        let shard = args.shard()?;
        let own = shard.map_or_else(|| out.to_owned(), |shard| shard.folder(out));
        let mut output = Output::new(&own, global.quiet || args.json, args.json)?;
        let found = if args.resume {
            output.folder.find()?
        } else {
            Found::Nothing
        };
        if let Found::Finished(config) = &found
            && args.is_silent(global)
        {
            return output.nothing_to_do(config);
        }
        let base = match (&args.config, &found) {
            (Some(path), _) => RunConfig::read(path)?,
            (None, Found::Unfinished(config) | Found::Finished(config)) if input.is_none() => config.clone(),
            _ if args.resume && !args.names_a_run() => {
                let reason = "there is no run to resume here; name a problem file, images, or --config FILE";
                return Err(Error::usage(format!("--out {}: {reason}", out.display())));
            }
            _ => RunConfig::default(),
        };
        let mut config = args.over(base, input)?;
        config.shard = shard.or(config.shard);
        if let Found::Unfinished(begun) | Found::Finished(begun) = &found {
            // Neither changes a result, but the state that is kept is of one batch and one block.
            if args
                .batch
                .is_some_and(|batch| batch != begun.batch && batch != Batch::AUTO)
                || args.block.is_some()
            {
                global.note("note: a run goes on with the batches and blocks that it began with");
            }
            (config.batch, config.block) = (begun.batch, begun.block);
        }
        if self.engine.is_none() {
            self.engine = Some(global.engine_for(config.precision)?);
        }
        let engine = self.engine.as_mut().expect("just opened").as_mut();
        let run = Run::load_sharing(config, engine, &mut self.shared)?;
        if let Some(stages) = &args.profile {
            engine.profile(stages_of(stages, run.stages())?)?;
        }
        if let Some(input) = input.filter(|input| output.folder.owns(input)) {
            let (out, input) = (out.display(), input.display());
            let reason = format!("the run would replace its input {input}: choose another folder");
            return Err(Error::usage(format!("--out {out}: {reason}")));
        }
        output.claim(&run, &found, args.force)?;
        let ended = match &found {
            Found::Finished(config) => output.nothing_to_do(config),
            _ => output.execute(&run, engine, self.cache.as_ref()),
        };
        self.shared.keep(run.problem);
        ended
    }
}

/// "3" or "3-5", of levels or iterations counted from 1.
fn stages_of(text: &str, stages: u32) -> Result<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last && last <= stages => Ok(first..=last),
        _ => Err(Error::usage(format!(
            "--profile {text}: a level or a range like 3-5, of levels 1 to {stages}"
        ))),
    }
}

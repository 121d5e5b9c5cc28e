//! `qcs run`: from a problem or images to a folder of samples, pictures and metrics.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;

use qcs::engine::{Engine, Precision};
use qcs::methods::{self, Flags, Options};
use qcs::output::Diverged;
use qcs::run::{Batch, Found, Lock, MeasureConfig, Run, RunConfig, RunFolder, Shard};
use qcs::{Error, Result};

use super::flags::{MOST_SEED, ModelFlags, absolute, is_problem};
use super::progress::Display;
use super::{Global, signals, table, terminal};

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
  qcs run --resume --out results                           go on after Ctrl-C"
)]
pub struct RunArgs {
    /// A problem file (.safetensors), or images to measure: a folder, PNG, JPEG, idx, npy or npz file
    #[arg(value_name = "PROBLEM|IMAGES")]
    pub input: Option<PathBuf>,
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
    /// Methods to run one after the other on the same problem with the same noise: a list of diag (QCS-SGM), ep (QCS-SGM+)
    /// and turbo, or all [default: ep]
    #[arg(long, value_name = "LIST")]
    pub method: Option<String>,
    /// How many images to reconstruct [default: all]
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Seed of all that is drawn: the chains, and where images are measured also A and the noise [default: 0]
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u64).range(0..=MOST_SEED as u64))]
    pub seed: Option<u64>,
    /// Reconstruct one share of the images, I/N with I from 0, into a folder of its own in --out: for jobs that run by
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
    #[command(flatten, next_help_heading = "Measurements")]
    pub measure: MeasureConfig,
    #[command(flatten)]
    pub flags: Flags,
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
        self.input.is_some() || self.config.is_some()
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
            && global.precision.is_none()
            && counts.iter().all(Option::is_none)
            && self.measure == MeasureConfig::default()
            && self.flags == Flags::default()
    }

    /// The configuration that the command line asks for: its flags over `base`.
    fn over(&self, base: RunConfig) -> Result<RunConfig> {
        let mut config = base;
        self.model.apply(&mut config)?;
        if self.preset.is_some() {
            config.preset.clone_from(&self.preset);
        }
        if let Some(list) = &self.method {
            let kinds = methods::parse_list(list)?;
            config.methods = kinds.iter().map(|kind| kind.key().to_owned()).collect();
        }
        self.problem(&mut config)?;
        config.apply(&self.flags)?;
        config.chains = self.chains.unwrap_or(config.chains);
        config.batch = self.batch.unwrap_or(config.batch);
        if let Some(seed) = self.seed {
            config.seed = seed;
            if let Some(measure) = &mut config.measure {
                measure.seed = Some(seed);
            }
        }
        let measures = self.measure != MeasureConfig::default();
        if self.model.given() || self.input.is_some() || self.seed.is_some() || measures {
            config.identity = None;
        }
        Ok(config)
    }

    /// Where the problem comes from: a file, images that are measured, or what the configuration says.
    fn problem(&self, config: &mut RunConfig) -> Result<()> {
        if let Some(input) = &self.input {
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
        let mut flags = self.measure.clone();
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
                if let Some(name) = flags.to_table().keys().next() {
                    return Err(Error::usage(format!(
                        "--{} is about measuring images, but a problem file holds its measurements already",
                        name.replace('_', "-")
                    )));
                }
            }
        }
        Ok(())
    }
}

pub fn run(args: &RunArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    let shard = args.shard()?;
    let out = shard.map_or_else(|| args.out.clone(), |shard| shard.folder(&args.out));
    let mut output = Output::new(&out, global.quiet || args.json, args.json)?;
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
        (None, Found::Unfinished(config) | Found::Finished(config)) if args.input.is_none() => config.clone(),
        _ if args.resume && !args.names_a_run() => {
            let reason = "there is no run to resume here; name a problem file, images, or --config FILE";
            return Err(Error::usage(format!("--out {}: {reason}", args.out.display())));
        }
        _ => RunConfig::default(),
    };
    let mut config = args.over(base)?;
    config.shard = shard.or(config.shard);
    if let (Found::Unfinished(begun) | Found::Finished(begun), Batch::AUTO) = (&found, config.batch) {
        config.batch = begun.batch;
    }
    let mut engine = global.engine_for(config.precision)?;
    let run = Run::load(config, engine.as_ref())?;
    if let Some(stages) = &args.profile {
        engine.profile(stages_of(stages, run.stages())?)?;
    }
    if let Some(input) = args.input.as_deref().filter(|input| output.folder.owns(input)) {
        let (out, input) = (args.out.display(), input.display());
        let reason = format!("the run would replace its input {input}: choose another folder");
        return Err(Error::usage(format!("--out {out}: {reason}")));
    }
    output.claim(&run, &found, args.force)?;
    match &found {
        Found::Finished(config) => output.nothing_to_do(config),
        _ => output.execute(&run, engine.as_mut()),
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

/// Where the results of a run go.
pub struct Output {
    pub folder: RunFolder,
    quiet: bool,
    json: bool,
    /// Keeps other runs out of the folder, from when it exists
    lock: Option<Lock>,
}

impl Output {
    pub fn new(out: &Path, quiet: bool, json: bool) -> Result<Self> {
        let folder = RunFolder::new(out);
        let lock = out.is_dir().then(|| folder.lock()).transpose()?;
        Ok(Self {
            folder,
            quiet,
            json,
            lock,
        })
    }

    /// Says so; what diverged in the run is an error as it was then.
    pub fn nothing_to_do(&self, config: &RunConfig) -> Result<()> {
        if !self.quiet {
            terminal::note(&format!(
                "{} holds a finished run: nothing to do",
                self.folder.path().display()
            ));
        }
        let states = config.methods.len() * config.count.unwrap_or(0) * config.chains;
        let precision = config.precision.unwrap_or(Precision::Fp32);
        diverged(&self.folder.diverged()?, states, precision)
    }

    /// Takes the folder for the run, or makes sure that the unfinished run found in it is the same: flags may repeat
    /// its settings, but not change them.
    pub fn claim(&mut self, run: &Run, found: &Found, force: bool) -> Result<()> {
        if self.lock.is_none() {
            self.lock = Some(self.folder.lock()?);
        }
        match found {
            Found::Unfinished(config) | Found::Finished(config) if *config == run.config => {
                self.folder.remove_temporaries()
            }
            Found::Unfinished(config) | Found::Finished(config) => Err(Error::usage(format!(
                "--out {} holds a run with other settings or files ({}): --force starts over",
                self.folder.path().display(),
                config.differences(&run.config).join("; ")
            ))),
            _ => self.folder.claim(&run.config, force),
        }
    }

    /// Runs, writes everything, and prints the metrics. Diverged states are an error, but only after that.
    pub fn execute(&self, run: &Run, engine: &mut dyn Engine) -> Result<()> {
        signals::catch()?;
        if !self.quiet {
            run.notes
                .iter()
                .for_each(|note| terminal::note(&format!("note: {note}")));
            terminal::note(&describe(run, engine));
        }
        let results = run.execute(engine, &self.folder, &mut Display::new(self.quiet))?;
        if run.config.shard.is_some() {
            // What is put together later is what the checkpoints hold.
            run.write_manifest(&self.folder)?;
        }
        results.write(&self.folder)?;
        if run.config.shard.is_none() {
            self.folder.remove_checkpoints()?;
        }
        if self.json {
            terminal::print_json(&results.report)?;
        } else {
            let shown = self.folder.path().display();
            terminal::print(&format!(
                "{}\nresults in {shown}\n",
                table::report(&results.report, run.images())
            ))?;
        }
        let states = results.methods.iter().map(|m| m.samples.states.count()).sum();
        diverged(&results.report.diverged, states, engine.precision())
    }
}

fn describe(run: &Run, engine: &dyn Engine) -> String {
    let (images, chains) = (run.images(), run.config.chains);
    let plural = |n: usize, what: &str| {
        if n == 1 {
            format!("1 {what}")
        } else {
            format!("{n} {what}s")
        }
    };
    let a = run.problem.a();
    let bits = run
        .problem
        .quantiser()
        .map_or(String::new(), |q| format!(" of {}", plural(q.bits().into(), "bit")));
    let evaluations = run.evaluations();
    let steps: Vec<String> = match evaluations
        .iter()
        .map(|(_, steps)| steps)
        .collect::<BTreeSet<_>>()
        .len()
    {
        1 => vec![format!("{} steps", evaluations[0].1)],
        _ => evaluations
            .iter()
            .map(|(kind, steps)| format!("{} {steps} steps", kind.title()))
            .collect(),
    };
    let steps = steps.join(", ");
    format!(
        "{}, {} each: {} measurements{bits} of {} pixels; {steps}; {}",
        plural(images, "image"),
        plural(chains, "chain"),
        a.rows(),
        a.cols(),
        engine.describe()
    )
}

/// Lists the states that diverged, of so many.
fn diverged(list: &[Diverged], states: usize, precision: Precision) -> Result<()> {
    for Diverged { method, at } in list {
        let where_to = at.reach.map_or(String::new(), |reach| format!(", to {reach:.1e}"));
        terminal::note(&format!(
            "diverged: {method}, image {}, chain {}, at level {}, step {}{where_to}",
            at.image, at.chain, at.level, at.step
        ));
    }
    match list.len() {
        0 => Ok(()),
        n => Err(Error::Diverged(format!(
            "{n} of {states} states diverged; the results are written, the means are of the others. Try a smaller \
             --step-scale or --xi{}",
            if precision == Precision::Fp32 {
                ""
            } else {
                ", or --precision fp32"
            }
        ))),
    }
}

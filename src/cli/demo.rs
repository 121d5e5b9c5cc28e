//! `qcs demo`: ten digits from one-bit measurements, by every method side by side.

use std::path::PathBuf;

use clap::Args;

use qcs::Result;
use qcs::run::{Found, Run, demo};

use super::Global;
use super::flags::MOST_SEED;
use super::run::Output;

/// Recover ten bundled digits from 1-bit measurements
#[derive(Args)]
#[command(
    long_about = "Measures ten bundled MNIST test digits with an ill-conditioned matrix (400 measurements of 1 bit each, \
                  kappa = 1000, sigma = 0.05) and reconstructs them by QCS-SGM, QCS-SGM+ and turbo. Prints a table and writes a run folder with grid.png. Takes half a minute or so on two cores.",
    after_help = "Examples:
  qcs demo
  qcs demo --out my-demo --seed 1
  qcs demo --json --force > demo.json"
)]
pub struct DemoArgs {
    /// Folder to write to
    #[arg(long, short, value_name = "DIR", default_value = "qcs-demo")]
    out: PathBuf,
    /// Seed of the matrix, the noise and the chains
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MOST_SEED as u64))]
    seed: u64,
    /// Use only the first N digits
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Continue the unfinished demo in the folder
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Replace an earlier run in the folder
    #[arg(long)]
    force: bool,
    /// Print the metrics as JSON
    #[arg(long)]
    json: bool,
}

pub fn demo(args: &DemoArgs, global: &Global) -> Result<()> {
    global.use_threads()?;
    let mut config = demo::config();
    config.seed = args.seed;
    if let Some(measure) = &mut config.measure {
        (measure.seed, measure.count) = (Some(args.seed), args.count);
    }
    let mut output = Output::new(&args.out, global.quiet || args.json, args.json)?;
    let found = if args.resume {
        output.folder.find()?
    } else {
        Found::Nothing
    };
    let begun = match &found {
        Found::Unfinished(config) | Found::Finished(config) => config.precision,
        Found::Nothing | Found::Other => None,
    };
    let mut engine = global.engine_for(begun)?;
    let run = Run::load(config, engine.as_ref())?;
    output.claim(&run, &found, args.force)?;
    match &found {
        Found::Finished(config) => output.nothing_to_do(config),
        _ => output.execute(&run, engine.as_mut(), None),
    }
}

//! `qcs demo`: ten digits from one-bit measurements, by every method side by side, or a photograph.

use std::path::PathBuf;

use clap::Args;

use qcs::run::{Found, Run, demo};
use qcs::{Result, bundled};

use super::Global;
use super::flags::{MOST_SEED, absolute};
use super::run::Output;

/// Recover ten bundled digits from 1-bit measurements, or a photograph from 2-bit ones
#[derive(Args)]
#[command(
    long_about = "Measures ten bundled MNIST test digits with an ill-conditioned matrix (400 measurements of 1 bit each, \
                  kappa = 1000, sigma = 0.05) and reconstructs them by QCS-SGM, QCS-SGM+ and turbo. Prints a table and writes a run folder with grid.png. Takes half a minute or so on two cores.\n\n\
                  With --photo it measures a photograph instead, by a Hadamard transform with random signs: half as many measurements as it has values, of 2 bits each, sigma = 0.02. Least squares and turbo reconstruct it, turbo with four draws and their deviation.",
    after_help = "Examples:
  qcs demo
  qcs demo --out my-demo --seed 1
  qcs demo --photo --out cat
  qcs demo --photo holiday.jpg --out holiday
  qcs demo --json --force > demo.json"
)]
pub struct DemoArgs {
    /// A photograph in the place of the digits: the bundled one, or this file
    #[arg(long, value_name = "IMAGE", num_args = 0..=1, default_missing_value = bundled::PHOTOGRAPH, conflicts_with = "count")]
    photo: Option<PathBuf>,
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
    let mut config = match &args.photo {
        None => demo::config(),
        Some(image) => demo::photo(&absolute(image)?),
    };
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

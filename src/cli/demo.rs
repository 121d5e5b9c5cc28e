//! `qcs demo`: ten digits from one-bit measurements, by every method side by side, or a photograph.

use std::path::{Path, PathBuf};

use clap::Args;

use qcs::files::{LoadOptions, Size, load_images, sides};
use qcs::run::{Found, Run, RunConfig, demo};
use qcs::{Result, bundled};

use super::Global;
use super::flags::{MOST_SEED, absolute};
use super::run::Output;

/// Recover ten bundled digits from 1-bit measurements, or a photograph from 2-bit ones
#[derive(Args)]
#[command(
    long_about = "Measures ten bundled MNIST test digits with an ill-conditioned matrix (400 measurements of 1 bit each, \
                  kappa = 1000, sigma = 0.05) and reconstructs them by QCS-SGM, QCS-SGM+ and turbo. Prints a table and writes a run folder with grid.png. Takes half a minute or so on two cores.\n\n\
                  With --photo it measures a photograph in colour instead, by a Hadamard transform with random signs: half as many measurements as it has values, of 2 bits each, sigma = 0.02. Least squares and turbo reconstruct it, turbo with four draws and their deviation.",
    after_help = "Examples:
  qcs demo
  qcs demo --out my-demo --seed 1
  qcs demo --photo --out cat
  qcs demo --photo holiday.jpg --out holiday
  qcs demo --json --force > demo.json"
)]
pub struct DemoArgs {
    /// A photograph in the place of the digits: the bundled one, or the square in the middle of this one, made smaller to 256×256
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
        Some(image) => photo(image)?,
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

/// The side that a photograph of the user's is made small to: what a demo has time for.
const SIDE: usize = 256;

/// The demo of a photograph: the square in its middle, and at most so many pixels of it.
fn photo(image: &Path) -> Result<RunConfig> {
    let mut config = demo::photo(&absolute(image)?);
    let (height, width) = match sides(image)? {
        Some(sides) => sides,
        None => {
            let shape = load_images(image, &LoadOptions::default())?.shape;
            (shape.height, shape.width)
        }
    };
    let square = |side| Size {
        width: side,
        height: side,
    };
    let side = height.min(width);
    if let Some(measure) = &mut config.measure {
        measure.crop = (height != width).then(|| square(side));
        measure.resize = (side > SIDE).then(|| square(SIDE));
    }
    Ok(config)
}

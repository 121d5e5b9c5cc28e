//! `qcs sample`: what the prior alone believes in.

use std::path::{Path, PathBuf};

use clap::Args;

use qcs::files::npy;
use qcs::likelihood::Likelihood;
use qcs::methods::langevin::Dynamics;
use qcs::methods::{Inputs, Options, Preset, QcsSgmPlus};
use qcs::output::{contact_sheet, png};
use qcs::reconstruct::{Driver, Outcome};
use qcs::run::{Batch, SoloCheckpoint};
use qcs::{Error, Result};

use super::flags::{Flags, MOST_SEED, ModelFlags};
use super::progress::Display;
use super::{Global, signals, target};

/// Draw images from the prior, without measurements
#[derive(Args)]
#[command(
    long_about = "Draws unconditional samples from the prior and writes them as one picture: the quickest way to see what a \
                  model has learnt. The reverse SDE takes one step from each noise level to the next; the paper's annealed \
                  Langevin dynamics is there too.",
    after_help = "Examples:
  qcs sample --count 25 -o sheet.png
  qcs sample --model w.safetensors --count 16 -o sheet.png --samples samples.npy
  qcs sample --count 100 -o sheet.png --levels 200
  qcs sample --count 100 -o sheet.png --langevin --sigma-begin 10 --levels 60 --steps-per-level 3"
)]
pub struct SampleArgs {
    #[command(flatten)]
    model: ModelFlags,
    /// How many images to draw
    #[arg(long, value_name = "N", default_value_t = 25)]
    count: usize,
    /// Picture to write (.png)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Also write the samples as an array [N,C,H,W] (.npy)
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Continue after Ctrl-C: the same command, and the same images as without the interruption
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Replace the files if they exist
    #[arg(long)]
    force: bool,
    /// The paper's settings for a data set: mnist, cifar10 or celeba [default: the one of the model's image shape]
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Seed of the chains
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MOST_SEED as u64))]
    seed: u64,
    /// States worked on at once, or auto for as many as the device has room for: changes speed and memory, never results
    #[arg(long, value_name = "N|auto", default_value = "8")]
    batch: Batch,
    /// Annealed Langevin dynamics instead of the reverse SDE; each of --steps-per-level, --step-scale, --epsilon and --momentum
    /// asks for it too
    #[arg(long, help_heading = "Sampler")]
    langevin: bool,
    #[command(flatten, next_help_heading = "Sampler")]
    settings: Flags<QcsSgmPlus>,
}

/// Whether a setting is about measurements, of which a prior alone has none.
pub fn weighs_measurements(setting: &str) -> bool {
    ["xi", "gamma"].contains(&setting) || setting.starts_with("ep_")
}

/// A picture of more images would be too large to draw.
const MOST: usize = 10_000;

pub fn sample(args: &SampleArgs, global: &Global) -> Result<()> {
    png::check_name(&args.out)?;
    let model: Vec<&Path> = args.model.model.as_deref().into_iter().collect();
    // Nothing can lie beside a device.
    let kept = (args.out.is_file() || !args.out.exists()).then(|| SoloCheckpoint::beside(&args.out));
    let unfinished = kept.as_ref().filter(|kept| kept.exists());
    if let (Some(kept), false, false) = (unfinished, args.resume, args.force) {
        let (out, kept) = (args.out.display(), kept.path().display());
        return Err(Error::usage(format!(
            "--out {out} is unfinished ({kept} holds its state): --resume continues it, --force starts over"
        )));
    }
    let force = args.force || args.resume && unfinished.is_some();
    let _out = target::claim("--out", &args.out, force, &model)?;
    let mut _samples = None;
    if let Some(samples) = &args.samples {
        if *samples == args.out {
            return Err(Error::usage("--out and --samples name the same file"));
        }
        _samples = target::claim("--samples", samples, force, &model)?;
    }
    if let Some(name) = args.settings.given.iter().find(|name| weighs_measurements(name)) {
        let flag = name.replace('_', "-");
        return Err(Error::usage(format!(
            "--{flag} weighs measurements, and a prior alone has none"
        )));
    }
    let mut engine = global.engine()?;
    if !(1..=MOST).contains(&args.count) {
        return Err(Error::usage(format!("--count {}: between 1 and {MOST}", args.count)));
    }
    let (name, prior) = args.model.load()?;
    args.model.note(&name, &prior).iter().for_each(|note| global.note(note));
    let shape = prior.image();
    if !matches!(shape.channels, 1 | 3) {
        return Err(Error::usage(format!(
            "the model's images ({shape}) are neither grey nor RGB: no picture of them"
        )));
    }
    let preset = args.preset.as_deref().map(Preset::find).transpose()?;
    let options = args
        .settings
        .options
        .clone()
        .over(QcsSgmPlus::defaults(&prior, preset, "sample", false)?);
    // Without a problem it does not matter which likelihood there would be.
    let mut settings = options.settings(Likelihood::default())?;
    if !args.langevin && !args.settings.options.names_langevin_steps() {
        settings.dynamics = Dynamics::Reverse;
    }
    let mut driver = Driver {
        algorithm: &settings,
        given: Inputs {
            prior: &prior,
            problem: None,
            chains: 1,
        },
        first: 0,
        images: args.count,
        seed: args.seed,
        batch: args.batch.states(),
    };
    if args.batch == Batch::AUTO {
        driver.batch = driver.best_batch(engine.as_ref())?;
    }
    signals::catch()?;
    let (count, steps) = (args.count, settings.steps().len());
    global.note(&format!(
        "{count} images of shape {shape}; {steps} steps; {}",
        engine.describe()
    ));
    let mut display = Display::new(global.quiet);
    display.start("prior");
    // A batch that has begun ends as it is; those after it are of any size.
    let named = format!("{options:?} {:?} {}", settings.dynamics, engine.precision());
    let outcome = match &kept {
        Some(kept) => kept.run(&driver, engine.as_mut(), &named, args.resume, &mut display),
        None => driver.run(engine.as_mut(), None, &mut display),
    };
    display.finish();
    let Outcome::Finished(samples) = outcome? else {
        return Err(Error::Interrupted(
            match kept {
                Some(_) => "stopped; the state is saved: continue with the same command and --resume",
                None => "stopped",
            }
            .to_owned(),
        ));
    };
    let per_row = args.count.isqrt() + usize::from(args.count.isqrt().pow(2) < args.count);
    png::write_picture(&args.out, &contact_sheet(&samples.states, per_row))?;
    if let Some(path) = &args.samples {
        npy::write(
            path,
            &[args.count, shape.channels, shape.height, shape.width],
            &samples.states.data,
        )?;
    }
    kept.map_or(Ok(()), |kept| kept.remove())?;
    match samples.diverged.len() {
        0 => Ok(()),
        n => Err(Error::Diverged(format!(
            "{n} of {} samples diverged: {}",
            args.count,
            match settings.dynamics {
                Dynamics::Langevin(_) => "try a smaller --step-scale",
                Dynamics::Reverse => "try more --levels",
            }
        ))),
    }
}

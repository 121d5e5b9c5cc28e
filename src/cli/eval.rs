//! `qcs eval`: metrics of samples against the truth and the measurements.

use std::path::{Path, PathBuf};

use clap::Args;

use qcs::files::{LoadOptions, ValueRange, load_images, npy};
use qcs::methods::{METHODS, Samples};
use qcs::output::{ImageMetrics, Report};
use qcs::problem::Problem;
use qcs::run::{RunFolder, evaluate};
use qcs::{Error, ImageShape, Images, Result};

use super::flags::is_problem;
use super::{table, terminal};

/// Compare samples with the truth
#[derive(Args)]
#[command(
    long_about = "Prints PSNR and SSIM of samples against the truth (mean ± standard error over images), and with \
                  --problem the share of measurements that the samples are consistent with. Several chains of an image \
                  are averaged first.",
    after_help = "Examples:
  qcs eval results
  qcs eval results/ep/samples.npy --truth digits/ --json
  qcs eval reconstructions/ --truth problem.safetensors --problem problem.safetensors"
)]
pub struct EvalArgs {
    /// A run folder, an array [B,C,H,W] or [B,chains,C,H,W] (.npy), or anything `qcs measure` reads
    #[arg(value_name = "SAMPLES")]
    samples: PathBuf,
    /// True images: whatever `qcs measure` reads, a problem file, or a run folder
    #[arg(long, value_name = "TRUTH")]
    truth: Option<PathBuf>,
    /// Problem file, for the consistency with the measurements
    #[arg(long, value_name = "FILE")]
    problem: Option<PathBuf>,
    /// Print the metrics as JSON
    #[arg(long)]
    json: bool,
}

pub fn eval(args: &EvalArgs) -> Result<()> {
    let folder = RunFolder::new(&args.samples);
    let own_truth = folder.truth();
    let truth = match &args.truth {
        Some(path) => Some(load_truth(path)?),
        None if own_truth.exists() => Some(load_truth(&own_truth)?),
        None => None,
    };
    let problem = args.problem.as_deref().map(Problem::read).transpose()?;
    if truth.is_none() && problem.is_none() {
        return Err(Error::usage("nothing to compare with: give --truth, --problem or both"));
    }
    let shape = truth
        .as_ref()
        .map(|t| t.shape)
        .or_else(|| problem.as_ref().and_then(Problem::shape));
    let mut rows: Vec<ImageMetrics> = Vec::new();
    for (name, path) in sources(&args.samples, &folder)? {
        let estimates = load_estimates(&path, shape)?;
        let metrics = evaluate(&name, &estimates, truth.as_ref(), problem.as_ref());
        rows.extend(metrics.map_err(|e| Error::bad_file(&path, e.to_string()))?);
    }
    let images = rows.iter().map(|row| row.index + 1).max().unwrap_or(0);
    let report = Report::new(rows, &[]);
    if args.json {
        terminal::print_json(&report)
    } else {
        terminal::print(&table::report(&report, images))
    }
}

/// The samples to evaluate: those of each method of a run, or what the path names.
fn sources(path: &Path, folder: &RunFolder) -> Result<Vec<(String, PathBuf)>> {
    if !folder.config().exists() {
        return Ok(vec![("samples".to_owned(), path.to_path_buf())]);
    }
    let found: Vec<_> = METHODS
        .into_iter()
        .map(|method| (method.key().to_owned(), folder.samples(method)))
        .filter(|(_, path)| path.exists())
        .collect();
    if found.is_empty() {
        return Err(Error::bad_file(
            path,
            "the run is not finished: continue it with `qcs run --resume --out`",
        ));
    }
    Ok(found)
}

/// One estimate per image; chains are averaged.
fn load_estimates(path: &Path, shape: Option<ImageShape>) -> Result<Images> {
    if path.extension().is_some_and(|e| e == "npy") {
        let array = npy::read(path)?;
        // Only `qcs run` writes five dimensions; its values are what they are.
        if let [images, chains, channels, height, width] = array.shape[..] {
            let shape = ImageShape::new(channels, height, width);
            if images * chains * shape.len() == 0 {
                return Err(Error::bad_file(path, "holds no images"));
            }
            let states = Images::new(shape, array.to_f32().into_owned());
            return Ok(Samples {
                states,
                chains,
                diverged: Vec::new(),
                seconds: 0.0,
                estimate: None,
            }
            .mean());
        }
    }
    let options = LoadOptions {
        shape,
        range: ValueRange::Estimate,
        ..LoadOptions::default()
    };
    load_images(path, &options)
}

fn load_truth(path: &Path) -> Result<Images> {
    let folder = RunFolder::new(path);
    if folder.config().exists() && folder.truth().exists() {
        return load_truth(&folder.truth());
    }
    if is_problem(path) {
        let problem = Problem::read(path)?;
        let truth = problem.truth().cloned();
        return truth.ok_or_else(|| Error::bad_file(path, "holds no truth: it was not simulated"));
    }
    load_images(path, &LoadOptions::default())
}

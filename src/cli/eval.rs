//! `qcs eval`: metrics of samples against the truth and the measurements.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

use qcs::files::{LoadOptions, Loaded, ValueRange, load_images, load_named, npy, split_name};
use qcs::methods::{METHODS, Samples};
use qcs::metrics::Calibration;
use qcs::output::{Diverged, ImageMetrics, MethodCalibration, Report};
use qcs::problem::Problem;
use qcs::reconstruct::{compare_digits, evaluate};
use qcs::run::{MeasureConfig, RunConfig, RunFolder};
use qcs::{Error, ImageShape, Images, Result};

use super::flags::{is_problem, taken};
use super::{Global, table, terminal};

/// Compare samples with the truth
#[derive(Args)]
#[command(
    long_about = "Prints PSNR and SSIM of samples against the truth (mean ± standard error over images), and the share of \
                  measurements that the samples are consistent with. Every metric is of the image clipped to [0, 1]. A run \
                  folder knows its problem, its truth and which images they are; of other samples --truth and --problem must \
                  hold as many images, or --first says where theirs begin. Several chains of an image are averaged first. Several \
                  folders or arrays stand side by side in one table.",
    after_help = "Examples:
  qcs eval results
  qcs eval bits1 bits2 bits3
  qcs eval results/ep/samples.npy --truth digits/ --json
  qcs eval results --coverage
  qcs eval mine.npy --truth t10k-images-idx3-ubyte --first 100
  qcs eval reconstructions/ --truth problem.safetensors --problem problem.safetensors"
)]
pub struct EvalArgs {
    /// Run folders, arrays [B,C,H,W] or [B,chains,C,H,W] (.npy), or anything `qcs measure` reads
    #[arg(value_name = "SAMPLES", required = true)]
    samples: Vec<PathBuf>,
    /// True images: whatever `qcs measure` reads, a problem file, or a run folder
    #[arg(long, value_name = "TRUTH")]
    truth: Option<PathBuf>,
    /// Problem file, for the consistency with the measurements [default: the run's]
    #[arg(long, value_name = "FILE")]
    problem: Option<PathBuf>,
    /// Index of the first sample's image in the truth and in the problem
    #[arg(long, value_name = "I")]
    first: Option<usize>,
    /// Of several chains: whether they are spread as the truth is
    #[arg(long)]
    coverage: bool,
    /// Of digits like MNIST's: whether each shows the digit it should
    #[arg(long)]
    digits: bool,
    /// Print the metrics as JSON
    #[arg(long)]
    json: bool,
}

pub fn eval(args: &EvalArgs, global: &Global) -> Result<()> {
    let mut reports = Vec::new();
    for samples in &args.samples {
        reports.push(evaluated(samples, args, global)?);
    }
    let (report, images) = match <[_; 1]>::try_from(reports) {
        Ok([one]) => one,
        Err(several) => side_by_side(&args.samples, several)?,
    };
    if args.json {
        terminal::print_json(&report)
    } else {
        terminal::print(&table::report(&report, images))
    }
}

/// One report of several: a method is called by where its samples lie, and by its own name where there is more than one there.
fn side_by_side(paths: &[PathBuf], reports: Vec<(Report, usize)>) -> Result<(Report, usize)> {
    let mut taken = BTreeSet::new();
    let (mut rows, mut diverged, mut calibrations, mut most) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (path, (report, images)) in paths.iter().zip(reports) {
        let several = report.methods.len() > 1;
        let whose = path.display().to_string();
        let whose = whose.trim_end_matches('/');
        let named = |method: String| {
            if several {
                format!("{whose}/{method}")
            } else {
                whose.to_owned()
            }
        };
        for method in &report.methods {
            let name = named(method.method.clone());
            if !taken.insert(name.clone()) {
                return Err(Error::usage(format!("{name} is named twice")));
            }
        }
        rows.extend(report.images.into_iter().map(|row| ImageMetrics {
            method: named(row.method),
            ..row
        }));
        diverged.extend(report.diverged.into_iter().map(|one| Diverged {
            method: named(one.method),
            ..one
        }));
        calibrations.extend(report.calibration.into_iter().map(|one| MethodCalibration {
            method: named(one.method),
            ..one
        }));
        most = most.max(images);
    }
    let report = Report::new(rows, &[])
        .with_diverged(diverged)
        .with_calibration(calibrations);
    Ok((report, most))
}

/// The metrics of one folder or array, and how many images it has.
fn evaluated(samples: &Path, args: &EvalArgs, global: &Global) -> Result<(Report, usize)> {
    let subject = Subject::find(samples, args)?;
    // As a run counts with it: rows of zeros say nothing.
    let problem = subject
        .problem(args, global)?
        .map(|problem| Ok::<_, Error>(problem.balanced()?.0))
        .transpose()?;
    let mut rows: Vec<ImageMetrics> = Vec::new();
    let mut calibrations = Vec::new();
    for (name, path) in subject.sources(samples)? {
        let shape = problem.as_ref().and_then(Problem::shape);
        let Loaded {
            images: estimates,
            names,
            array,
        } = subject.estimates(&name, &path, shape)?;
        if let Some(array) = array {
            global.note(&taken(&path, &array));
        }
        let truth = subject.truth(args, problem.as_ref(), &estimates, global)?;
        if truth.is_none() && problem.is_none() {
            return Err(Error::usage("nothing to compare with: give --truth, --problem or both"));
        }
        let first = subject.first(args);
        if let (Some(problem), None, None) = (&problem, &subject.config, args.first) {
            same_number(&path, &estimates, "the problem", problem.cells().count())?;
        }
        let metrics = evaluate(&name, &estimates, first, truth.as_ref(), problem.as_ref());
        let mut metrics = metrics.map_err(|e| Error::bad_file(&path, e.to_string()))?;
        if args.digits {
            let truth = truth
                .as_ref()
                .ok_or_else(|| Error::usage("--digits: there is no truth to compare with"))?;
            compare_digits(&mut metrics, &estimates, truth);
        }
        if args.coverage {
            let truth = truth
                .as_ref()
                .ok_or_else(|| Error::usage("--coverage: there is no truth to compare with"))?;
            calibrations.push(coverage(&name, &path, truth)?);
        }
        for (index, row) in metrics.iter_mut().enumerate() {
            row.diverged |= subject.is_lost(&name, row.index);
            if let (None, Some(names)) = (&row.name, &names) {
                row.name = Some(names[index].clone());
            }
        }
        rows.extend(metrics);
    }
    let images = rows.iter().map(|row| row.index + 1 - subject.first(args)).max();
    let report = Report::new(rows, &[])
        .with_diverged(subject.diverged)
        .with_calibration(calibrations);
    Ok((report, images.unwrap_or(0)))
}

/// How the draws in a file are spread.
fn coverage(method: &str, path: &Path, truth: &Images) -> Result<MethodCalibration> {
    let few =
        "--coverage takes several samples of each image, an array [B,chains,C,H,W]: `qcs run --chains 8` draws them";
    let array = npy::read(path)?;
    let [_, chains, channels, height, width] = array.shape[..] else {
        return Err(Error::bad_file(path, few));
    };
    let draws = Images::new(ImageShape::new(channels, height, width), array.to_f32().into_owned());
    let calibration = Calibration::of(&draws, chains, truth).ok_or_else(|| Error::bad_file(path, few))?;
    let method = method.to_owned();
    Ok(MethodCalibration { method, calibration })
}

/// What is evaluated: a run folder, or samples of which nothing else is known.
struct Subject<'a> {
    samples: &'a Path,
    folder: RunFolder,
    config: Option<RunConfig>,
    diverged: Vec<Diverged>,
}

impl<'a> Subject<'a> {
    fn find(samples: &'a Path, args: &EvalArgs) -> Result<Self> {
        let folder = RunFolder::new(samples);
        let is_run = folder.config().exists();
        if is_run && args.first.is_some() {
            return Err(Error::usage("--first: a run folder knows which images it holds"));
        }
        Ok(Self {
            samples,
            config: is_run.then(|| RunConfig::read(&folder.config())).transpose()?,
            diverged: if is_run { folder.diverged()? } else { Vec::new() },
            folder,
        })
    }

    /// The samples to evaluate: those of each method of a run, or what the path names.
    fn sources(&self, path: &Path) -> Result<Vec<(String, PathBuf)>> {
        if self.config.is_none() {
            return Ok(vec![("samples".to_owned(), path.to_path_buf())]);
        }
        let found: Vec<_> = METHODS
            .into_iter()
            .map(|method| (method.key().to_owned(), self.folder.samples(method)))
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

    /// The first sample's image in the problem.
    fn first(&self, args: &EvalArgs) -> usize {
        let of_run = self.config.as_ref().and_then(|config| config.first);
        args.first.or(of_run).unwrap_or(0)
    }

    /// Whether no chain of the image in the problem is left.
    fn is_lost(&self, method: &str, image: usize) -> bool {
        let Some(config) = &self.config else { return false };
        let lost = self
            .diverged
            .iter()
            .filter(|d| d.method == method && d.at.image == image);
        lost.count() == config.chains
    }

    /// The problem that is named, or the run's own. One that cannot be had any more is told of, and missed where there is
    /// nothing else to compare with.
    fn problem(&self, args: &EvalArgs, global: &Global) -> Result<Option<Problem>> {
        let problem = match (&args.problem, &self.config) {
            (Some(path), None) => return Problem::read(path).map(Some),
            (None, None) => return Ok(None),
            (Some(path), Some(config)) => {
                let problem = Problem::read(path)?;
                let reason = "is not the problem of the run: leave --problem out, or evaluate its samples.npy";
                if !config.is_of(&problem) {
                    return Err(Error::bad_file(path, reason));
                }
                Ok(problem)
            }
            (None, Some(config)) => {
                let changed = || Error::usage("the run's problem has changed since");
                let problem = config.clone().load_problem();
                problem.and_then(|problem| {
                    if config.is_of(&problem) {
                        Ok(problem)
                    } else {
                        Err(changed())
                    }
                })
            }
        };
        match problem {
            Ok(problem) => Ok(Some(problem)),
            Err(error) if args.truth.is_none() && !self.folder.truth().exists() => Err(error),
            Err(error) if args.problem.is_some() => Err(error),
            Err(error) => {
                global.note(&format!("note: no consistency: {error}"));
                Ok(None)
            }
        }
    }

    /// One estimate per image, all finite: a run's own, or the chains that did not diverge averaged.
    fn estimates(&self, method: &str, path: &Path, shape: Option<ImageShape>) -> Result<Loaded> {
        let own = path.with_file_name("mean.npy");
        if self.config.is_some() && own.exists() {
            let array = npy::read(&own)?;
            if let [_, channels, height, width] = array.shape[..] {
                let images = self.images(&own, ImageShape::new(channels, height, width), &array)?;
                return finite(&own, 1, images).map(Loaded::from);
            }
        }
        if path.extension().is_some_and(|e| e == "npy") {
            let array = npy::read(path)?;
            // Only `qcs run` writes five dimensions; its values are what they are.
            if let [_, chains, channels, height, width] = array.shape[..] {
                let states = self.images(path, ImageShape::new(channels, height, width), &array)?;
                let first = self.config.as_ref().and_then(|config| config.first).unwrap_or(0);
                let of_method = self.diverged.iter().filter(|d| d.method == method);
                let relative = of_method.map(|d| qcs::methods::Divergence {
                    image: d.at.image.saturating_sub(first),
                    ..d.at
                });
                let samples = Samples {
                    states: finite(path, chains, states)?,
                    chains,
                    diverged: relative.collect(),
                    seconds: 0.0,
                    estimate: None,
                };
                return Ok(samples.mean().into());
            }
        }
        let options = LoadOptions {
            shape,
            range: ValueRange::Estimate,
            ..LoadOptions::default()
        };
        let loaded = load_named(path, &options)?;
        let images = finite(path, 1, loaded.images)?;
        Ok(Loaded { images, ..loaded })
    }

    fn images(&self, path: &Path, shape: ImageShape, array: &qcs::files::NpyArray) -> Result<Images> {
        let values = array.to_f32().into_owned();
        if values.is_empty() {
            return Err(Error::bad_file(path, "holds no images"));
        }
        Ok(Images::new(shape, values))
    }

    /// The truth of the estimates, image by image.
    fn truth(
        &self,
        args: &EvalArgs,
        problem: Option<&Problem>,
        estimates: &Images,
        global: &Global,
    ) -> Result<Option<Images>> {
        let Some(path) = &args.truth else {
            let own = self.folder.truth();
            if self.config.is_some() && own.exists() {
                return load_images(own.as_path(), &LoadOptions::default()).map(Some);
            }
            let of_problem = problem.filter(|_| self.config.is_some()).and_then(Problem::truth);
            return Ok(of_problem.map(|truth| truth.part(self.first(args), estimates.count())));
        };
        let (truth, first) = self.named_truth(path, args, estimates, global)?;
        match first {
            Some(first) if truth.count().saturating_sub(first) >= estimates.count() => {
                Ok(Some(truth.part(first, estimates.count())))
            }
            _ => {
                same_number(self.samples, estimates, &path.display().to_string(), truth.count())?;
                Ok(Some(truth))
            }
        }
    }

    /// All images of a truth, and where the estimates' own begin among them, if anybody knows.
    fn named_truth(
        &self,
        path: &Path,
        args: &EvalArgs,
        estimates: &Images,
        global: &Global,
    ) -> Result<(Images, Option<usize>)> {
        let folder = RunFolder::new(path);
        if folder.config().exists() && folder.truth().exists() {
            return Ok((load_images(folder.truth(), &LoadOptions::default())?, args.first));
        }
        if is_problem(path) {
            let problem = Problem::read(path)?;
            let own = self.config.as_ref().filter(|config| config.is_of(&problem));
            let first = args.first.or(own.map(|_| self.first(args)));
            let truth = problem.truth().cloned();
            let truth = truth.ok_or_else(|| Error::bad_file(path, "holds no truth: it was not simulated"))?;
            return Ok((truth, first));
        }
        let measured = self.config.as_ref().and_then(|config| config.measure.as_ref());
        // As the run has cut them, if it measured these.
        let fit = measured
            .filter(|measure| measure.images.as_deref().is_some_and(|images| same_file(images, path)))
            .map_or_else(Default::default, MeasureConfig::fit);
        let options = LoadOptions {
            shape: Some(estimates.shape),
            fit,
            ..LoadOptions::default()
        };
        // Images of another shape are refused when they are compared.
        let truth = load_named(path, &options).or_else(|_| load_named(path, &LoadOptions::default()))?;
        if let Some(array) = &truth.array {
            global.note(&taken(path, array));
        }
        let array = truth.array.or_else(|| split_name(path).1);
        let is_own = |images: &str| same_file(images, path) && array_of(images) == array;
        let own = measured.filter(|measure| measure.images.as_deref().is_some_and(is_own));
        let first = args.first.or(own.map(|measure| measure.first.unwrap_or(0)));
        Ok((truth.images, first))
    }
}

/// Whether two names are of one file, whichever of its arrays they mean.
fn same_file(a: &str, b: &Path) -> bool {
    let ((a, _), (b, _)) = (split_name(Path::new(a)), split_name(b));
    let places = a.canonicalize().ok().zip(b.canonicalize().ok());
    places.is_some_and(|(a, b)| a == b)
}

fn array_of(images: &str) -> Option<String> {
    split_name(Path::new(images)).1
}

/// Refuses to compare the first images of many: they may be any.
fn same_number(path: &Path, estimates: &Images, of: &str, there: usize) -> Result<()> {
    let count = estimates.count();
    if count == there {
        return Ok(());
    }
    let advice = if there > count {
        ": --first says where theirs begin"
    } else {
        ""
    };
    let reason = format!("holds {count} images, but {of} {there}{advice}");
    Err(Error::bad_file(path, reason))
}

/// Refuses what is no number; the states of an image follow each other.
fn finite(path: &Path, chains: usize, states: Images) -> Result<Images> {
    let broken = states.iter().position(|image| image.iter().any(|v| !v.is_finite()));
    match broken {
        None => Ok(states),
        Some(state) => {
            let chain = if chains > 1 {
                format!(", chain {}", state % chains)
            } else {
                String::new()
            };
            let reason = format!("holds NaN or infinity in image {}{chain}", state / chains);
            Err(Error::bad_file(path, reason))
        }
    }
}

//! `qcs info`: what a model, a problem and the machine are.

mod named;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use qcs::engine::Engine;
use qcs::files::sha256_of;
use qcs::methods::{self, Inputs, Method};
use qcs::prior::{Prior, published};
use qcs::problem::Problem;
use qcs::reconstruct::Driver;
use qcs::run::Batch;
use qcs::{Error, Result};

use super::flags::ModelFlags;
use super::{Global, terminal};
use named::Named;
use text::text;

/// Describe a model, a problem and the machine
#[derive(Args)]
#[command(
    long_about = "Describes a file, whatever it is: a model, a problem, images, a run folder. Without one, or beside it: the \
                  model (the shipped one unless --model names another), a problem file, and the machine.",
    after_help = "Examples:
  qcs info
  qcs info results
  qcs info t10k-images-idx3-ubyte.gz
  qcs info --model w.safetensors --problem p.safetensors
  qcs info --problem p.safetensors --json"
)]
pub struct InfoArgs {
    /// A model, a problem, images, or a run folder
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    model: ModelFlags,
    /// Problem file (.safetensors)
    #[arg(long, value_name = "FILE")]
    problem: Option<PathBuf>,
    /// The batch size whose memory is shown [default: 8]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    run: Option<RunInfo>,
    images: Option<ImagesInfo>,
    /// Absent for a file that has nothing to do with one
    model: Option<Model>,
    problem: Option<ProblemInfo>,
    machine: Machine,
}

#[derive(Serialize)]
struct RunInfo {
    folder: String,
    finished: bool,
    methods: Vec<String>,
    images: Option<usize>,
    chains: usize,
    seed: u64,
    /// States that diverged
    diverged: usize,
}

#[derive(Serialize)]
struct ImagesInfo {
    file: String,
    count: usize,
    /// "C,H,W"
    shape: String,
}

#[derive(Serialize)]
struct Model {
    file: String,
    /// What it is, for people
    network: String,
    /// "C,H,W"
    shape: String,
    parameters: usize,
    sigma_begin: Option<f32>,
    sigma_end: Option<f32>,
    levels: Option<usize>,
    /// Of a published network: its family, what it says, the schedule of its training
    facts: BTreeMap<&'static str, String>,
    /// What its file does not say and was inferred
    inferred: Vec<String>,
    /// By the name of each of its files
    sha256: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct ProblemInfo {
    file: String,
    images: usize,
    measurements: usize,
    pixels: usize,
    shape: Option<String>,
    sigma: f64,
    bits: Option<u8>,
    step: Option<f64>,
    matrix: Option<serde_json::Value>,
    /// What A is, for people
    operator: String,
    /// Of A and what else its products need, and of the matrix
    operator_bytes: usize,
    matrix_bytes: usize,
    /// Largest over smallest singular value of A; absent where it would take long to compute
    condition: Option<f64>,
    /// Share of cells that are bounded on both sides
    bounded: f64,
    /// Share of measurements that are lost: (−inf, inf)
    lost: f64,
    truth: bool,
}

#[derive(Serialize)]
struct Machine {
    engine: String,
    /// Where a GPU's kernels come from
    kernels: Option<String>,
    /// States of a batch, and the bytes of device memory that it takes to sample it
    batch: usize,
    batch_bytes: Option<usize>,
    /// Bytes of device memory that are free, where the device says so
    free_bytes: Option<usize>,
    cores: Option<usize>,
    memory_gib: Option<f64>,
    version: &'static str,
    build: &'static str,
}

/// States of a batch: more than any device has room for.
const MOST_BATCH: usize = 1 << 20;
/// A problem with more measurements is not factorised just to be described.
const MOST_FACTORISED: usize = 1000;

pub fn info(args: &InfoArgs, global: &Global) -> Result<()> {
    let engine = global.engine()?;
    let named = Named::find(args)?;
    let (prior, measured) = (named.prior.as_ref(), named.problem.as_ref());
    let told = prior.and_then(|(name, prior)| args.model.note(name, prior));
    told.iter().for_each(|note| global.note(note));
    let info = Info {
        machine: machine(
            engine.as_ref(),
            prior.map(|(_, prior)| prior),
            measured.map(|(_, problem)| problem),
            args.batch,
        )?,
        model: prior.map(|(name, prior)| model(name, prior)).transpose()?,
        problem: measured
            .map(|(name, measured)| problem(name.clone(), measured))
            .transpose()?,
        run: named.run,
        images: named.images,
    };
    if args.json {
        terminal::print_json(&info)
    } else {
        terminal::print(&text(&info))
    }
}

fn model(file: &str, prior: &Prior) -> Result<Model> {
    let schedule = prior.schedule.as_ref();
    let mut sha256 = BTreeMap::new();
    // What is bundled is no file.
    for path in published::files(&prior.source)
        .unwrap_or_default()
        .iter()
        .filter(|path| path.is_file())
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sha256.insert(name, sha256_of(path)?);
    }
    let mut metadata: BTreeMap<String, String> = prior.metadata.clone().into_iter().collect();
    let inferred = metadata
        .extract_if(.., |key, _| key.starts_with("inferred."))
        .map(|(_, note)| note);
    let inferred = inferred.collect();
    Ok(Model {
        file: file.to_owned(),
        network: prior.network().describe(),
        shape: prior.image().to_string(),
        parameters: prior.parameter_count(),
        sigma_begin: schedule.map(|s| s.begin()),
        sigma_end: schedule.map(|s| s.end()),
        levels: schedule.map(|s| s.len()),
        facts: prior.network().facts().into_iter().collect(),
        inferred,
        sha256,
        metadata,
    })
}

fn problem(file: String, problem: &Problem) -> Result<ProblemInfo> {
    let cells = problem.cells();
    let share = |counts: fn(f64, f64) -> bool| {
        let pairs = cells.lower().iter().zip(cells.upper());
        let count = pairs.filter(|(lower, upper)| counts(**lower, **upper)).count();
        count as f64 / cells.lower().len() as f64
    };
    let cheap = problem.known_spectrum().is_some() || problem.a().rows() <= MOST_FACTORISED;
    let condition = if cheap {
        let eigenvalues = &problem.spectrum()?.eigenvalues;
        let (least, most) = eigenvalues
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(l, m), &e| (l.min(e), m.max(e)));
        (least > 0.0).then(|| (most / least).sqrt())
    } else {
        None
    };
    Ok(ProblemInfo {
        file,
        images: cells.count(),
        measurements: cells.m(),
        pixels: problem.a().cols(),
        shape: problem.shape().map(|s| s.to_string()),
        sigma: problem.sigma(),
        bits: problem.quantiser().map(|q| q.bits()),
        step: problem.quantiser().and_then(|q| q.step()),
        matrix: problem
            .origin()
            .and_then(|o| o.ensemble)
            .and_then(|e| serde_json::to_value(e).ok()),
        operator: problem.a().describe(),
        operator_bytes: problem.a().bytes(),
        matrix_bytes: problem.a().rows().saturating_mul(problem.a().cols()).saturating_mul(8),
        condition,
        bounded: share(|lower, upper| lower.is_finite() && upper.is_finite()),
        lost: share(|lower, upper| lower == f64::NEG_INFINITY && upper == f64::INFINITY),
        truth: problem.truth().is_some(),
    })
}

fn machine(
    engine: &dyn Engine,
    prior: Option<&Prior>,
    problem: Option<&Problem>,
    batch: Option<usize>,
) -> Result<Machine> {
    let batch = batch.unwrap_or(Batch::default().states());
    let kind = methods::find(methods::DEFAULT)?;
    // A model without levels: how many steps there will be is not known.
    let method = prior.and_then(|prior| {
        let signs = problem.is_some_and(|problem| problem.cells().are_signs());
        let settings = Method::advised(kind, prior, None, signs);
        settings.and_then(|settings| settings.algorithm()).ok()
    });
    let batch_bytes = match (prior, &method) {
        (Some(prior), Some(method)) => {
            if batch > MOST_BATCH {
                return Err(Error::setting(
                    "batch",
                    format!("must be at most {MOST_BATCH}, not {batch}"),
                ));
            }
            let driver = Driver {
                algorithm: method.as_ref(),
                given: Inputs {
                    prior,
                    problem,
                    chains: 1,
                },
                first: 0,
                images: batch,
                seed: 0,
                batch,
            };
            let unlimited = Driver {
                images: problem.map_or(batch, |problem| batch.min(problem.cells().count())),
                ..driver
            };
            unlimited.check()?;
            Some(driver.bytes(engine, batch))
        }
        _ => None,
    };
    Ok(Machine {
        engine: engine.describe(),
        kernels: engine.kernels(),
        batch,
        batch_bytes,
        free_bytes: engine.free_bytes(),
        cores: std::thread::available_parallelism().ok().map(usize::from),
        memory_gib: memory_gib(),
        version: env!("CARGO_PKG_VERSION"),
        build: env!("QCS_BUILD"),
    })
}

/// Where Linux tells it.
fn memory_gib() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((kib / 1024.0 / 1024.0 * 10.0).round() / 10.0)
}

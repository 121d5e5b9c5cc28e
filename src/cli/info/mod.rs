//! `qcs info`: what a model, a problem and the machine are.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use qcs::Result;
use qcs::engine::Engine;
use qcs::methods::{self, Given};
use qcs::prior::Prior;
use qcs::problem::Problem;
use qcs::run::{Batch, Driver};

use super::flags::ModelFlags;
use super::{Global, terminal};

/// Describe a model, a problem and the machine
#[derive(Args)]
#[command(
    long_about = "Describes the model (the shipped one unless --model names another), a problem file, and the machine.",
    after_help = "Examples:
  qcs info
  qcs info --model w.safetensors --problem p.safetensors
  qcs info --problem p.safetensors --json"
)]
pub struct InfoArgs {
    #[command(flatten)]
    model: ModelFlags,
    /// Problem file (.safetensors)
    #[arg(long, value_name = "FILE")]
    problem: Option<PathBuf>,
    /// States of the batch whose memory is told [default: the preset's]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    model: Model,
    problem: Option<ProblemInfo>,
    machine: Machine,
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

/// A problem with more measurements is not factorised just to be described.
const MOST_FACTORISED: usize = 1000;

pub fn info(args: &InfoArgs, global: &Global) -> Result<()> {
    let engine = global.engine()?;
    let (name, prior) = args.model.load()?;
    let measured = args.problem.as_deref().map(Problem::read).transpose()?;
    let info = Info {
        model: model(&name, &prior),
        machine: machine(engine.as_ref(), &prior, measured.as_ref(), args.batch)?,
        problem: match (&args.problem, &measured) {
            (Some(path), Some(measured)) => Some(problem(path.display().to_string(), measured)?),
            _ => None,
        },
    };
    if args.json {
        terminal::print_json(&info)
    } else {
        terminal::print(&text(&info))
    }
}

fn model(file: &str, prior: &Prior) -> Model {
    let schedule = prior.schedule.as_ref();
    Model {
        file: file.to_owned(),
        network: prior.network().describe(),
        shape: prior.image().to_string(),
        parameters: prior.parameter_count(),
        sigma_begin: schedule.map(|s| s.begin()),
        sigma_end: schedule.map(|s| s.end()),
        levels: schedule.map(|s| s.len()),
        metadata: prior.metadata.clone().into_iter().collect(),
    }
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
        condition,
        bounded: share(|lower, upper| lower.is_finite() && upper.is_finite()),
        lost: share(|lower, upper| lower == f64::NEG_INFINITY && upper == f64::INFINITY),
        truth: problem.truth().is_some(),
    })
}

fn machine(engine: &dyn Engine, prior: &Prior, problem: Option<&Problem>, batch: Option<usize>) -> Result<Machine> {
    let batch = batch.unwrap_or(Batch::default().states());
    let kind = methods::find(methods::DEFAULT)?;
    // A model without levels: how many steps there will be is not known.
    let method = kind
        .defaults(prior, None)
        .and_then(|settings| kind.method(&settings))
        .ok();
    let batch_bytes = match &method {
        Some(method) => {
            let driver = Driver {
                method: method.as_ref(),
                given: Given {
                    prior,
                    problem,
                    chains: 1,
                },
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
        None => None,
    };
    Ok(Machine {
        engine: engine.describe(),
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

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn text(info: &Info) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:14}{value}");
    };
    let model = &info.model;
    line("model", model.file.clone());
    line(
        "  network",
        format!(
            "{}, images {}, {} parameters",
            model.network, model.shape, model.parameters
        ),
    );
    match (model.sigma_begin, model.sigma_end, model.levels) {
        (Some(begin), Some(end), Some(levels)) => line("  levels", format!("{levels}, from {begin} to {end}")),
        _ => line("  levels", "not in the file".to_owned()),
    }
    for (key, value) in &model.metadata {
        line("", format!("{key} = {value}"));
    }
    if let Some(problem) = &info.problem {
        let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        line("problem", problem.file.clone());
        let truth = if problem.truth { ", truth known" } else { "" };
        line(
            "  images",
            format!("{} of shape {}{truth}", problem.images, known(problem.shape.clone())),
        );
        let condition = known(problem.condition.map(|c| format!("{c:.4}")));
        line(
            "  A",
            format!(
                "{} × {}, condition number {condition}",
                problem.measurements, problem.pixels
            ),
        );
        line("  law", known(problem.matrix.as_ref().map(|m| m.to_string())));
        line("  noise", format!("sigma {}", problem.sigma));
        let step = problem.step.map_or(String::new(), |s| format!(", step {s}"));
        line(
            "  quantiser",
            format!("{} bit(s){step}", known(problem.bits.map(|b| b.to_string()))),
        );
        let (bounded, lost) = (100.0 * problem.bounded, 100.0 * problem.lost);
        line(
            "  cells",
            format!("{bounded:.1} % bounded on both sides, {lost:.1} % lost"),
        );
    }
    let machine = &info.machine;
    line("machine", machine.engine.clone());
    if let Some(bytes) = machine.batch_bytes {
        let free = machine
            .free_bytes
            .map_or(String::new(), |free| format!(", of {} free", mib(free)));
        line(
            "  batch",
            format!("of {} states: {bytes} bytes, {}{free}", machine.batch, mib(bytes)),
        );
    }
    line("  cores", machine.cores.map_or("unknown".to_owned(), |c| c.to_string()));
    line(
        "  memory",
        machine.memory_gib.map_or("unknown".to_owned(), |m| format!("{m} GiB")),
    );
    line("qcs", format!("{}, {}", machine.version, machine.build));
    text
}

//! `qcs check`: does this device compute what it should?

mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use clap::Args;

use qcs::engine::cases::{Verdict, cases};
use qcs::engine::cpu::CpuEngine;
use qcs::engine::cuda::CudaEngine;
use qcs::engine::{Device, Engine, Precision};
use qcs::{Error, Result};

use super::{Global, table, target, terminal};
use report::{Gpu, Report};

/// Run every op on the GPU and compare it with plain code
#[derive(Args)]
#[command(
    long_about = "Runs every op on many shapes on the GPU, in every precision it has, compares the results with plain code \
                  on the CPU, and prints a table: the first thing to type on a new machine. Exit code 1 if an op is wrong.",
    after_help = "Examples:
  qcs check                         the first GPU
  qcs check --report check.json     and a file that tells us everything
  qcs check --device cuda:1         another one
  qcs check --device cpu            the CPU, with each of its instruction sets
  qcs check --only conv --all       the convolutions, case by case
  qcs check --part 2/4              the second quarter of the cases"
)]
pub struct CheckArgs {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Only part I of N of the cases, each N-th one: a slow device takes minutes for all
    #[arg(long, alias = "share", value_name = "I/N", default_value = "1/1")]
    part: Part,
    /// List every case, and on a GPU what every kernel takes as the driver sees it, not one line for each op
    #[arg(long)]
    all: bool,
    /// Write device, driver, kernels and every case with its error and its time to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Replace the report if it exists
    #[arg(long)]
    force: bool,
}

/// Part `number` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: usize,
    of: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if number >= 1 && number <= of => Ok(Self { number, of }),
            _ => Err("use I/N with I from 1 to N, like 2/4".into()),
        }
    }
}

/// The cases of one op.
#[derive(Default)]
struct Tally {
    cases: usize,
    wrong: usize,
    /// The largest error, as a share of what is allowed
    worst: f64,
}

type Engines = Vec<Box<dyn Engine>>;

/// The device in each precision that it computes in; the CPU with each of its instruction sets. And what the driver says of
/// a GPU.
fn engines(device: &Device) -> Result<(Engines, Option<Gpu>)> {
    let mut engines = Engines::new();
    let number = match device {
        Device::Cpu => {
            for precision in Precision::ALL {
                for engine in CpuEngine::every(0) {
                    engines.push(Box::new(engine.rounding(precision)));
                }
            }
            return Ok((engines, None));
        }
        Device::Auto => 0,
        Device::Cuda(numbers) if numbers.len() == 1 => numbers[0],
        other => {
            return Err(Error::usage(format!(
                "--device {other}: check is for one device, like cuda:0 or cpu"
            )));
        }
    };
    let single = CudaEngine::new(number, Some(Precision::Fp32))?;
    let gpu = Gpu::of(&single)?;
    let capability = single.properties().capability;
    engines.push(Box::new(single));
    engines.push(Box::new(CudaEngine::new(number, Some(Precision::Fp16))?));
    if capability >= 80 {
        engines.push(Box::new(CudaEngine::new(number, Some(Precision::Tf32))?));
    }
    Ok((engines, Some(gpu)))
}

pub fn check(args: &CheckArgs, global: &Global) -> Result<()> {
    let mut report = Report::default();
    let _claim = args
        .report
        .as_deref()
        .map(|path| target::claim("--report", path, args.force, &[]))
        .transpose()?;
    let checked = run(args, global, &mut report);
    // Of a word that was mistyped there is nothing to report.
    let mistyped = matches!(checked, Err(Error::Usage(_) | Error::Setting { .. }));
    if let Some(path) = args.report.as_ref().filter(|_| !mistyped) {
        // Also of a device that cannot be opened: that is when a report is needed most.
        report.error = checked.as_ref().err().map(ToString::to_string);
        report.write(path)?;
    }
    checked
}

fn run(args: &CheckArgs, global: &Global, report: &mut Report) -> Result<()> {
    let mut ops: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut count, mut wrong) = (0, 0);
    let (mut engines, gpu) = engines(&global.device.parse()?)?;
    let device = engines[0].describe();
    // The last word is of the one engine alone.
    let device = device.rsplit_once(", ").map_or(device.as_str(), |(device, _)| device);
    report.device = Some(device.to_owned());
    report.gpu = gpu;
    let mut number = 0;
    for engine in &mut engines {
        let precision = engine.precision();
        let wanted = cases().into_iter().filter(|case| {
            let named = case.precision == precision && case.name.contains(&args.only);
            number += usize::from(named);
            named && number % args.part.of == args.part.number % args.part.of
        });
        for case in wanted {
            let begun = Instant::now();
            let verdict = case.verdict(engine.as_mut());
            report.add(engine.as_ref(), &verdict, begun.elapsed());
            count += 1;
            let name = verdict.name.split_whitespace().next().unwrap_or_default().to_owned();
            let op = ops.entry(name).or_default();
            op.cases += 1;
            op.worst = op.worst.max(share(&verdict));
            if !verdict.is_correct() {
                op.wrong += 1;
                wrong += 1;
            }
            if args.all || !verdict.is_correct() {
                global.note(&line(&verdict));
            }
        }
    }
    if count == 0 {
        return Err(Error::usage(format!("--only {}: no case has such a name", args.only)));
    }
    let head = ["op", "cases", "worst error / bound", ""].map(str::to_owned).to_vec();
    let rows = ops.iter().map(|(name, op)| {
        let verdict = if op.wrong == 0 {
            "ok".to_owned()
        } else {
            format!("{} WRONG", op.wrong)
        };
        vec![name.clone(), op.cases.to_string(), format!("{:.2}", op.worst), verdict]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let kernels = report.gpu.as_ref().map_or(String::new(), |gpu| gpu.kernels(args.all));
    terminal::print(&format!(
        "{kernels}{}{device}: {} of {count} cases correct\n",
        table::aligned(&rows),
        count - wrong
    ))?;
    match wrong {
        0 => Ok(()),
        _ => Err(Error::Failed(format!("{wrong} of {count} cases are wrong on {device}"))),
    }
}

/// The error as a share of what is allowed; an exact case allows none.
fn share(verdict: &Verdict) -> f64 {
    match verdict.error {
        Ok(0.0) => 0.0,
        Ok(error) => error / verdict.bound,
        Err(_) => f64::INFINITY,
    }
}

fn line(verdict: &Verdict) -> String {
    let state = if verdict.is_correct() { "ok   " } else { "WRONG" };
    match &verdict.error {
        Ok(error) => format!("{state} {:50} error {error:.1e} of {:.1e}", verdict.name, verdict.bound),
        Err(reason) => format!("{state} {:50} {reason}", verdict.name),
    }
}

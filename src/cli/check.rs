//! `qcs check`: does this device compute what it should?

use std::collections::BTreeMap;

use clap::Args;

use qcs::engine::cases::{Verdict, cases};
use qcs::engine::cpu::CpuEngine;
use qcs::engine::cuda::CudaEngine;
use qcs::engine::{DeviceChoice, Engine, Precision};
use qcs::{Error, Result};

use super::{Global, table, terminal};

/// Run every op on the GPU and compare it with plain code
#[derive(Args)]
#[command(
    long_about = "Runs every op on many shapes on the GPU, in every precision it has, compares the results with plain code \
                  on the CPU, and prints a table: the first thing to type on a new machine. Exit code 1 if an op is wrong.",
    after_help = "Examples:
  qcs check                         the first GPU
  qcs check --device cuda:1         another one
  qcs check --device cpu            the CPU, with each of its instruction sets
  qcs check --only conv --all       the convolutions, case by case"
)]
pub struct CheckArgs {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// List every case, not one line for each op
    #[arg(long)]
    all: bool,
}

/// The cases of one op.
#[derive(Default)]
struct Tally {
    cases: usize,
    wrong: usize,
    /// The largest error, as a share of what is allowed
    worst: f64,
}

/// The device in each precision that it computes in; the CPU with each of its instruction sets.
fn engines(device: &DeviceChoice) -> Result<Vec<Box<dyn Engine>>> {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    let number = match device {
        DeviceChoice::Cpu => {
            for precision in Precision::ALL {
                for engine in CpuEngine::every(0) {
                    engines.push(Box::new(engine.rounding(precision)));
                }
            }
            return Ok(engines);
        }
        DeviceChoice::Auto => 0,
        DeviceChoice::Cuda(numbers) if numbers.len() == 1 => numbers[0],
        other => {
            return Err(Error::usage(format!(
                "--device {other}: check is for one device, like cuda:0 or cpu"
            )));
        }
    };
    let single = CudaEngine::new(number, Some(Precision::Fp32))?;
    let capability = single.properties().capability;
    engines.push(Box::new(single));
    engines.push(Box::new(CudaEngine::new(number, Some(Precision::Fp16))?));
    if capability >= 80 {
        engines.push(Box::new(CudaEngine::new(number, Some(Precision::Tf32))?));
    }
    Ok(engines)
}

pub fn check(args: &CheckArgs, global: &Global) -> Result<()> {
    let mut kernels: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut count, mut wrong) = (0, 0);
    let mut engines = engines(&global.device.parse()?)?;
    let device = engines[0].describe();
    // The last word is of the one engine alone.
    let device = device.rsplit_once(", ").map_or(device.as_str(), |(device, _)| device);
    for engine in &mut engines {
        let precision = engine.precision();
        let wanted = cases()
            .into_iter()
            .filter(|case| case.precision == precision && case.name.contains(&args.only));
        for case in wanted {
            let verdict = case.verdict(engine.as_mut());
            count += 1;
            let name = verdict.name.split_whitespace().next().unwrap_or_default().to_owned();
            let kernel = kernels.entry(name).or_default();
            kernel.cases += 1;
            kernel.worst = kernel.worst.max(share(&verdict));
            if !verdict.is_correct() {
                kernel.wrong += 1;
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
    let rows = kernels.iter().map(|(name, kernel)| {
        let verdict = if kernel.wrong == 0 {
            "ok".to_owned()
        } else {
            format!("{} WRONG", kernel.wrong)
        };
        vec![
            name.clone(),
            kernel.cases.to_string(),
            format!("{:.2}", kernel.worst),
            verdict,
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    terminal::print(&format!(
        "{}{device}: {} of {count} cases correct\n",
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

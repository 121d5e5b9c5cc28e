//! `qcs check`: does this GPU compute what it should?

use std::collections::BTreeMap;

use clap::Args;

use qcs::engine::DeviceChoice;
use qcs::engine::cuda::{self, Verdict};
use qcs::{Error, Result};

use super::{Global, table, terminal};

/// Run every kernel on the GPU and compare it with the CPU
#[derive(Args)]
#[command(
    long_about = "Runs every kernel on many shapes on the GPU, compares the results with plain code on the CPU, and prints \
                  a table: the first thing to type on a new machine. Exit code 1 if a kernel is wrong.",
    after_help = "Examples:
  qcs check                         the first GPU
  qcs check --device cuda:1         another one
  qcs check --only conv --all       the convolutions, case by case"
)]
pub struct CheckArgs {
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// List every case, not one line for each kernel
    #[arg(long)]
    all: bool,
}

/// The cases of one kernel.
#[derive(Default)]
struct Kernel {
    cases: usize,
    wrong: usize,
    /// The largest error, as a share of what is allowed
    worst: f64,
}

pub fn check(args: &CheckArgs, global: &Global) -> Result<()> {
    let ordinal = match global.device.parse()? {
        DeviceChoice::Auto => 0,
        DeviceChoice::Cuda(numbers) if numbers.len() == 1 => numbers[0],
        other => {
            return Err(Error::usage(format!(
                "--device {other}: check is for one GPU, like cuda:0; the CPU engine has its tests"
            )));
        }
    };
    let mut kernels: BTreeMap<String, Kernel> = BTreeMap::new();
    let (mut cases, mut wrong) = (0, 0);
    let device = cuda::check(ordinal, &args.only, &mut |verdict| {
        cases += 1;
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
    })?;
    if cases == 0 {
        return Err(Error::usage(format!("--only {}: no case has such a name", args.only)));
    }
    let head = ["kernel", "cases", "worst error / bound", ""]
        .map(str::to_owned)
        .to_vec();
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
        "{}{device}: {} of {cases} cases correct\n",
        table::aligned(&rows),
        cases - wrong
    ))?;
    match wrong {
        0 => Ok(()),
        _ => Err(Error::Failed(format!("{wrong} of {cases} cases are wrong on {device}"))),
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

//! Where a Langevin step spends its time: per op, for a preset's network at a given width, with random weights.
//!
//! `cargo bench --bench step -- [PRESET] [NGF] [BATCH] [M] [REPETITIONS] [--json]`, by default `mnist 128 8 400 3`.
//! `--json` prints one object instead: milliseconds of the network, of the likelihood and of the whole step.

use std::collections::BTreeMap;
use std::time::Duration;

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Constants, Engine, State, Step};
use qcs::plan::{Op, Program};
use qcs::prior::{Ncsnv2, Prior};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::sampler::{Preset, SamplerPlan};
use qcs::{ImageShape, Images};

fn main() -> qcs::Result<()> {
    let json = std::env::args().any(|a| a == "--json");
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let number = |i: usize, default: usize| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let preset = Preset::find(args.first().map_or("mnist", String::as_str))?;
    let (ngf, batch) = (number(1, 128), number(2, 8));
    let (m, repetitions) = (number(3, preset.measurements), number(4, 3));

    let image = ImageShape::new(preset.channels, preset.size, preset.size);
    let prior = Prior::random(Ncsnv2 { ngf, image }, 0);
    let problem = problem(image, m, batch)?;
    let mut engine = CpuEngine::new(0);
    if !json {
        println!(
            "{}, {} ngf = {ngf}, batch {batch}, M = {m}",
            engine.describe(),
            preset.name
        );
    }

    let compiled = SamplerPlan::new(
        &prior.network,
        Some(&problem),
        &preset.settings(),
        batch,
        engine.target(),
    )?;
    let steps = [Step {
        beta: 1.0,
        alpha: 1e-4,
        index: 0,
    }];
    let constants = Constants {
        steps: &steps,
        prior: Some(&prior),
        problem: Some(&problem),
        seed: 0,
    };
    let mut session = engine.session(&compiled.plan, constants)?;
    session.bind(&(0..batch).map(|image| State { image, chain: 0 }).collect::<Vec<_>>())?;
    session.execute(Program::Start, 0)?;
    session.execute(Program::Step, 0)?;

    let mut times: BTreeMap<&str, (Duration, u64)> = BTreeMap::new();
    for _ in 0..repetitions {
        session.execute_timed(Program::Step, 0, &mut |op: &Op, time| {
            let entry = times.entry(op.name()).or_default();
            entry.0 += time;
            entry.1 += op.cost(&compiled.plan).flops;
        })?;
    }
    if json {
        print_json(&times, repetitions);
    } else {
        report(&times, repetitions, compiled.plan.arena_bytes);
    }
    Ok(())
}

fn problem(image: ImageShape, m: usize, batch: usize) -> qcs::Result<Problem> {
    let images = Images::new(image, vec![0.5; batch * image.len()]);
    let simulation = Simulation {
        sigma: 0.05,
        bits: 1,
        step: None,
        mean_square: 0.25,
        seed: 0,
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::IllConditioned { kappa: 1000.0 },
        m,
    };
    Problem::simulate(images, sensing, &simulation)
}

/// Ops of the likelihood, and of the Langevin update itself; the rest is the network.
const LIKELIHOOD: [&str; 9] = [
    "project",
    "ep_start",
    "ep_moments",
    "rotate_in",
    "ep_separate",
    "rotate_out",
    "ep_gradient",
    "diag_gradient",
    "back_project",
];
const UPDATE: [&str; 2] = ["gamma", "langevin"];

/// Milliseconds per step of the given ops.
fn milliseconds(times: &BTreeMap<&str, (Duration, u64)>, ops: &[&str], repetitions: usize) -> f64 {
    let seconds: f64 = ops
        .iter()
        .filter_map(|op| times.get(op))
        .map(|t| t.0.as_secs_f64())
        .sum();
    1e3 * seconds / repetitions as f64
}

fn print_json(times: &BTreeMap<&str, (Duration, u64)>, repetitions: usize) {
    let all: Vec<&str> = times.keys().copied().collect();
    let step = milliseconds(times, &all, repetitions);
    let likelihood = milliseconds(times, &LIKELIHOOD, repetitions);
    let network = step - likelihood - milliseconds(times, &UPDATE, repetitions);
    println!(r#"{{"network_ms": {network:.3}, "likelihood_ms": {likelihood:.3}, "step_ms": {step:.3}}}"#);
}

fn report(times: &BTreeMap<&str, (Duration, u64)>, repetitions: usize, arena_bytes: usize) {
    let total: f64 = times.values().map(|t| t.0.as_secs_f64()).sum();
    let likelihood: f64 = LIKELIHOOD
        .iter()
        .filter_map(|op| times.get(op))
        .map(|t| t.0.as_secs_f64())
        .sum();
    let mut rows: Vec<_> = times.iter().collect();
    rows.sort_by_key(|(_, (time, _))| std::cmp::Reverse(*time));
    println!("{:>18} {:>10} {:>7} {:>9}", "op", "ms/step", "share", "GFLOP/s");
    for (op, (time, flops)) in rows {
        let seconds = time.as_secs_f64();
        let rate = *flops as f64 / seconds / 1e9;
        let rate = if *flops == 0 {
            String::new()
        } else {
            format!("{rate:.1}")
        };
        println!(
            "{op:>18} {:>10.2} {:>6.1}% {rate:>9}",
            1e3 * seconds / repetitions as f64,
            100.0 * seconds / total
        );
    }
    println!("{:>18} {:>10.2}", "whole step", 1e3 * total / repetitions as f64);
    println!(
        "{:>18} {:>10.2} {:>6.1}%",
        "likelihood",
        1e3 * likelihood / repetitions as f64,
        100.0 * likelihood / total
    );
    println!("{:>18} {:>7.0} MB", "arena", arena_bytes as f64 / 1e6);
}

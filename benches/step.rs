//! Where a Langevin step spends its time, for a preset's network at a given width, with random weights, or for a model.
//!
//! `cargo bench --bench step -- [PRESET | MODEL] [NGF] [BATCH] [M] [REPETITIONS] [--layers | --row | --json]`, by default
//! `mnist 128 8 400 3`; a model is a file or a published folder, and its NGF means nothing. One row per kind of op; `--layers` prints one row per convolution and norm, `--row` one row for the
//! table of all problems in `benches/results`, `--bf16` multiplies in bf16, `--json` one object: milliseconds of the network, of the likelihood and of the
//! whole step. In the tables an op counts with its median repetition, in the object with the mean of all, as the time of a
//! whole run does.

mod support;

use std::time::Duration;

use qcs::engine::cpu::{CpuEngine, conv_algorithm};
use qcs::engine::{Constants, Engine, Precision, State};
use qcs::likelihood::Likelihood;
use qcs::methods::QcsSgmPlus;
use qcs::methods::{Algorithm, Inputs, Preset};
use qcs::plan::{Contents, NetworkOp, Op, Plan, Program, Step, TensorId};
use qcs::prior::Prior;
use qcs::problem::Problem;

use support::problem;

fn main() -> qcs::Result<()> {
    let flag = |name: &str| std::env::args().any(|a| a == name);
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let number = |i: usize, default: usize| args.get(i).map_or(default, |a| a.parse().expect("a number"));
    let name = args.first().map_or("mnist", String::as_str);
    let is_model = std::path::Path::new(name).exists();
    let preset = Preset::find(if is_model { "cifar10" } else { name })?;
    let (ngf, batch) = (number(1, 128), number(2, 8));
    let (m, repetitions) = (number(3, preset.measurements), number(4, 3));

    let prior = match is_model {
        true => Prior::open(name.as_ref(), None)?,
        false => Prior::random_of_width(ngf, preset.image(), 0),
    };
    let image = prior.image();
    let problem = problem(image, m, batch)?;
    let precision = if flag("--bf16") {
        Precision::Bf16
    } else {
        Precision::Fp32
    };
    let mut engine = CpuEngine::new(0).rounding(precision);
    let title = format!("{}; {name}, ngf = {ngf}, batch {batch}, M = {m}", engine.describe());
    let settings = QcsSgmPlus::of_preset(preset).settings(Likelihood::default())?;
    let given = Inputs {
        prior: &prior,
        problem: Some(&problem),
        chains: 1,
    };
    let compiled = settings.passes(given)[0].compile(batch, engine.target());
    let measured = measure(&mut engine, &compiled.plan, &prior, &problem, repetitions)?;
    if flag("--json") {
        print_json(&measured);
        return Ok(());
    }
    if flag("--row") {
        print_row(&measured, &format!("{name}, ngf {ngf}, batch {batch}, M = {m}"));
        return Ok(());
    }
    println!("{title}\n");
    if flag("--layers") {
        print_layers(&measured, &compiled.plan);
    } else {
        print_ops(&measured);
    }
    println!("\narena {:.0} MB", compiled.plan.arena_bytes as f64 / 1e6);
    Ok(())
}

/// One op of the step.
struct Measured {
    op: Op,
    flops: u64,
    /// The median
    seconds: f64,
    mean: f64,
}

fn measure(
    engine: &mut CpuEngine,
    plan: &Plan,
    prior: &Prior,
    problem: &Problem,
    repetitions: usize,
) -> qcs::Result<Vec<Measured>> {
    let steps = [Step::plain(1.0, 1e-4, 0)];
    let constants = Constants {
        steps: &steps,
        prior: Some(prior),
        problem: Some(problem),
        ..Constants::default()
    };
    let mut session = engine.session(plan, constants)?;
    session.bind(
        &(0..plan.batch)
            .map(|image| State { image, chain: 0 })
            .collect::<Vec<_>>(),
    )?;
    session.execute(Program::Start, 0)?;
    session.execute(Program::Step, 0)?;
    let instructions = plan.program(Program::Step);
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(repetitions); instructions.len()];
    for _ in 0..repetitions {
        let mut of_op = times.iter_mut();
        session.execute_timed(Program::Step, 0, &mut |_, time| {
            of_op.next().expect("one report per op").push(time);
        })?;
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    };
    let of = |(instruction, times): (&qcs::plan::Instruction, Vec<Duration>)| Measured {
        op: instruction.op,
        flops: instruction.op.cost(plan).flops,
        mean: times.iter().sum::<Duration>().as_secs_f64() / repetitions as f64,
        seconds: median(times),
    };
    Ok(instructions.iter().zip(times).map(of).collect())
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

fn total(measured: &[Measured]) -> f64 {
    measured.iter().map(|m| m.seconds).sum()
}

fn of_ops<'a>(measured: &'a [Measured], ops: &'a [&str]) -> impl Iterator<Item = &'a Measured> {
    measured.iter().filter(|m| ops.contains(&m.op.name()))
}

fn print_json(measured: &[Measured]) {
    let step: f64 = measured.iter().map(|m| m.mean).sum();
    let [likelihood, update] = [&LIKELIHOOD[..], &UPDATE].map(|ops| of_ops(measured, ops).map(|m| m.mean).sum::<f64>());
    let network = step - likelihood - update;
    let [network, likelihood, step] = [network, likelihood, step].map(|seconds| 1e3 * seconds);
    println!(r#"{{"network_ms": {network:.3}, "likelihood_ms": {likelihood:.3}, "step_ms": {step:.3}}}"#);
}

/// A row: the whole step, convolutions, likelihood (A·x and Aᵀ·g included), norm statistics.
fn print_row(measured: &[Measured], problem: &str) {
    let step = total(measured);
    let sum = |ops: &[&str]| of_ops(measured, ops).map(|m| m.seconds).sum::<f64>();
    let (convs, flops) = (
        sum(&["conv"]),
        of_ops(measured, &["conv"]).map(|m| m.flops).sum::<u64>(),
    );
    let share = |seconds: f64| format!("{:.2} ms, {:.1} %", 1e3 * seconds, 100.0 * seconds / step);
    println!(
        "| {problem} | {:.2} ms | {:.2} ms, {:.0} GFLOP/s | {} | {} |",
        1e3 * step,
        1e3 * convs,
        flops as f64 / convs / 1e9,
        share(sum(&LIKELIHOOD)),
        share(sum(&["norm_coefficients"]))
    );
}

/// Milliseconds, share of the step and effective GFLOP/s, as cells of a table.
fn cells(seconds: f64, flops: u64, step: f64) -> String {
    let rate = match flops {
        0 => String::new(),
        _ => format!("{:.0}", flops as f64 / seconds / 1e9),
    };
    format!("{:.2} | {:.1} % | {rate} |", 1e3 * seconds, 100.0 * seconds / step)
}

/// Kinds of ops among those measured, with their number, time and work; the slowest first.
fn kinds<'a>(measured: impl Iterator<Item = &'a Measured>) -> Vec<(&'static str, usize, f64, u64)> {
    let mut kinds: Vec<(&str, usize, f64, u64)> = Vec::new();
    for m in measured {
        match kinds.iter_mut().find(|kind| kind.0 == m.op.name()) {
            Some((_, count, seconds, flops)) => {
                *count += 1;
                *seconds += m.seconds;
                *flops += m.flops;
            }
            None => kinds.push((m.op.name(), 1, m.seconds, m.flops)),
        }
    }
    kinds.sort_by(|a, b| b.2.total_cmp(&a.2));
    kinds
}

fn print_ops(measured: &[Measured]) {
    let step = total(measured);
    println!("| op | count | ms | share | GFLOP/s |\n|---|---|---|---|---|");
    for (name, count, seconds, flops) in kinds(measured.iter()) {
        println!("| {name} | {count} | {}", cells(seconds, flops, step));
    }
    let likelihood = of_ops(measured, &LIKELIHOOD).map(|m| m.seconds).sum();
    println!("| likelihood | | {}", cells(likelihood, 0, step));
    println!("| whole step | | {}", cells(step, 0, step));
}

fn print_layers(measured: &[Measured], plan: &Plan) {
    let step = total(measured);
    println!("| layer | shape | algorithm | ms | share | GFLOP/s |\n|---|---|---|---|---|---|");
    let is_layer = |m: &&Measured| {
        matches!(
            m.op,
            Op::Network(NetworkOp::Conv(_) | NetworkOp::NormCoefficients { .. })
        )
    };
    for m in measured.iter().filter(is_layer) {
        let (name, shape, algorithm) = match m.op {
            Op::Network(NetworkOp::Conv(conv)) => {
                let (inputs, ..) = plan.tensor(conv.input).contents.feature();
                let (outputs, height, width) = plan.tensor(conv.output).contents.feature();
                let dilation = match conv.dilation {
                    1 => String::new(),
                    d => format!(", dilation {d}"),
                };
                let kernel = conv.kernel;
                let shape = format!("{kernel}×{kernel}, {inputs} → {outputs}, {height}×{width}{dilation}");
                (&plan.param(conv.weight).name, shape, conv_algorithm(plan, &conv).name())
            }
            Op::Network(NetworkOp::NormCoefficients { input, gamma, .. }) => {
                (&plan.param(gamma).name, map_shape(plan, input), "norm")
            }
            _ => unreachable!("filtered"),
        };
        let name = name.trim_end_matches(".weight").trim_end_matches(".gamma");
        println!("| {name} | {shape} | {algorithm} | {}", cells(m.seconds, m.flops, step));
    }
    for (name, count, seconds, flops) in kinds(measured.iter().filter(|m| !is_layer(m))) {
        println!("| {name}, {count} in all | | | {}", cells(seconds, flops, step));
    }
    println!("| whole step | | | {}", cells(step, 0, step));
}

fn map_shape(plan: &Plan, id: TensorId) -> String {
    match plan.tensor(id).contents {
        Contents::Feature {
            channels,
            height,
            width,
        } => format!("{channels}, {height}×{width}"),
        _ => String::new(),
    }
}

//! Each op of a Langevin step by itself, at the paper's size: `cargo bench --features bench --bench ops [-- FILTER]`.
//!
//! The throughput of a product counts FLOP of the direct algorithm, that of any other op the bytes of its operands.

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use qcs::ImageShape;
use qcs::engine::cpu::{CpuEngine, conv_algorithm};
use qcs::engine::{Constants, Engine, State};
use qcs::likelihood::Likelihood;
use qcs::methods::ScorePlan;
use qcs::plan::{
    Activation, Contents, Conv, Cost, NetworkOp, Op, Plan, PlanBuilder, Program, SamplerOp, Step, TensorId,
};
use qcs::prior::Prior;

use support::problem;

const BATCH: usize = 8;
const NGF: usize = 128;
const CIFAR10: ImageShape = ImageShape::new(3, 32, 32);
const MEASUREMENTS: usize = 2000;
const LONGEST_SAMPLE: Duration = Duration::from_millis(300);

const STEPS: [Step; 1] = [Step {
    beta: 1.0,
    alpha: 1e-4,
    noise: 0.014,
    momentum: 0.0,
    index: 0,
    stage: 1,
}];

/// Times the op of this name within a program of a plan.
fn bench(c: &mut Criterion, name: &str, plan: &Plan, op: &str, constants: Constants<'_>) {
    let wanted = |o: &&Op| o.name() == op;
    let ops = || plan.program(Program::Step).iter().map(|i| &i.op).filter(wanted);
    let Cost { flops, bytes } = ops().next().expect("the plan has the op").cost(plan);
    let mut engine = CpuEngine::new(0);
    let mut session = engine.session(plan, constants).expect("memory for one op");
    let states: Vec<State> = (0..plan.batch).map(|image| State { image, chain: 0 }).collect();
    session.bind(&states).expect("the CPU does not fail");

    let mut group = c.benchmark_group("ops");
    group.throughput(if flops > 0 {
        Throughput::Elements(flops)
    } else {
        Throughput::Bytes(bytes)
    });
    let count = ops().count() as u64;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let (mut total, mut done, begun) = (Duration::ZERO, 0, Instant::now());
            // The other ops of the program take their time too.
            while done < iterations && begun.elapsed() < LONGEST_SAMPLE {
                let mut report = |o: &Op, time: Duration| {
                    if wanted(&o) {
                        total += time;
                    }
                };
                session
                    .execute_timed(black_box(Program::Step), 0, &mut report)
                    .expect("the CPU does not fail");
                done += count;
            }
            total.mul_f64(iterations as f64 / done as f64)
        });
    });
    group.finish();
}

fn feature(channels: usize, size: usize) -> Contents {
    Contents::Feature {
        channels,
        height: size,
        width: size,
    }
}

/// A plan of one op, between persistent maps of the given shapes.
fn single(input: Contents, output: Contents, op: impl Fn(&mut PlanBuilder, TensorId, TensorId) -> NetworkOp) -> Plan {
    let engine = CpuEngine::new(0);
    let mut plan = PlanBuilder::new(BATCH, engine.target());
    plan.begin(Program::Step);
    let (input, output) = (plan.persistent(input), plan.persistent(output));
    let op = op(&mut plan, input, output);
    plan.push(op);
    plan.finish(engine.target())
}

fn network(c: &mut Criterion) {
    let prior = Prior::random_of_width(NGF, CIFAR10, 0);
    let constants = Constants {
        prior: Some(&prior),
        steps: &STEPS,
        ..Constants::default()
    };
    // Layer, channels in and out, size, kernel, dilation
    for (layer, inputs, outputs, size, kernel, dilation) in [
        ("begin_conv", 3, 128, 32, 3, 1),
        ("res1.0.conv1", 128, 128, 32, 3, 1),
        ("res2.0.shortcut.conv", 128, 256, 16, 1, 1),
        ("refine1.crp.convs.0", 256, 256, 16, 3, 1),
        ("res3.0.conv1", 256, 256, 16, 3, 2),
        ("res4.0.conv1", 256, 256, 16, 3, 4),
        ("end_conv", 128, 3, 32, 3, 1),
    ] {
        let plan = single(feature(inputs, size), feature(outputs, size), |plan, input, output| {
            NetworkOp::Conv(Conv {
                input,
                activation: Activation::Elu,
                weight: plan.param(format!("{layer}.weight"), &[outputs, inputs, kernel, kernel]),
                bias: None,
                residual: None,
                output,
                statistics: None,
                kernel,
                dilation,
            })
        });
        let algorithm = conv_algorithm(&plan, &plan.convs()[0]).name();
        let name =
            format!("conv, {algorithm}, {kernel}×{kernel}, {inputs} → {outputs}, {size}×{size}, dilation {dilation}");
        bench(c, &name, &plan, "conv", constants);
    }
    let norm = single(feature(128, 32), Contents::F32(256), |plan, input, output| {
        let mut param = |what: &str| plan.param(format!("res1.0.normalize1.{what}"), &[128]);
        NetworkOp::NormCoefficients {
            input,
            statistics: None,
            alpha: param("alpha"),
            gamma: param("gamma"),
            beta: param("beta"),
            output,
        }
    });
    bench(c, "norm, 128, 32×32", &norm, "norm_coefficients", constants);
    let map = feature(256, 16);
    let max_pool = single(map, map, |_, input, output| NetworkOp::MaxPool { input, output });
    bench(c, "max pool, 256, 16×16", &max_pool, "max_pool", constants);
    let elu = single(map, map, |_, input, output| NetworkOp::Elu { input, output });
    bench(c, "elu, 256, 16×16", &elu, "elu", constants);
    let resize = single(feature(128, 16), feature(128, 32), |_, input, output| {
        NetworkOp::ResizeAdd {
            input,
            addend: None,
            output,
        }
    });
    bench(c, "resize, 128, 16×16 → 32×32", &resize, "resize_add", constants);
}

fn likelihood(c: &mut Criterion) {
    let problem = problem(CIFAR10, MEASUREMENTS, BATCH).expect("a valid problem");
    let constants = Constants {
        problem: Some(&problem),
        steps: &STEPS,
        ..Constants::default()
    };
    let engine = CpuEngine::new(0);
    let compiled = ScorePlan::of_likelihood(&Likelihood::default(), &problem, BATCH, engine.target());
    for (name, op) in [
        ("A·x", "project"),
        ("EP moments", "ep_moments"),
        ("Uᵀ·h", "rotate_in"),
        ("EP separation", "ep_separate"),
        ("U·h", "rotate_out"),
        ("EP gradient", "ep_gradient"),
        ("Aᵀ·g", "back_project"),
    ] {
        let name = format!("{name}, M = {MEASUREMENTS}");
        bench(c, &name, &compiled.plan, op, constants);
    }
}

fn langevin(c: &mut Criterion) {
    let engine = CpuEngine::new(0);
    let mut plan = PlanBuilder::new(BATCH, engine.target());
    plan.begin(Program::Step);
    let mut state = || plan.persistent(Contents::F32(CIFAR10.len()));
    let (x, prior, score) = (state(), state(), state());
    let (gamma, frozen) = (plan.persistent(Contents::F64(1)), plan.persistent(Contents::U32(1)));
    plan.push(SamplerOp::Langevin {
        x,
        prior,
        likelihood: Some((score, gamma)),
        velocity: None,
        frozen,
    });
    let plan = plan.finish(engine.target());
    let constants = Constants {
        steps: &STEPS,
        ..Constants::default()
    };
    bench(c, "Langevin, 3×32×32", &plan, "langevin", constants);
}

criterion_group! {
    name = ops;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = network, likelihood, langevin
}
criterion_main!(ops);

//! Each op of a Langevin step by itself, at the paper's size: `cargo bench --features bench --bench ops [-- FILTER]`.
//!
//! The cases are those of `qcs::engine::cases`. The throughput of a product counts FLOP of the direct algorithm, that of any
//! other op the bytes of its operands.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use qcs::engine::Engine;
use qcs::engine::cases::{Case, paper_size};
use qcs::engine::cpu::{CpuEngine, conv_algorithm};
use qcs::plan::{Cost, Op, Program};

const LONGEST_SAMPLE: Duration = Duration::from_millis(300);

/// Times the op of a case.
fn bench(c: &mut Criterion, case: &Case) {
    let mut engine = CpuEngine::new(0);
    let setup = case.setup(engine.target());
    let plan = &setup.plan;
    let algorithm = plan.convs().first().map(|conv| conv_algorithm(plan, conv).name());
    let Cost { flops, bytes } = plan.program(Program::Step)[0].op.cost(plan);
    let mut session = engine.session(plan, setup.constants()).expect("memory for one op");
    session.bind(setup.states()).expect("the CPU does not fail");
    let all: Vec<usize> = (0..plan.batch).collect();
    for (tensor, values) in setup.inputs(&all) {
        session.write(tensor, &values).expect("the CPU does not fail");
    }

    let mut group = c.benchmark_group("ops");
    group.throughput(if flops > 0 {
        Throughput::Elements(flops)
    } else {
        Throughput::Bytes(bytes)
    });
    let name = match algorithm {
        Some(algorithm) => format!("{}, {algorithm}", case.name),
        None => case.name.clone(),
    };
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let (mut total, mut done, begun) = (Duration::ZERO, 0, Instant::now());
            while done < iterations && begun.elapsed() < LONGEST_SAMPLE {
                session
                    .execute_timed(black_box(Program::Step), setup.step(), &mut |_: &Op, time| {
                        total += time
                    })
                    .expect("the CPU does not fail");
                done += 1;
            }
            total.mul_f64(iterations as f64 / done as f64)
        });
    });
    group.finish();
}

fn ops(c: &mut Criterion) {
    paper_size().iter().for_each(|case| bench(c, case));
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = ops
}
criterion_main!(all);

//! The likelihood scores against the float64 oracle, and the symmetries that need none.

use crate::engines::every_engine;
use crate::golden::{Golden, relative_error};
use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Constants, Engine, Precision, State};
use qcs::likelihood::{Diag, Ep, EpStart, Likelihood, SettledEp};
use qcs::methods::ScorePlan;
use qcs::plan::{Program, Step};
use qcs::problem::{Cells, Ensemble, Matrix, Problem};

fn ep(iterations: usize) -> Likelihood {
    Likelihood::Ep(Ep {
        iterations,
        start: EpStart::Unit,
    })
}

fn diag() -> Likelihood {
    Likelihood::Diag(Diag)
}

/// The scores of states `x` `[B, N]` of images 0, 1, …, computed `batch` at a time.
fn scores(
    engine: &mut dyn Engine,
    problem: &Problem,
    likelihood: Likelihood,
    x: &[f32],
    beta: f64,
    batch: usize,
) -> Vec<f32> {
    let compiled = ScorePlan::of_likelihood(&likelihood, problem, batch, engine.target());
    let constants = Constants {
        steps: &[Step::default()],
        problem: Some(problem),
        ..Constants::default()
    };
    let mut session = engine.session(&compiled.plan, constants).unwrap();
    let size = batch * problem.a().cols();
    let mut result = vec![0.0; x.len()];
    for (i, (x, result)) in x.chunks_exact(size).zip(result.chunks_exact_mut(size)).enumerate() {
        let states: Vec<State> = (i * batch..(i + 1) * batch)
            .map(|image| State { image, chain: 0 })
            .collect();
        session.bind(&states).unwrap();
        session.write_values(compiled.x, x).unwrap();
        session.write_values(compiled.level, &vec![beta; batch]).unwrap();
        session.execute(Program::Step, 0).unwrap();
        session.read_values(compiled.score, result).unwrap();
    }
    result
}

/// Checks every tensor of a golden file whose name starts with `prefix` on these engines. Bounds are ten times the largest error of
/// portable code, AVX2, sm_70 and sm_80.
fn check(
    engines: &mut [Box<dyn Engine>],
    (file, sigma): (&str, f64),
    prefix: &str,
    likelihood: Likelihood,
    bound: f64,
) {
    let golden = Golden::open(file);
    let shape = golden.shape("A");
    let matrix = || Matrix::from_f64(shape[0], shape[1], golden.f64("A")).unwrap();
    let mut checked = 0;
    for name in golden.names() {
        let Some((beta, bits)) = name.strip_prefix(prefix).and_then(|rest| rest.split_once("_q")) else {
            continue;
        };
        let bounds = |side: &str| golden.f64(&format!("{side}_q{bits}"));
        let cells = Cells::new(shape[0], bounds("lo"), bounds("hi")).unwrap();
        let problem = Problem::new(matrix(), cells, sigma).unwrap();
        let x = golden.f32(&format!("x_b{beta}"));
        for engine in engines.iter_mut() {
            let score = scores(engine.as_mut(), &problem, likelihood, &x, beta.parse().unwrap(), 2);
            let error = relative_error(&score, &golden.f64(&name));
            println!("{} {file} {name}: {error:.1e}", engine.describe());
            assert!(error < bound, "{} {file} {name}: {error:e}", engine.describe());
        }
        checked += 1;
    }
    assert!(checked >= 12, "{file} holds no {prefix}");
}

#[test]
fn ep_and_diag_agree_with_the_oracle_for_every_level_and_bit_count() {
    let mut engines = every_engine(Precision::Fp32);
    for file in ["ep_small_M32_N64.safetensors", "ep_mnist_M400_N784.safetensors"] {
        check(&mut engines, (file, 0.05), "score_ep_exact_b", ep(5), 1.7e-6);
        check(&mut engines, (file, 0.05), "score_diag_exact_b", diag(), 1.7e-6);
    }
}

#[test]
fn ep_and_diag_agree_with_the_oracle_on_ill_conditioned_matrices() {
    let mut engines = every_engine(Precision::Fp32);
    for hard in [
        ("ep_hard_kappa1e3_M64_N144.safetensors", 0.05),
        ("ep_hard_kappa1e6_M48_N108.safetensors", 0.001),
    ] {
        check(&mut engines, hard, "ep_b", ep(5), 2.6e-5);
        check(&mut engines, hard, "diag_b", diag(), 2.9e-7);
    }
}

/// On the CPU alone: 200 iterations take minutes on the emulator, and are the same ops.
#[test]
fn ep_reaches_its_fixed_point_from_either_start_and_damped() {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for engine in CpuEngine::every(2) {
        engines.push(Box::new(engine));
    }
    for (hard, bound) in [
        (("ep_hard_kappa1e3_M64_N144.safetensors", 0.05), 1.9e-5),
        (("ep_hard_kappa1e6_M48_N108.safetensors", 0.001), 7.2e-4),
    ] {
        check(&mut engines, hard, "epconv_b", ep(200), bound);
        let matched = Likelihood::Ep(Ep {
            iterations: 200,
            start: EpStart::Matched,
        });
        check(&mut engines, hard, "epconv_b", matched, bound);
        let settled = Likelihood::Settled(SettledEp {
            iterations: 400,
            tolerance: 1e-9,
        });
        check(&mut engines, hard, "epconv_b", settled, bound);
    }
}

/// States and cells of `images` images for a seeded matrix.
fn random_problem(ensemble: Ensemble, images: usize) -> (Problem, Vec<f32>) {
    let (m, n) = (24, 60);
    let (a, spectrum) = ensemble.build(m, n, 3).unwrap();
    let value = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5;
    let lower: Vec<f64> = (0..images * m)
        .map(|i| if i % 3 == 0 { f64::NEG_INFINITY } else { value(i) })
        .collect();
    let upper: Vec<f64> = (0..images * m)
        .map(|i| if i % 3 == 1 { f64::INFINITY } else { value(i) + 0.7 })
        .collect();
    let x = (0..images * n).map(|i| (2.0 * value(3 * i)) as f32).collect();
    let problem = Problem::new(a, Cells::new(m, lower, upper).unwrap(), 0.1).unwrap();
    let problem = match spectrum {
        Some(spectrum) => problem.with_spectrum(spectrum).unwrap(),
        None => problem,
    };
    (problem, x)
}

#[test]
fn for_a_row_orthogonal_matrix_ep_equals_diag() {
    let (problem, x) = random_problem(Ensemble::RowOrthogonal, 3);
    for mut engine in every_engine(Precision::Fp32) {
        let engine = engine.as_mut();
        for beta in [50.0, 1.0, 0.05] {
            let ep: Vec<f32> = scores(engine, &problem, ep(5), &x, beta, 3);
            let diag: Vec<f64> = scores(engine, &problem, diag(), &x, beta, 3)
                .into_iter()
                .map(f64::from)
                .collect();
            assert!(relative_error(&ep, &diag) < 1e-6, "{}, beta {beta}", engine.describe());
        }
    }
}

#[test]
fn mirrored_measurements_and_states_give_mirrored_scores() {
    let (problem, x) = random_problem(Ensemble::IllConditioned { kappa: 100.0 }, 3);
    let mirror = |values: &[f64]| values.iter().map(|v| -v).collect::<Vec<_>>();
    let cells = problem.cells();
    let mirrored = Cells::new(cells.m(), mirror(cells.upper()), mirror(cells.lower())).unwrap();
    let mirrored = Problem::new(problem.a().clone(), mirrored, 0.1).unwrap();
    let minus_x: Vec<f32> = x.iter().map(|v| -v).collect();
    for mut engine in every_engine(Precision::Fp32) {
        let engine = engine.as_mut();
        for method in [ep(5), diag()] {
            for beta in [50.0, 1.0, 0.05] {
                let plus: Vec<f32> = scores(engine, &problem, method, &x, beta, 3);
                let minus: Vec<f64> = scores(engine, &mirrored, method, &minus_x, beta, 3)
                    .into_iter()
                    .map(|v| -f64::from(v))
                    .collect();
                let error = relative_error(&plus, &minus);
                assert!(error < 1e-6, "{}, {method:?}, beta {beta}: {error}", engine.describe());
            }
        }
    }
}

#[test]
fn a_batch_of_eight_equals_eight_batches_of_one() {
    let (problem, x) = random_problem(Ensemble::IllConditioned { kappa: 1000.0 }, 8);
    for mut engine in every_engine(Precision::Fp32) {
        let engine = engine.as_mut();
        for method in [ep(5), diag()] {
            let together = scores(engine, &problem, method, &x, 1.0, 8);
            let alone = scores(engine, &problem, method, &x, 1.0, 1);
            let same = together.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{}", engine.describe());
        }
    }
}

#[test]
fn a_lost_measurement_does_not_pull() {
    let a = Matrix::from_f64(1, 4, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
    let cells = Cells::new(1, vec![f64::NEG_INFINITY], vec![f64::INFINITY]).unwrap();
    let problem = Problem::new(a, cells, 0.1).unwrap();
    for mut engine in every_engine(Precision::Fp32) {
        for method in [ep(5), diag()] {
            let score = scores(engine.as_mut(), &problem, method, &[0.1, 0.2, 0.3, 0.4], 1.0, 1);
            assert_eq!(score, [0.0; 4], "{}", engine.describe());
        }
    }
}

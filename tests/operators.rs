//! Operators without a matrix against their matrices: on the host, and as EP, the diagonal likelihood and a plan's products
//! see them.

use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Engine, Precision};
use qcs::likelihood::{Diag, Ep, Likelihood, SettledEp};
use qcs::methods::{Inputs, Turbo, likelihood_score};
use qcs::plan::{Contents, PlanBuilder};
use qcs::problem::{
    Cells, Ensemble, Factor, Matrix, Measurements, Operator, Parts, Problem, Sensing, Simulation, Spectrum, Structure,
};
use qcs::reconstruct::{Driver, Unobserved};
use qcs::{ImageShape, Images, Job, Linear, Method, Prior};

mod engines;
mod small;

const SHAPE: ImageShape = ImageShape::new(3, 8, 16);

fn kinds() -> Vec<(Structure, Option<Measurements>)> {
    let some = Some(Measurements::Share(0.4));
    vec![
        (Structure::Hadamard, some),
        (Structure::Dct, some),
        (Structure::Hartley, some),
        (Structure::Hadamard, Some(Measurements::Share(1.0))),
        (Structure::Separable(Ensemble::Gaussian), some),
        (Structure::Separable(Ensemble::IllConditioned { kappa: 900.0 }), some),
        (Structure::Separable(Ensemble::Correlated { rho: 0.5 }), some),
        (Structure::Separable(Ensemble::RowOrthogonal), some),
        (Structure::Blur(0.8), None),
        (Structure::Shrink(2), None),
        (Structure::Mask, some),
        (Structure::Blocks(4), some),
    ]
}

/// Entry by entry.
fn dense(a: &Operator) -> Matrix {
    let (m, n) = (a.rows(), a.cols());
    let mut values = vec![0.0; m * n];
    for column in 0..n {
        let mut unit = vec![0.0; n];
        unit[column] = 1.0;
        for (row, value) in a.times(&unit).into_iter().enumerate() {
            values[row * n + column] = value;
        }
    }
    Matrix::from_f64(m, n, values).unwrap()
}

fn vector(len: usize, seed: u64) -> Vec<f64> {
    let word = |at: usize| {
        (at as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed)
            .rotate_left(31)
            >> 11
    };
    (0..len).map(|at| word(at) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

fn near(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1e-300f64, |most, b| most.max(b.abs()));
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= tolerance * scale, "{what}: {a} for {b}");
    }
}

#[test]
fn every_kind_multiplies_as_its_matrix_does() {
    for (kind, m) in kinds() {
        let a = kind.draw(SHAPE, m, 5).unwrap();
        let matrix = dense(&a);
        let (x, z) = (vector(a.cols(), 1), vector(a.rows(), 2));
        let name = kind.to_string();
        near(&a.times(&x), &matrix.times(&x), 1e-13, &name);
        near(&a.transpose_times(&z), &matrix.transpose_times(&z), 1e-13, &name);
        near(&a.diag(), &matrix.diag(), 1e-12, &name);
    }
}

#[test]
fn eigenvalues_and_rotation_are_those_of_the_matrix() {
    for (kind, m) in kinds() {
        let a = kind.draw(SHAPE, m, 5).unwrap();
        let name = kind.to_string();
        let mut known = a.eigenvalues().unwrap().to_vec();
        known.sort_by(|a, b| b.total_cmp(a));
        near(&known, &Spectrum::of(&dense(&a)).unwrap().eigenvalues, 1e-12, &name);
        let z = vector(a.rows(), 3);
        let rotated = a.rotated(&z);
        near(&a.rotated_back(&rotated), &z, 1e-12, &name);
        let weighted: Vec<f64> = rotated
            .iter()
            .zip(a.eigenvalues().unwrap())
            .map(|(r, e)| r * e)
            .collect();
        let gram = a.times(&a.transpose_times(&z));
        near(&a.rotated_back(&weighted), &gram, 1e-12, &name);
    }
}

/// Two images measured by the operator, and the same cells with its matrix.
fn twins(a: &Operator) -> [Problem; 2] {
    let pixels = (0..2 * SHAPE.len()).map(|at| (at * 37 % 101) as f32 / 100.0).collect();
    let settings = Simulation {
        bits: 2,
        step: None,
        sigma: 0.05,
        mean_square: 0.3,
        dither: false,
        seed: 3,
    };
    let problem = Problem::simulate(Images::new(SHAPE, pixels), Sensing::Inputs(a.clone()), &settings).unwrap();
    let matrix = Problem::new(dense(a), problem.cells().clone(), problem.sigma()).unwrap();
    [problem, matrix]
}

fn score(engine: &mut dyn Engine, likelihood: &Likelihood, problem: &Problem) -> Vec<f64> {
    let x: Vec<f32> = vector(2 * SHAPE.len(), 7).iter().map(|v| 0.5 + *v as f32).collect();
    let score = likelihood_score(engine, likelihood, problem, &x, 1, 0.3, &mut |_| ()).unwrap();
    score.into_iter().map(f64::from).collect()
}

#[test]
fn likelihood_scores_are_those_of_the_matrix_on_every_engine() {
    let settled = SettledEp {
        iterations: 6,
        tolerance: 1e-3,
    };
    let likelihoods = [
        Likelihood::Ep(Ep::default()),
        Likelihood::Settled(settled),
        Likelihood::Diag(Diag),
    ];
    let mut engines = engines::every_engine(Precision::Fp32);
    for (kind, m) in kinds() {
        let [without, with] = twins(&kind.draw(SHAPE, m, 5).unwrap());
        for likelihood in &likelihoods {
            let expected = score(&mut CpuEngine::new(2), likelihood, &with);
            for engine in &mut engines {
                let name = format!("{kind}, {likelihood:?}, {}", engine.describe());
                near(&score(engine.as_mut(), likelihood, &without), &expected, 1e-5, &name);
            }
        }
    }
}

/// Turbo's estimates of the small problem's images and the errors that it predicts.
fn estimates(problem: &Problem) -> Vec<Vec<f64>> {
    let prior = small::prior();
    let options = Turbo {
        evaluations: Some(6),
        tolerance: Some(0.02),
        draw_steps: Some(4),
        draw_spread: Some(1.0),
    };
    let settings = options.settings().unwrap();
    let driver = Driver {
        algorithm: &settings,
        given: Inputs {
            prior: &prior,
            problem: Some(problem),
            chains: 1,
        },
        first: 0,
        images: small::IMAGES,
        seed: 3,
        batch: 3,
    };
    let samples = small::finished(driver.run(&mut CpuEngine::new(2), None, &mut Unobserved));
    let estimate = samples.estimate.unwrap();
    let mean = estimate.mean.data.iter().map(|&v| f64::from(v)).collect();
    vec![mean, estimate.predicted_error.clone()]
}

#[test]
fn turbo_estimates_what_it_estimates_with_the_matrix() {
    let some = Some(Measurements::Share(0.4));
    for (kind, m) in [
        (Structure::Dct, some),
        (Structure::Separable(Ensemble::IllConditioned { kappa: 100.0 }), some),
        (Structure::Shrink(2), None),
        (Structure::Blocks(4), some),
    ] {
        let without = small::problem_by(Sensing::Inputs(kind.draw(small::IMAGE, m, 5).unwrap()));
        let with = Problem::new(dense(without.a()), without.cells().clone(), without.sigma()).unwrap();
        for (ours, theirs) in estimates(&without).iter().zip(&estimates(&with)) {
            near(ours, theirs, 1e-3, &kind.to_string());
        }
    }
}

#[test]
fn nothing_of_the_size_of_a_matrix_is_held_for_photographs() {
    let photograph = ImageShape::new(3, 256, 256);
    let n = photograph.len();
    let half = Some(Measurements::Share(0.5));
    for (kind, m) in [
        (Structure::Hadamard, half),
        (Structure::Separable(Ensemble::IllConditioned { kappa: 1000.0 }), half),
        (Structure::Blur(1.0), None),
        (Structure::Mask, half),
        (Structure::Blocks(16), half),
    ] {
        let a = kind.draw(photograph, m, 5).unwrap();
        // Signs, rows and places, or factors and bases of 256×256: a dozen words for each pixel, where A has M.
        assert!(a.bytes() < 12 * 8 * n, "{kind}: {} bytes", a.bytes());
        let cells = Cells::new(a.rows(), vec![0.0; a.rows()], vec![1.0; a.rows()]).unwrap();
        let problem = Problem::new(a, cells, 0.05).unwrap();
        let engine = CpuEngine::new(1);
        let mut plan = PlanBuilder::new(1, engine.target());
        let x = plan.persistent(Contents::F32(n));
        let level = plan.persistent(Contents::F64(1));
        Likelihood::Ep(Ep::default()).push(&mut plan, &problem, x, level, None);
        let plan = plan.finish(engine.target());
        assert!(plan.arena_bytes < 12 * 8 * n, "{kind}: {} bytes", plan.arena_bytes);
    }
}

#[test]
fn a_file_gives_back_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("problem.safetensors");
    for (kind, m) in kinds() {
        let [problem, _] = twins(&kind.draw(SHAPE, m, 5).unwrap());
        problem.write(&path).unwrap();
        let again = Problem::read(&path).unwrap();
        assert!(again.a() == problem.a(), "{kind}");
        assert_eq!(again.rotates(), problem.rotates());
        assert_eq!(again.cells(), problem.cells());
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size < 60_000, "{kind}: {size} bytes");
    }
}

#[test]
fn parts_that_do_not_fit_are_named_in_one_line() {
    let good = || Parts {
        label: "mine".into(),
        factors: vec![Factor::Dct(3), Factor::Hadamard(8)],
        signs: Some(vec![1.0; 24]),
        order: None,
        rows: Some(vec![0, 5, 7]),
    };
    assert!(Operator::structured(good()).is_ok());
    let refused = |change: &dyn Fn(&mut Parts), part: &str| {
        let mut parts = good();
        change(&mut parts);
        let message = Operator::structured(parts).unwrap_err().to_string();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    };
    refused(&|p| p.rows = Some(vec![0, 5, 5]), "`rows` has 5 twice");
    refused(&|p| p.rows = Some(vec![24]), "must be below 24");
    refused(&|p| p.rows = Some(vec![]), "nothing is measured");
    refused(&|p| p.signs = Some(vec![1.0; 23]), "23 signs for 24 pixels");
    refused(&|p| p.signs = Some(vec![0.5; 24]), "must be 1 or -1");
    refused(&|p| p.order = Some(vec![0]), "1 places for 24 pixels");
    refused(&|p| p.factors[1] = Factor::Hadamard(7), "power of two");
    refused(
        &|p| p.factors = vec![Factor::Identity(usize::MAX), Factor::Identity(2)],
        "elements",
    );
    let skew = Matrix::from_f64(2, 8, (0..16).map(f64::from).collect()).unwrap();
    let choosing = |p: &mut Parts| {
        p.factors[1] = Factor::Matrix(skew.clone());
        p.rows = Some(vec![0, 5]);
    };
    refused(&choosing, "orthogonal rows of one norm");
}

#[test]
fn measurements_are_met_as_nearly_as_the_kind_allows() {
    let rows = |kind: Structure, m| kind.draw(SHAPE, Some(m), 1).map(|a| a.rows());
    assert_eq!(rows(Structure::Hadamard, Measurements::Share(0.5)).unwrap(), 192);
    assert_eq!(rows(Structure::Mask, Measurements::Count(7)).unwrap(), 7);
    assert_eq!(
        rows(Structure::Separable(Ensemble::Gaussian), Measurements::Share(0.5)).unwrap(),
        3 * 6 * 11
    );
    assert_eq!(
        rows(Structure::Separable(Ensemble::Gaussian), Measurements::Count(120)).unwrap(),
        120
    );
    assert_eq!(rows(Structure::Blocks(4), Measurements::Share(0.5)).unwrap(), 192);
    assert!(rows(Structure::Hadamard, Measurements::Count(385)).is_err());
}

#[test]
fn thresholds_of_dither_lie_at_the_cells_ends_and_tell_the_contrast() {
    let image = Images::new(SHAPE, vec![0.4; SHAPE.len()]);
    let a = Structure::Hadamard.draw(SHAPE, None, 5).unwrap();
    let settings = Simulation {
        bits: 1,
        step: None,
        sigma: 0.0,
        mean_square: 0.16,
        dither: true,
        seed: 3,
    };
    let problem = Problem::simulate(image, Sensing::Inputs(a.clone()), &settings).unwrap();
    assert!(!problem.cells().are_signs());
    let x = vec![f64::from(0.4f32); SHAPE.len()];
    let inside = |scale: f64| {
        let z = a.times(&x.iter().map(|x| scale * x).collect::<Vec<f64>>());
        let (lower, upper) = problem.cells().image(0);
        let pairs = z.iter().zip(lower).zip(upper);
        pairs.filter(|((z, lower), upper)| lower <= z && z < upper).count()
    };
    assert_eq!(inside(1.0), problem.cells().m());
    assert!(inside(0.5) < problem.cells().m() && inside(2.0) < problem.cells().m());
    let many = Simulation { bits: 2, ..settings };
    let image = Images::new(SHAPE, vec![0.4; SHAPE.len()]);
    let message = Problem::simulate(image, Sensing::Inputs(a), &many)
        .unwrap_err()
        .to_string();
    assert!(message.contains("dither is for 1 bit"), "{message}");
}

#[test]
fn least_squares_of_fine_cells_of_an_invertible_matrix_give_the_image_back() {
    let a = Matrix::from_f32(
        4,
        4,
        vec![
            2.0, 1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 1.0, 0.0, 0.0, 2.0,
        ],
    )
    .unwrap();
    let x = [0.1, 0.9, 0.4, 0.6];
    let z = a.times(&x);
    let lower: Vec<f64> = z.iter().map(|z| z - 1e-7).collect();
    let upper = z.iter().map(|z| z + 1e-7).collect();
    let problem = Problem::new(a, Cells::new(4, lower, upper).unwrap(), 0.0).unwrap();
    let prior = Prior::random_of_width(8, ImageShape::new(1, 2, 2), 0);
    let found = Job::new(&problem, &prior, Method::Linear(Linear::default()))
        .run()
        .unwrap();
    let error = found
        .mean
        .data
        .iter()
        .zip(x)
        .map(|(&found, x)| (f64::from(found) - x).abs());
    assert!(error.fold(0.0, f64::max) < 1e-5);
}

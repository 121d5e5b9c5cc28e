//! What A, the cells and the noise are measured in, and rows that say nothing or too much, do not change an image.

use std::collections::HashMap;

use qcs::files::npy;
use qcs::problem::{Cells, Factor, Matrix, Operator, Problem};

use crate::support::{Place, Tensors};
use crate::{baselines, turbo};

/// `problem.safetensors` with each row of A and its cells times a factor.
fn write_scaled(place: &Place, name: &str, row: impl Fn(usize) -> f64, sigma: f64) {
    let problem = Problem::read(place.path("problem.safetensors")).unwrap();
    let (m, n) = (problem.a().rows(), problem.a().cols());
    let a = problem
        .a()
        .matrix()
        .unwrap()
        .to_f64()
        .iter()
        .enumerate()
        .map(|(i, a)| a * row(i / n))
        .collect();
    let scaled = |bounds: &[f64]| bounds.iter().enumerate().map(|(i, b)| b * row(i % m)).collect();
    let cells = Cells::new(m, scaled(problem.cells().lower()), scaled(problem.cells().upper())).unwrap();
    let scaled = Problem::new(Matrix::from_f64(m, n, a).unwrap(), cells, sigma).unwrap();
    scaled
        .with_truth(problem.truth().unwrap().clone())
        .unwrap()
        .write(place.path(name))
        .unwrap();
}

/// A structured problem of the same images with its first factor that is a matrix, its cells and its noise times a unit.
fn write_structured(place: &Place, from: &str, to: &str, unit: f64) {
    let problem = Problem::read(place.path(from)).unwrap();
    let mut parts = problem.a().parts().unwrap().clone();
    let times = |matrix: &Matrix| {
        let values = matrix.to_f64().iter().map(|value| value * unit).collect();
        Factor::Matrix(Matrix::from_f64(matrix.rows(), matrix.cols(), values).unwrap())
    };
    let first = parts.factors.iter_mut().find_map(|factor| match factor {
        Factor::Matrix(matrix) => Some(times(matrix)).map(|scaled| (factor, scaled)),
        _ => None,
    });
    match first {
        Some((factor, scaled)) => *factor = scaled,
        // The axis of one channel.
        None => parts.factors[0] = Factor::Matrix(Matrix::from_f64(1, 1, vec![unit]).unwrap()),
    }
    let scaled = |bounds: &[f64]| bounds.iter().map(|bound| bound * unit).collect();
    let (lower, upper) = (scaled(problem.cells().lower()), scaled(problem.cells().upper()));
    let cells = Cells::new(problem.cells().m(), lower, upper).unwrap();
    let sigma = problem.sigma() * unit;
    let scaled = Problem::new(Operator::structured(parts).unwrap(), cells, sigma).unwrap();
    scaled
        .with_truth(problem.truth().unwrap().clone())
        .unwrap()
        .write(place.path(to))
        .unwrap();
}

fn samples(place: &Place, path: &str) -> Vec<f32> {
    npy::read(place.path(path)).unwrap().to_f32().into_owned()
}

const METHODS: [&str; 6] = ["ep", "diag", "turbo", "bipg", "oneshot", "linear"];

/// Powers of two and others, small and large.
const UNITS: [(&str, f64); 4] = [
    ("small", 1.0 / (1u64 << 30) as f64),
    ("large", (1u64 << 30) as f64),
    ("million", 1e6),
    ("billionth", 1e-9),
];

fn run_all(place: &Place, name: &str) {
    place.succeeds(&format!(
        "run {name}.safetensors --out {name} --model model.safetensors --generator vae.safetensors --method {} \
         --levels 5 --evaluations 3 --iterations 2 --projection-steps 5 --restarts 1 --pictures none --quiet",
        METHODS.join(",")
    ));
}

/// Whether a run of a problem in other units gave the images of the run `whole`.
fn assert_same_images(place: &Place, name: &str, whole: &str, unit: f64) {
    for method in METHODS {
        let of = |run: &str| samples(place, &format!("{run}/{method}/samples.npy"));
        let pairs = of(name).into_iter().zip(of(whole));
        let distance = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // A power of two changes no bit. Another unit rounds, and its EP begins at another precision.
        let allowed = match (unit.log2().fract() == 0.0, method) {
            (true, _) => 0.0,
            (false, "ep") => 0.2,
            (false, _) => 1e-3,
        };
        assert!(distance <= allowed, "{name}, {method}: {distance}");
    }
}

#[test]
fn an_image_does_not_depend_on_the_units_of_the_problem_by_any_method() {
    let place = baselines::place(|_, _| {});
    turbo::with_table(&place, |_, _| {});
    place.succeeds("measure images.npy -o problem.safetensors -m 60 --bits 1 --seed 7");
    run_all(&place, "problem");
    for (name, unit) in UNITS {
        write_scaled(&place, &format!("{name}.safetensors"), |_| unit, 0.05 * unit);
        run_all(&place, name);
        assert_same_images(&place, name, "problem", unit);
    }
}

#[test]
fn an_image_does_not_depend_on_the_units_of_an_operator_without_a_matrix() {
    let place = baselines::place(|_, _| {});
    turbo::with_table(&place, |_, _| {});
    for matrix in ["hadamard", "separable"] {
        let drawn = format!("{matrix}.safetensors");
        place.succeeds(&format!(
            "measure images.npy -o {drawn} --matrix {matrix} -m 50% --bits 1 --seed 7"
        ));
        let whole = format!("{matrix}-1");
        write_structured(&place, &drawn, &format!("{whole}.safetensors"), 1.0);
        run_all(&place, &whole);
        for (name, unit) in UNITS {
            let name = format!("{matrix}-{name}");
            write_structured(&place, &drawn, &format!("{name}.safetensors"), unit);
            run_all(&place, &name);
            assert_same_images(&place, &name, &whole, unit);
        }
    }
}

#[test]
fn rows_of_zeros_change_nothing_and_are_told_of() {
    let place = Place::new();
    turbo::with_table(&place, |_, _| {});
    place.succeeds("measure images.npy -o problem.safetensors -m 40 --bits 1 --seed 7");
    let zeros = |row: usize| f64::from(u8::from(row % 4 != 3));
    let problem = Problem::read(place.path("problem.safetensors")).unwrap();
    let kept: Vec<usize> = (0..40).filter(|row| row % 4 != 3).collect();
    let a = kept
        .iter()
        .flat_map(|&row| problem.a().matrix().unwrap().to_f64()[row * 64..(row + 1) * 64].to_vec())
        .collect();
    let of = |bounds: &[f64]| {
        bounds
            .chunks(40)
            .flat_map(|image| kept.iter().map(|&row| image[row]))
            .collect()
    };
    let cells = Cells::new(30, of(problem.cells().lower()), of(problem.cells().upper())).unwrap();
    let without = Problem::new(Matrix::from_f64(30, 64, a).unwrap(), cells, 0.05).unwrap();
    without.write(place.path("without.safetensors")).unwrap();
    // The cells of a row of zeros hold noise.
    let a = problem
        .a()
        .matrix()
        .unwrap()
        .to_f64()
        .iter()
        .enumerate()
        .map(|(i, a)| a * zeros(i / 64))
        .collect();
    let with = Problem::new(Matrix::from_f64(40, 64, a).unwrap(), problem.cells().clone(), 0.05).unwrap();
    with.write(place.path("with.safetensors")).unwrap();
    let run = |name: &str| {
        place.succeeds(&format!(
            "run {name}.safetensors --out {name} --model model.safetensors --method turbo,ep --levels 5 --pictures none"
        ))
    };
    assert!(run("with").stderr.contains("10 of 40 measurements say nothing"));
    run("without");
    for method in ["turbo", "ep"] {
        let of = |run: &str| place.read(&format!("{run}/{method}/samples.npy"));
        assert!(of("with") == of("without"), "{method}");
    }
}

#[test]
fn a_noise_level_for_each_measurement_is_read_and_kept() {
    let place = Place::with_problem();
    let problem = Problem::read(place.path("problem.safetensors")).unwrap();
    let m = problem.a().rows();
    let sigmas: Vec<f64> = (0..m).map(|i| 0.05 * [1.0, 2.0][i % 2]).collect();
    problem
        .with_sigmas(sigmas.clone())
        .unwrap()
        .write(place.path("own.safetensors"))
        .unwrap();
    assert_eq!(
        Problem::read(place.path("own.safetensors")).unwrap().sigmas(),
        Some(&sigmas[..])
    );
    // Twice the noise in every second row is half the row, its cells and its noise.
    write_scaled(&place, "half.safetensors", |row| [1.0, 0.5][row % 2], 0.05);
    for name in ["own", "half"] {
        place.succeeds(&format!(
            "run {name}.safetensors --out {name} --model model.safetensors --levels 5 --pictures none --quiet"
        ));
    }
    let of = |run: &str| samples(&place, &format!("{run}/ep/samples.npy"));
    let distance = of("own")
        .iter()
        .zip(of("half"))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(distance < 1e-3, "{distance}");
    // And the likelihood alone knows it too.
    for name in ["own", "half"] {
        place.succeeds(&format!(
            "likelihood --problem {name}.safetensors --x images.npy --beta 0.5 --method diag -o {name}.npy"
        ));
    }
    let (own, half) = (samples(&place, "own.npy"), samples(&place, "half.npy"));
    assert!(
        own.iter()
            .zip(&half)
            .all(|(a, b)| (a - b).abs() <= 1e-4 * a.abs().max(1.0))
    );
}

#[test]
fn cells_of_no_width_cost_the_sampler_nothing() {
    let place = Place::with_problem();
    let problem = Problem::read(place.path("problem.safetensors")).unwrap();
    let (a, truth) = (problem.a().clone(), problem.truth().unwrap().clone());
    for (name, width) in [("fine", 1e-6), ("finer", 1e-11)] {
        let z: Vec<f64> = truth
            .iter()
            .flat_map(|image| a.times(&image.iter().map(|&x| f64::from(x)).collect::<Vec<_>>()))
            .collect();
        let upper = z.iter().map(|z| z + width).collect();
        let cells = Cells::new(a.rows(), z.iter().map(|z| z - width).collect(), upper).unwrap();
        let problem = Problem::new(a.clone(), cells, 0.0)
            .unwrap()
            .with_truth(truth.clone())
            .unwrap();
        problem.write(place.path(&format!("{name}.safetensors"))).unwrap();
        place.succeeds(&format!(
            "run {name}.safetensors --out {name} --model model.safetensors --levels 40 --pictures none --quiet"
        ));
    }
    // A random network is no prior, but the measurements are obeyed by both alike.
    let misfit = |name: &str| {
        let x = samples(&place, &format!("{name}/ep/samples.npy"));
        let squares = x.chunks(64).zip(truth.iter()).map(|(x, truth)| {
            let by: Vec<f64> = x.iter().zip(truth).map(|(x, t)| f64::from(x - t)).collect();
            a.times(&by).iter().map(|z| z * z).sum::<f64>()
        });
        squares.sum::<f64>().sqrt()
    };
    let (fine, finer) = (misfit("fine"), misfit("finer"));
    assert!(finer < 1.2 * fine + 1e-9, "{finer}, with wider cells {fine}");
}

#[test]
fn a_truth_in_other_units_is_refused_and_impossible_cells_are_told_of() {
    let place = Place::with_problem();
    let mut tensors = Tensors::new();
    let problem = Problem::read(place.path("problem.safetensors")).unwrap();
    let (m, n, b) = (problem.a().rows(), problem.a().cols(), problem.cells().count());
    let bounds = |bounds: &[f64]| bounds.iter().map(|&b| b as f32).collect();
    tensors.insert(
        "A".into(),
        (vec![m, n], problem.a().matrix().unwrap().to_f32().into_owned()),
    );
    tensors.insert("lower".into(), (vec![b, m], bounds(problem.cells().lower())));
    tensors.insert("upper".into(), (vec![b, m], bounds(problem.cells().upper())));
    let pixels = problem.truth().unwrap().data.iter().map(|x| 255.0 * x).collect();
    tensors.insert("truth".into(), (vec![b, 1, 8, 8], pixels));
    let metadata: HashMap<String, String> = [("sigma".to_owned(), "0.05".to_owned())].into();
    place.tensors("bytes.safetensors", &tensors, metadata.clone());
    let line = "run bytes.safetensors --model model.safetensors --out bytes";
    place
        .run(line)
        .refuses(line, 3, &["bytes.safetensors", "pixels lie between 0 and 1"]);
    tensors.remove("truth");
    tensors.insert("lower".into(), (vec![b, m], vec![1e3; b * m]));
    tensors.insert("upper".into(), (vec![b, m], vec![f32::INFINITY; b * m]));
    place.tensors("impossible.safetensors", &tensors, metadata);
    let ran = place.succeeds("run impossible.safetensors --model model.safetensors --out impossible --levels 5");
    assert!(
        ran.stderr.contains("the measurements contradict some images"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stdout.contains("contradicted by y  3 of 3 images"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_score_that_no_float_holds_is_an_error() {
    let place = Place::with_problem();
    for line in [
        "score --model model.safetensors --x images.npy --beta 1e-200 --out s.npy",
        "likelihood --problem problem.safetensors --x images.npy --beta 1e300 --out s.npy",
        "likelihood --problem problem.safetensors --x images.npy --beta 1e300 --method diag --out s.npy",
    ] {
        let ran = place.run(line);
        if ran.code == Some(0) {
            assert!(samples(&place, "s.npy").iter().all(|v| v.is_finite()), "{line}");
            std::fs::remove_file(place.path("s.npy")).unwrap();
        } else {
            ran.refuses(line, 1, &["NaN or infinite"]);
            assert!(!place.path("s.npy").exists());
        }
    }
}

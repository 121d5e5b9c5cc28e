//! Products with A and with U.

use qcs_kernels::product::matrix_times::matrix_times;
use qcs_kernels::product::transposed_times::transposed_times;

use super::values::{normals, normals_f64};
use super::{Builder, Case, each, part, relative_error};
use crate::engine::State;
use crate::plan::{Contents, ProductOp, TensorId};
use crate::problem::{Cells, Ensemble, Matrix, Problem, Values};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, n, states) in [
        (1, 1, 1),
        (17, 70, 3),
        (33, 129, 8),
        (64, 8, 9),
        (100, 784, 2),
        (200, 64, 20),
    ] {
        for double in [false, true] {
            cases.extend([
                project_case(m, n, states, double),
                back_project_case(m, n, states, double),
            ]);
        }
    }
    for (m, states) in [(1, 1), (17, 3), (33, 8), (70, 9), (129, 2), (200, 20)] {
        cases.extend([rotate_case(m, m, states, true), rotate_case(m, m, states, false)]);
    }
    cases
}

pub fn paper_size() -> Vec<Case> {
    let (m, n, states) = (2000, 3072, 8);
    vec![
        project_case(m, n, states, false),
        rotate_case(m, n, states, true),
        rotate_case(m, n, states, false),
        back_project_case(m, n, states, false),
    ]
}

/// A sum of n terms in another order differs by n units in the last place of the sum of magnitudes at most; the largest
/// result is at least a tenth of that here.
fn bound(terms: usize) -> f64 {
    10.0 * terms as f64 * f64::EPSILON
}

/// A problem of one image whose measurements are all lost.
fn problem(a: Matrix) -> Problem {
    let m = a.rows();
    let cells = Cells::new(m, vec![f64::NEG_INFINITY; m], vec![f64::INFINITY; m]).expect("whole lines");
    Problem::new(a, cells, 0.05).expect("a problem")
}

/// A of random numbers, in single or double precision.
fn random(m: usize, n: usize, double: bool) -> Matrix {
    let values = if double {
        Values::F64(normals_f64(35, m * n))
    } else {
        Values::F32(normals(35, m * n))
    };
    Matrix::new(m, n, values).expect("a matrix")
}

fn name(op: &str, double: bool, m: usize, n: usize, states: usize) -> String {
    let kind = if double { "f64" } else { "f32" };
    format!("{op} {kind} {m}×{n} {states} states")
}

/// All states belong to the one image.
fn builder<'a>(states: usize, target: &'a dyn crate::plan::Target) -> Builder<'a> {
    let mut case = Builder::new(states, target);
    case.states = (0..states).map(|chain| State { image: 0, chain }).collect();
    case
}

fn project_case(m: usize, n: usize, states: usize, double: bool) -> Case {
    Case::new(name("project", double, m, n, states), bound(n), move |target| {
        let mut case = builder(states, target);
        let (a, values) = (random(m, n, double), normals(36, states * n));
        let matrix = a.to_f64().into_owned();
        case.problem = Some(problem(a));
        let x = case.tensor(Contents::F32(n), &values);
        let z = case.unset(Contents::F64(m));
        case.push(ProductOp::Project { x, z });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, m, |s, z| {
                matrix_times(&matrix, part(&values, states, s), z)
            });
            Ok(relative_error(&results.of(z), &expected))
        })
    })
}

fn back_project_case(m: usize, n: usize, states: usize, double: bool) -> Case {
    // The result itself is f32.
    let bound = bound(m) + 6e-8;
    Case::new(name("back_project", double, m, n, states), bound, move |target| {
        let mut case = builder(states, target);
        let (a, values) = (random(m, n, double), normals_f64(38, states * m));
        let matrix = a.to_f64().into_owned();
        case.problem = Some(problem(a));
        let g = case.tensor(Contents::F64(m), &values);
        let score = case.unset(Contents::F32(n));
        case.push(ProductOp::BackProject { g, score });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, n, |s, y| {
                transposed_times(&matrix, part(&values, states, s), y)
            });
            let actual: Vec<f32> = results.of(score);
            let actual: Vec<f64> = actual.into_iter().map(f64::from).collect();
            Ok(relative_error(&actual, &expected))
        })
    })
}

/// U or its transpose, of an ill-conditioned A.
fn rotate_case(m: usize, n: usize, states: usize, back: bool) -> Case {
    let op = if back { "rotate_in" } else { "rotate_out" };
    Case::new(name(op, true, m, m, states), bound(m), move |target| {
        let mut case = builder(states, target);
        let kappa = if m == 1 { 1.0 } else { 10.0 };
        let (a, spectrum) = Ensemble::IllConditioned { kappa }.build(m, n, 1).expect("a matrix");
        let problem = problem(a);
        let problem = match spectrum {
            Some(spectrum) => problem.with_spectrum(spectrum).expect("it is its own"),
            None => problem,
        };
        let u = problem.spectrum().expect("a spectrum").u.clone().unwrap_or_default();
        case.problem = Some(problem);
        let values = normals_f64(37, states * m);
        let (input, output): (TensorId, TensorId) =
            (case.tensor(Contents::F64(m), &values), case.unset(Contents::F64(m)));
        if back {
            case.push(ProductOp::RotateIn { input, output });
        } else {
            case.push(ProductOp::RotateOut { input, output });
        }
        case.finish(move |results| {
            let expected = each(f64::NAN, states, m, |s, y| {
                let x = part(&values, states, s);
                if back {
                    transposed_times(&u, x, y)
                } else {
                    matrix_times(&u, x, y)
                }
            });
            Ok(relative_error(&results.of(output), &expected))
        })
    })
}

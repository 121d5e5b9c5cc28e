//! Products with A and with U, and the parts of operators without a matrix.

use qcs_kernels::product::along::{Axis, along};
use qcs_kernels::product::butterflies::butterflies;
use qcs_kernels::product::matrix_times::matrix_times;
use qcs_kernels::product::pick::pick;
use qcs_kernels::product::signed::signed;
use qcs_kernels::product::transposed_times::transposed_times;

use super::values::{normals, normals_f64};
use super::{Builder, Case, absolute_error, each, part, relative_error};
use crate::engine::State;
use crate::plan::{ArrayId, Contents, ProductOp, TensorId};
use crate::problem::{Cells, Ensemble, Factor, Matrix, Operator, Parts, Problem, Values};

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
    for (axis, states) in [
        (axis(1, 1, 1, 1), 1),
        (axis(3, 5, 7, 1), 3),
        (axis(2, 33, 19, 1), 5),
        (axis(1, 6, 300, 9), 2),
        (axis(3, 40, 21, 13), 2),
        (axis(2, 4, 3, 70), 3),
    ] {
        cases.push(along_case(axis, states));
    }
    for (outer, length, inner, states) in [
        (1, 2, 1, 1),
        (3, 8, 5, 2),
        (2, 64, 1, 3),
        (1, 256, 3, 2),
        (1, 1024, 1, 1),
    ] {
        cases.push(butterflies_case(outer, length, inner, states));
    }
    for (n, m, states) in [(1, 1, 1), (70, 31, 3), (300, 300, 2), (17, 600, 2)] {
        cases.push(pick_case(n, m, states));
    }
    for (n, states) in [(1, 1), (70, 3), (300, 2)] {
        for signs in [false, true] {
            cases.extend([widen_case(n, states, signs), narrow_case(n, states, signs)]);
        }
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
        // A photograph of 256×256 pixels, along its rows and along its columns.
        along_case(axis(3, 256, 256, 256), 1),
        along_case(axis(768, 256, 256, 1), 1),
        butterflies_case(3, 65_536, 1, 1),
    ]
}

fn axis(outer: usize, rows: usize, columns: usize, inner: usize) -> Axis {
    Axis {
        outer,
        rows,
        columns,
        inner,
    }
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

/// A problem of an operator whose arrays an op can name, [N, M] or more by choice.
fn structured(parts: Parts) -> Problem {
    let a = Operator::structured(parts).expect("an operator");
    let m = a.rows();
    let cells = Cells::new(m, vec![f64::NEG_INFINITY; m], vec![f64::INFINITY; m]).expect("whole lines");
    Problem::new(a, cells, 0.05).expect("a problem")
}

fn parts(factors: Vec<Factor>) -> Parts {
    Parts {
        label: String::new(),
        factors,
        signs: None,
        order: None,
        rows: None,
    }
}

fn along_case(axis: Axis, states: usize) -> Case {
    let Axis {
        outer,
        rows,
        columns,
        inner,
    } = axis;
    let name = format!("along {rows}×{columns} of {outer}×·×{inner} {states} states");
    Case::new(name, bound(columns), move |target| {
        let mut case = builder(states, target);
        let entries = normals_f64(39, rows * columns);
        let matrix = Matrix::from_f64(rows, columns, entries.clone()).expect("a matrix");
        // Its arrays: the transposed matrix, then the matrix.
        case.problem = Some(structured(parts(vec![Factor::Matrix(matrix)])));
        let values = normals_f64(40, states * outer * columns * inner);
        let input = case.tensor(Contents::F64(outer * columns * inner), &values);
        let output = case.unset(Contents::F64(outer * rows * inner));
        case.push(ProductOp::Along {
            matrix: ArrayId::new(1),
            transposed: ArrayId::new(0),
            axis,
            input,
            output,
        });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, outer * rows * inner, |s, y| {
                along(&entries, axis, part(&values, states, s), y)
            });
            Ok(relative_error(&results.of(output), &expected))
        })
    })
}

/// Every engine adds in the order of the twin: there is no error.
fn butterflies_case(outer: usize, length: usize, inner: usize, states: usize) -> Case {
    let name = format!("butterflies {length} of {outer}×·×{inner} {states} states");
    Case::new(name, 0.0, move |target| {
        let mut case = builder(states, target);
        let len = outer * length * inner;
        case.problem = Some(structured(parts(vec![Factor::Identity(1)])));
        let values = normals_f64(41, states * len);
        let input = case.tensor(Contents::F64(len), &values);
        let output = case.unset(Contents::F64(len));
        case.push(ProductOp::Butterflies {
            length,
            inner,
            input,
            output,
        });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, len, |s, y| {
                y.copy_from_slice(part(&values, states, s));
                butterflies(length, inner, y);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// m elements of n, where m is larger with nothing in between.
fn pick_case(n: usize, m: usize, states: usize) -> Case {
    Case::new(format!("pick {m} of {n} {states} states"), 0.0, move |target| {
        let mut case = builder(states, target);
        let few = n.min(m);
        // 11 has no factor in common with the larger of the two.
        let rows: Vec<u32> = (0..few).map(|at| (at * 11 % n.max(m)) as u32).collect();
        let mut parts = parts(vec![Factor::Identity(n.max(m))]);
        parts.rows = Some(rows);
        // Its arrays: the rows, then the way back.
        let problem = structured(parts);
        let id = ArrayId::new(usize::from(m > n));
        let index = problem.a().arrays()[id.index()].u32s().to_vec();
        case.problem = Some(problem);
        let values = normals_f64(42, states * n);
        let input = case.tensor(Contents::F64(n), &values);
        let output = case.unset(Contents::F64(m));
        case.push(ProductOp::Pick {
            index: id,
            input,
            output,
        });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, m, |s, y| pick(part(&values, states, s), &index, y));
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn signs(n: usize) -> Vec<f32> {
    normals(43, n).iter().map(|value| value.signum()).collect()
}

/// A problem of n pixels whose only array are signs, if it has any.
fn signing(n: usize, with_signs: bool) -> (Problem, Option<ArrayId>) {
    let mut parts = parts(vec![Factor::Identity(n)]);
    parts.signs = with_signs.then(|| signs(n));
    (structured(parts), with_signs.then(|| ArrayId::new(0)))
}

fn widen_case(n: usize, states: usize, with_signs: bool) -> Case {
    let name = format!(
        "widen {n}{} {states} states",
        if with_signs { " with signs" } else { "" }
    );
    Case::new(name, 0.0, move |target| {
        let mut case = builder(states, target);
        let (problem, id) = signing(n, with_signs);
        case.problem = Some(problem);
        let values = normals(44, states * n);
        let x = case.tensor(Contents::F32(n), &values);
        let output = case.unset(Contents::F64(n));
        case.push(ProductOp::Widen { x, output, signs: id });
        case.finish(move |results| {
            let wide: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            let signs = with_signs.then(|| signs(n));
            let expected = each(f64::NAN, states, n, |s, y| {
                signed(part(&wide, states, s), signs.as_deref(), y)
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn narrow_case(n: usize, states: usize, with_signs: bool) -> Case {
    let name = format!(
        "narrow {n}{} {states} states",
        if with_signs { " with signs" } else { "" }
    );
    Case::new(name, 0.0, move |target| {
        let mut case = builder(states, target);
        let (problem, id) = signing(n, with_signs);
        case.problem = Some(problem);
        let values = normals_f64(45, states * n);
        let input = case.tensor(Contents::F64(n), &values);
        let x = case.unset(Contents::F32(n));
        case.push(ProductOp::Narrow { input, x, signs: id });
        case.finish(move |results| {
            let signs = with_signs.then(|| signs(n));
            let expected = each(f64::NAN, states, n, |s, y| {
                signed(part(&values, states, s), signs.as_deref(), y)
            });
            let expected: Vec<f32> = expected.into_iter().map(|v| v as f32).collect();
            Ok(absolute_error(&results.of(x), &expected))
        })
    })
}

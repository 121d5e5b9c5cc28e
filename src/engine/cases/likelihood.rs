//! Expectation propagation and its diagonal forerunner.

use qcs_kernels::likelihood::diag_gradient::diag_gradient;
use qcs_kernels::likelihood::ep_gradient::ep_gradient;
use qcs_kernels::likelihood::ep_moments::ep_moments;
use qcs_kernels::likelihood::ep_separate::ep_separate;
use qcs_kernels::likelihood::ep_start::ep_start;

use super::values::{levels, normals_f64, uniforms};
use super::{Builder, Case, each, part, relative_error};
use crate::plan::{Contents, EpMoments, EpSeparate, EpStart, LikelihoodOp};
use crate::problem::{Cells, Matrix, Problem, Spectrum};

const SIGMA: f64 = 0.05;

pub fn cases() -> Vec<Case> {
    let mut cases = vec![moments_case(3, 130, true)];
    for (states, m) in [(1, 400), (5, 130), (3, 1), (2, 257)] {
        cases.extend([
            start_case(states, m, EpStart::Matched),
            start_case(states, m, EpStart::Unit),
            moments_case(states, m, false),
            separate_case(states, m),
            gradient_case(states, m),
            diag_case(states, m),
        ]);
    }
    cases
}

pub fn paper_size() -> Vec<Case> {
    let (states, m) = (8, 2000);
    vec![
        moments_case(states, m, false),
        separate_case(states, m),
        gradient_case(states, m),
        diag_case(states, m),
    ]
}

/// Cells around the values of z: bounded, half-lines on either side, narrow, far away.
#[derive(Clone)]
struct Operands {
    lower: Vec<f64>,
    upper: Vec<f64>,
    z: Vec<f64>,
    h_f: Vec<f64>,
    tau_f: Vec<f64>,
}

impl Operands {
    fn new(states: usize, m: usize) -> Self {
        let len = states * m;
        let (z, place, width) = (normals_f64(30, len), normals_f64(31, len), uniforms(32, len));
        let width = |i: usize| f64::from(width[i]) + 1e-3;
        let lower = |i: usize| match i % 5 {
            0 => f64::NEG_INFINITY,
            4 => 40.0 + place[i],
            _ => place[i],
        };
        let upper = |i: usize| match i % 5 {
            0 => place[i],
            1 => f64::INFINITY,
            2 => place[i] + 1e-7 * width(i),
            3 => place[i] + width(i),
            _ => 41.0 + place[i] + width(i),
        };
        Self {
            lower: (0..len).map(lower).collect(),
            upper: (0..len).map(upper).collect(),
            z,
            h_f: normals_f64(33, len),
            tau_f: (0..states).map(|s| 0.3 + s as f64).collect(),
        }
    }

    /// Measurements by a matrix of one column, whose squares are diag(A·Aᵀ).
    fn problem(&self, m: usize) -> Problem {
        let a = (0..m).map(|i| (0.5 + i as f64 / 300.0).sqrt()).collect();
        let a = Matrix::from_f64(m, 1, a).expect("a matrix");
        let cells = Cells::new(m, self.lower.clone(), self.upper.clone()).expect("no cell is empty");
        Problem::new(a, cells, SIGMA).expect("a problem")
    }
}

fn start_case(states: usize, m: usize, start: EpStart) -> Case {
    Case::new(format!("ep_start {states}×{m} {start:?}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        let problem = Operands::new(states, m).problem(m);
        let matched = (start == EpStart::Matched).then(|| (problem.sigma2_floored(), problem.mean_diag()));
        case.problem = Some(problem);
        let level = case.tensor(Contents::F64(1), &levels(states));
        let (h_f, tau_f) = (case.unset(Contents::F64(m)), case.unset(Contents::F64(1)));
        case.push(LikelihoodOp::EpStart {
            level,
            h_f,
            tau_f,
            start,
        });
        case.finish(move |results| {
            let mut expected = vec![f64::NAN; states];
            let zeros = each(f64::NAN, states, m, |s, h_f| {
                ep_start(levels(states)[s], matched, h_f, &mut expected[s]);
            });
            Ok(relative_error(&results.of(tau_f), &expected) + relative_error(&results.of(h_f), &zeros))
        })
    })
}

/// Sums in another order move chi^a by a few units in the last place, and tau^G = 1/chi^a − tau^F magnifies that.
const SUM_BOUND: f64 = 1e-12;

/// With a measurement of the first state that is not a number, neither are its messages: no floor may hide it.
fn moments_case(states: usize, m: usize, broken: bool) -> Case {
    let what = if broken { " of NaN" } else { "" };
    Case::new(format!("ep_moments{what} {states}×{m}"), SUM_BOUND, move |target| {
        let mut case = Builder::new(states, target);
        let mut of = Operands::new(states, m);
        if broken {
            of.z[m / 2] = f64::NAN;
        }
        case.problem = Some(of.problem(m));
        let z = case.tensor(Contents::F64(m), &of.z);
        let h_f = case.tensor(Contents::F64(m), &of.h_f);
        let tau_f = case.tensor(Contents::F64(1), &of.tau_f);
        let (h_g, tau_g) = (case.unset(Contents::F64(m)), case.unset(Contents::F64(1)));
        case.push(EpMoments {
            z,
            h_f,
            tau_f,
            h_g,
            tau_g,
            live: None,
        });
        case.finish(move |results| {
            let mut expected_tau = vec![0.0; states];
            let expected = each(0.0, states, m, |s, h_g| {
                let (lower, upper) = (part(&of.lower, states, s), part(&of.upper, states, s));
                let (z, h_f) = (part(&of.z, states, s), part(&of.h_f, states, s));
                expected_tau[s] = ep_moments(lower, upper, z, h_f, of.tau_f[s], h_g);
            });
            if broken && !(expected_tau[0].is_nan() && expected[..m].iter().all(|h| h.is_nan())) {
                return Err("the twin hides a NaN".into());
            }
            Ok(relative_error(&results.of(h_g), &expected).max(relative_error(&results.of(tau_g), &expected_tau)))
        })
    })
}

/// By a diagonal A, whose eigenvectors are the unit vectors.
/// A problem whose A·Aᵀ is diagonal and falls.
pub(super) fn diagonal_problem(states: usize, m: usize) -> Problem {
    let mut a = vec![0.0; m * m];
    for i in 0..m {
        a[i * (m + 1)] = 0.97f64.powi(i as i32).sqrt();
    }
    let of = Operands::new(states, m);
    let cells = Cells::new(m, of.lower, of.upper).expect("no cell is empty");
    let problem = Problem::new(Matrix::from_f64(m, m, a).expect("a matrix"), cells, SIGMA).expect("a problem");
    let spectrum = Spectrum {
        u: None,
        eigenvalues: problem.diag().to_vec(),
    };
    problem.with_spectrum(spectrum).expect("it is its own")
}

fn separate_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_separate {states}×{m}"), SUM_BOUND, move |target| {
        let mut case = Builder::new(states, target);
        let problem = diagonal_problem(states, m);
        let (eigenvalues, sigma2) = (problem.diag().to_vec(), problem.sigma2_floored());
        case.problem = Some(problem);
        let of = Operands::new(states, m);
        let (values, taus) = (normals_f64(34, states * m), of.tau_f);
        let level = case.tensor(Contents::F64(1), &levels(states));
        let input = case.tensor(Contents::F64(m), &values);
        let tau_g = case.tensor(Contents::F64(1), &taus);
        let (output, tau_f) = (case.unset(Contents::F64(m)), case.unset(Contents::F64(1)));
        case.push(EpSeparate {
            level,
            input,
            tau_g,
            output,
            tau_f,
        });
        case.finish(move |results| {
            let mut expected_tau = vec![f64::NAN; states];
            let expected = each(f64::NAN, states, m, |s, output| {
                let (beta, input) = (levels(states)[s], part(&values, states, s));
                expected_tau[s] = ep_separate(sigma2, beta, &eigenvalues, input, taus[s], output);
            });
            Ok(relative_error(&results.of(output), &expected).max(relative_error(&results.of(tau_f), &expected_tau)))
        })
    })
}

fn gradient_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_gradient {states}×{m}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        let of = Operands::new(states, m);
        case.problem = Some(of.problem(m));
        let z = case.tensor(Contents::F64(m), &of.z);
        let h_f = case.tensor(Contents::F64(m), &of.h_f);
        let tau_f = case.tensor(Contents::F64(1), &of.tau_f);
        let g = case.unset(Contents::F64(m));
        case.push(LikelihoodOp::EpGradient { z, h_f, tau_f, g });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, m, |s, g| {
                let (lower, upper) = (part(&of.lower, states, s), part(&of.upper, states, s));
                let (z, h_f) = (part(&of.z, states, s), part(&of.h_f, states, s));
                ep_gradient(lower, upper, z, h_f, of.tau_f[s], g);
            });
            Ok(relative_error(&results.of(g), &expected))
        })
    })
}

fn diag_case(states: usize, m: usize) -> Case {
    Case::new(format!("diag_gradient {states}×{m}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        let of = Operands::new(states, m);
        let problem = of.problem(m);
        let (sigma2, diag) = (problem.sigma2_floored(), problem.diag().to_vec());
        case.problem = Some(problem);
        let level = case.tensor(Contents::F64(1), &levels(states));
        let z = case.tensor(Contents::F64(m), &of.z);
        let g = case.unset(Contents::F64(m));
        case.push(LikelihoodOp::DiagGradient { level, z, g });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, m, |s, g| {
                let (lower, upper) = (part(&of.lower, states, s), part(&of.upper, states, s));
                diag_gradient(
                    sigma2,
                    levels(states)[s],
                    &diag,
                    lower,
                    upper,
                    part(&of.z, states, s),
                    g,
                );
            });
            Ok(relative_error(&results.of(g), &expected))
        })
    })
}

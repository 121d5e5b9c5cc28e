//! The products and expectation propagation.

use crate::values::{levels, normals, normals_f64, uniforms};
use crate::{Array, Case, Gpu, Plain, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::launch::Arguments;
use qcs_kernels::likelihood::diag_gradient::{DiagGradientArgs, diag_gradient};
use qcs_kernels::likelihood::ep_gradient::{EpGradientArgs, ep_gradient};
use qcs_kernels::likelihood::ep_moments::{EpMessagesArgs, EpMomentsArgs, ep_moments, partial_sums};
use qcs_kernels::likelihood::ep_separate::{EpSeparateArgs, ep_separate};
use qcs_kernels::likelihood::ep_start::{EpStartArgs, ep_start};
use qcs_kernels::product::matrix_times::{MatrixTimesArgs, matrix_times};
use qcs_kernels::product::transposed_times::{TransposedTimesArgs, transposed_times};

const SIGMA2: f64 = 0.0025;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (states, measurements) in [(1, 400), (5, 130), (3, 1), (2, 257)] {
        cases.extend([
            start_case(states, measurements, true),
            start_case(states, measurements, false),
            moments_case(states, measurements),
            separate_case(states, measurements),
            gradient_case(states, measurements),
            diag_case(states, measurements),
        ]);
    }
    for (rows, columns, states) in [
        (1, 1, 1),
        (17, 70, 3),
        (33, 129, 8),
        (64, 8, 9),
        (100, 784, 2),
        (200, 64, 20),
    ] {
        cases.extend([
            times_case::<f32, f32>(rows, columns, states, normals, normals, "f32 f32"),
            times_case::<f64, f32>(rows, columns, states, normals_f64, normals, "f64 f32"),
            times_case::<f64, f64>(rows, columns, states, normals_f64, normals_f64, "f64 f64"),
            transposed_case::<f32, f32>(rows, columns, states, normals, "f32 f32"),
            transposed_case::<f64, f32>(rows, columns, states, normals_f64, "f64 f32"),
            transposed_case::<f64, f64>(rows, columns, states, normals_f64, "f64 f64"),
        ]);
    }
    cases
}

/// Cells around the values of z: bounded, half-lines on either side, narrow, far away.
struct Cells {
    lower: Vec<f64>,
    upper: Vec<f64>,
    z: Vec<f64>,
    h_f: Vec<f64>,
    tau_f: Vec<f64>,
}

impl Cells {
    fn new(states: usize, measurements: usize) -> Self {
        let len = states * measurements;
        let (z, place, width) = (normals_f64(30, len), normals_f64(31, len), uniforms(32, len));
        let lower = |i: usize| match i % 5 {
            0 => f64::NEG_INFINITY,
            4 => 40.0 + place[i],
            _ => place[i],
        };
        let upper = |i: usize| match i % 5 {
            0 => place[i],
            1 => f64::INFINITY,
            2 => place[i] + 1e-7 * f64::from(width[i]),
            3 => place[i] + f64::from(width[i]),
            _ => 41.0 + place[i] + f64::from(width[i]),
        };
        Self {
            lower: (0..len).map(lower).collect(),
            upper: (0..len).map(upper).collect(),
            z,
            h_f: normals_f64(33, len),
            tau_f: (0..states).map(|s| 0.3 + s as f64).collect(),
        }
    }
}

fn start_case(states: usize, measurements: usize, matched: bool) -> Case {
    Case::new(
        format!("ep_start {states}×{measurements} matched: {matched}"),
        0,
        0.0,
        move |gpu| {
            let mut expected = vec![f64::NAN; states];
            for (beta, tau_f) in levels(states).into_iter().zip(&mut expected) {
                ep_start(beta, matched.then_some((SIGMA2, 0.8)), &mut [], tau_f);
            }
            let level = Array::new(gpu, &levels(states))?;
            let (h_f, tau_f) = (Array::unset(gpu, states * measurements)?, Array::unset(gpu, states)?);
            let args = EpStartArgs {
                level: level.global(),
                h_f: h_f.global(),
                tau_f: tau_f.global(),
                sigma2: SIGMA2,
                mean_diag: 0.8,
                states: states as u32,
                measurements: measurements as u32,
                matched: u32::from(matched),
                unused: 0,
            };
            launch(gpu, args)?;
            let zeros = vec![0.0; states * measurements];
            Ok(relative_error(&tau_f.read()?, &expected) + relative_error(&h_f.read()?, &zeros))
        },
    )
}

/// Sums in another order move chi^a by a few units in the last place, and tau^G = 1/chi^a − tau^F magnifies that.
const SUM_BOUND: f64 = 1e-12;

fn moments_case(states: usize, measurements: usize) -> Case {
    Case::new(
        format!("ep_moments {states}×{measurements}"),
        0,
        SUM_BOUND,
        move |gpu| {
            let c = Cells::new(states, measurements);
            let mut expected = vec![f64::NAN; states * measurements];
            let mut expected_tau = vec![f64::NAN; states];
            for (s, h_g) in expected.chunks_mut(measurements).enumerate() {
                let at = s * measurements..(s + 1) * measurements;
                let (lower, upper) = (&c.lower[at.clone()], &c.upper[at.clone()]);
                expected_tau[s] = ep_moments(lower, upper, &c.z[at.clone()], &c.h_f[at], c.tau_f[s], h_g);
            }
            let (lower, upper, z) = (
                Array::new(gpu, &c.lower)?,
                Array::new(gpu, &c.upper)?,
                Array::new(gpu, &c.z)?,
            );
            let (h_f, tau_f) = (Array::new(gpu, &c.h_f)?, Array::new(gpu, &c.tau_f)?);
            let (h_g, tau_g) = (Array::unset(gpu, states * measurements)?, Array::unset(gpu, states)?);
            let variances = Array::<f64>::unset(gpu, states * partial_sums(measurements))?;
            let moments = EpMomentsArgs {
                live: Global::NONE,
                lower: lower.global(),
                upper: upper.global(),
                z: z.global(),
                h_f: h_f.global(),
                tau_f: tau_f.global(),
                m_a: h_g.global(),
                variances: variances.global(),
                states: states as u32,
                measurements: measurements as u32,
            };
            let messages = EpMessagesArgs {
                live: Global::NONE,
                h_f: h_f.global(),
                tau_f: tau_f.global(),
                variances: variances.global(),
                h_g: h_g.global(),
                tau_g: tau_g.global(),
                states: states as u32,
                measurements: measurements as u32,
            };
            launch(gpu, moments)?;
            launch(gpu, messages)?;
            Ok(relative_error(&h_g.read()?, &expected).max(relative_error(&tau_g.read()?, &expected_tau)))
        },
    )
}

fn separate_case(states: usize, measurements: usize) -> Case {
    Case::new(
        format!("ep_separate {states}×{measurements}"),
        0,
        SUM_BOUND,
        move |gpu| {
            let eigenvalues: Vec<f64> = (0..measurements).map(|i| 0.97f64.powi(i as i32)).collect();
            let input = normals_f64(34, states * measurements);
            let tau_g: Vec<f64> = (0..states).map(|s| 0.2 + s as f64).collect();
            let mut expected = vec![f64::NAN; states * measurements];
            let mut expected_tau = vec![f64::NAN; states];
            for (s, output) in expected.chunks_mut(measurements).enumerate() {
                let input = &input[s * measurements..(s + 1) * measurements];
                expected_tau[s] = ep_separate(SIGMA2, levels(states)[s], &eigenvalues, input, tau_g[s], output);
            }
            let level = Array::new(gpu, &levels(states))?;
            let (eigenvalues, input) = (Array::new(gpu, &eigenvalues)?, Array::new(gpu, &input)?);
            let (tau_g, tau_f) = (Array::new(gpu, &tau_g)?, Array::unset(gpu, states)?);
            let output = Array::unset(gpu, states * measurements)?;
            let args = EpSeparateArgs {
                level: level.global(),
                eigenvalues: eigenvalues.global(),
                input: input.global(),
                tau_g: tau_g.global(),
                output: output.global(),
                tau_f: tau_f.global(),
                sigma2: SIGMA2,
                states: states as u32,
                measurements: measurements as u32,
            };
            launch(gpu, args)?;
            Ok(relative_error(&output.read()?, &expected).max(relative_error(&tau_f.read()?, &expected_tau)))
        },
    )
}

fn gradient_case(states: usize, measurements: usize) -> Case {
    Case::new(format!("ep_gradient {states}×{measurements}"), 0, 0.0, move |gpu| {
        let c = Cells::new(states, measurements);
        let mut expected = vec![f64::NAN; states * measurements];
        for (s, g) in expected.chunks_mut(measurements).enumerate() {
            let at = s * measurements..(s + 1) * measurements;
            let (lower, upper) = (&c.lower[at.clone()], &c.upper[at.clone()]);
            ep_gradient(lower, upper, &c.z[at.clone()], &c.h_f[at], c.tau_f[s], g);
        }
        let (lower, upper, z) = (
            Array::new(gpu, &c.lower)?,
            Array::new(gpu, &c.upper)?,
            Array::new(gpu, &c.z)?,
        );
        let (h_f, tau_f) = (Array::new(gpu, &c.h_f)?, Array::new(gpu, &c.tau_f)?);
        let g = Array::unset(gpu, states * measurements)?;
        let args = EpGradientArgs {
            lower: lower.global(),
            upper: upper.global(),
            z: z.global(),
            h_f: h_f.global(),
            tau_f: tau_f.global(),
            g: g.global(),
            states: states as u32,
            measurements: measurements as u32,
        };
        launch(gpu, args)?;
        Ok(relative_error(&g.read()?, &expected))
    })
}

fn diag_case(states: usize, measurements: usize) -> Case {
    Case::new(format!("diag_gradient {states}×{measurements}"), 0, 0.0, move |gpu| {
        let c = Cells::new(states, measurements);
        let diag: Vec<f64> = (0..measurements).map(|i| 0.5 + i as f64 / 300.0).collect();
        let mut expected = vec![f64::NAN; states * measurements];
        for (s, g) in expected.chunks_mut(measurements).enumerate() {
            let at = s * measurements..(s + 1) * measurements;
            let (lower, upper) = (&c.lower[at.clone()], &c.upper[at.clone()]);
            diag_gradient(SIGMA2, levels(states)[s], &diag, lower, upper, &c.z[at], g);
        }
        let level = Array::new(gpu, &levels(states))?;
        let (lower, upper, z) = (
            Array::new(gpu, &c.lower)?,
            Array::new(gpu, &c.upper)?,
            Array::new(gpu, &c.z)?,
        );
        let (diag, g) = (Array::new(gpu, &diag)?, Array::unset(gpu, states * measurements)?);
        let args = DiagGradientArgs {
            level: level.global(),
            diag: diag.global(),
            lower: lower.global(),
            upper: upper.global(),
            z: z.global(),
            g: g.global(),
            sigma2: SIGMA2,
            states: states as u32,
            measurements: measurements as u32,
        };
        launch(gpu, args)?;
        Ok(relative_error(&g.read()?, &expected))
    })
}

/// A sum of n terms in another order differs by n units in the last place of the sum of magnitudes at most; the largest
/// result is at least a tenth of that here.
fn product_bound(terms: usize) -> f64 {
    10.0 * terms as f64 * f64::EPSILON
}

fn times_case<E, X>(
    rows: usize,
    columns: usize,
    states: usize,
    matrix: fn(u32, usize) -> Vec<E>,
    x: fn(u32, usize) -> Vec<X>,
    types: &str,
) -> Case
where
    E: Plain + Into<f64> + 'static,
    X: Plain + Into<f64> + 'static,
    MatrixTimesArgs<E, X>: Arguments,
{
    let flops = 2 * (rows * columns * states) as u64;
    let name = format!("matrix_times {types} {rows}×{columns} {states} states");
    Case::new(name, flops, product_bound(columns), move |gpu| {
        let (matrix, x) = (matrix(35, rows * columns), x(36, states * columns));
        let mut expected = vec![f64::NAN; states * rows];
        for (x, y) in x.chunks(columns).zip(expected.chunks_mut(rows)) {
            matrix_times(&matrix, x, y);
        }
        let device_matrix = Array::new(gpu, &matrix)?;
        let product = |x: &[X]| {
            let (states, x) = (x.len() / columns, Array::new(gpu, x)?);
            let y = Array::unset(gpu, states * rows)?;
            let args = MatrixTimesArgs {
                matrix: device_matrix.global(),
                x: x.global(),
                y: y.global(),
                rows: rows as u32,
                columns: columns as u32,
                states: states as u32,
                unused: 0,
            };
            launch(gpu, args)?;
            y.read()
        };
        let together = product(&x)?;
        let alone = product(&x[(states - 1) * columns..])?;
        same_bits(&together[(states - 1) * rows..], &alone)?;
        Ok(relative_error(&together, &expected))
    })
}

fn transposed_case<E, Y>(
    rows: usize,
    columns: usize,
    states: usize,
    matrix: fn(u32, usize) -> Vec<E>,
    types: &str,
) -> Case
where
    E: Plain + Into<f64> + 'static,
    Y: Plain + Into<f64> + 'static,
    TransposedTimesArgs<E, Y>: Arguments,
{
    let flops = 2 * (rows * columns * states) as u64;
    let name = format!("transposed_times {types} {rows}×{columns} {states} states");
    // The result itself may be f32.
    let rounding = if size_of::<Y>() == 4 { 6e-8 } else { 0.0 };
    Case::new(name, flops, product_bound(rows) + rounding, move |gpu: &dyn Gpu| {
        let (matrix, g) = (matrix(37, rows * columns), normals_f64(38, states * rows));
        let mut expected = vec![f64::NAN; states * columns];
        for (g, y) in g.chunks(rows).zip(expected.chunks_mut(columns)) {
            transposed_times(&matrix, g, y);
        }
        let device_matrix = Array::new(gpu, &matrix)?;
        let product = |g: &[f64]| {
            let (states, g) = (g.len() / rows, Array::new(gpu, g)?);
            let y = Array::<Y>::unset(gpu, states * columns)?;
            let args = TransposedTimesArgs {
                matrix: device_matrix.global(),
                g: g.global(),
                y: y.global(),
                rows: rows as u32,
                columns: columns as u32,
                states: states as u32,
                unused: 0,
            };
            launch(gpu, args)?;
            let y: Vec<f64> = y.read()?.into_iter().map(Into::into).collect();
            Ok::<_, String>(y)
        };
        let together = product(&g)?;
        let alone = product(&g[(states - 1) * rows..])?;
        same_bits(&together[(states - 1) * columns..], &alone)?;
        Ok(relative_error(&together, &expected))
    })
}

fn same_bits(together: &[f64], alone: &[f64]) -> Result<(), String> {
    let same = together.iter().zip(alone).all(|(a, b)| a.to_bits() == b.to_bits());
    if same {
        Ok(())
    } else {
        Err("a state's result depends on its batch".into())
    }
}

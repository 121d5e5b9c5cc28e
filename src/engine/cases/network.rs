//! The ops on feature maps other than convolution.

use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::elu::elu;
use qcs_kernels::network::load_image::load_image;
use qcs_kernels::network::load_scaled::load_scaled;
use qcs_kernels::network::max_pool::max_pool;
use qcs_kernels::network::mean_pool::mean_pool;
use qcs_kernels::network::norm_coefficients::norm_coefficients;
use qcs_kernels::network::precondition::Parametrisation;
use qcs_kernels::network::reflect::reflect;
use qcs_kernels::network::resize_add::resize_add;
use qcs_kernels::network::store_mixed::store_mixed;
use qcs_kernels::network::store_score::store_score;

use super::values::{feature_map, levels, normals, uniforms};
use super::{Builder, Case, absolute_error, each, part, relative_error};
use crate::plan::{Contents, NetworkOp, TensorId};

/// Batch, channels, height, width.
type Shape = (usize, usize, usize, usize);

/// Sizes of the three configurations at few channels, odd ones, and single pixels.
const SHAPES: [Shape; 6] = [
    (1, 3, 28, 28),
    (5, 16, 14, 14),
    (2, 40, 7, 9),
    (5, 1, 1, 1),
    (1, 8, 64, 64),
    (1, 24, 5, 33),
];

const KINDS: [Parametrisation; 6] = [
    Parametrisation::Edm,
    Parametrisation::Epsilon,
    Parametrisation::Velocity,
    Parametrisation::Sample,
    Parametrisation::Exploding,
    Parametrisation::Denoised,
];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        elu_of("special values", special_values()),
        elu_of("−100 to 100", (-4000..4000).map(|i| i as f32 / 40.0).collect()),
        norm_case((8, 128, 32, 32), 0.0),
    ];
    for shape in SHAPES {
        let (batch, channels, height, width) = shape;
        let whole = (batch, channels.next_multiple_of(BLOCK), height, width);
        cases.extend([
            elu_case(shape),
            load_case(shape),
            load_scaled_case(shape, Parametrisation::Edm, true),
            load_scaled_case(shape, Parametrisation::Epsilon, false),
            load_scaled_case(shape, Parametrisation::Denoised, true),
            store_case(shape),
            reflect_case(shape, (height + 3, width + 1)),
            reflect_case(shape, (height.div_ceil(2), 3 * width + 2)),
            norm_case(shape, 0.0),
            norm_case(shape, 1000.0),
            max_pool_case(whole),
            mean_pool_case(whole, true),
            mean_pool_case(whole, false),
        ]);
        cases.extend(KINDS.map(|kind| store_mixed_case(shape, kind)));
        for to in [(height, width), (2 * height, 2 * width), (height + 3, 1)] {
            cases.push(resize_case(whole, to, true));
        }
        cases.push(resize_case(whole, (3, width), false));
    }
    cases
}

pub fn paper_size() -> Vec<Case> {
    vec![
        norm_case((8, 128, 32, 32), 0.0),
        max_pool_case((8, 256, 16, 16)),
        elu_case((8, 256, 16, 16)),
        resize_case((8, 128, 16, 16), (32, 32), false),
    ]
}

fn feature(channels: usize, (height, width): (usize, usize)) -> Contents {
    Contents::Feature {
        channels,
        height,
        width,
    }
}

fn named(op: &str, (batch, channels, height, width): Shape) -> String {
    format!("{op} {batch}×{channels}×{height}×{width}")
}

/// The approximate 2ˣ and f32 near 1.
const ELU_BOUND: f64 = 4e-7;

fn elu_case(shape: Shape) -> Case {
    let (batch, channels, height, width) = shape;
    let input = move || {
        feature_map(1, batch, channels, height * width)
            .iter()
            .map(|v| 4.0 * v)
            .collect()
    };
    elu_on(named("elu", shape), batch, feature(channels, (height, width)), input)
}

fn special_values() -> Vec<f32> {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    vec![0.0, -0.0, -1e-30, 1e-30, -inf, inf, nan, f32::MIN]
}

fn elu_of(what: &str, values: Vec<f32>) -> Case {
    let contents = feature(BLOCK, (1, values.len() / BLOCK));
    elu_on(format!("elu of {what}"), 1, contents, move || values.clone())
}

fn elu_on(name: String, batch: usize, contents: Contents, input: impl Fn() -> Vec<f32> + 'static) -> Case {
    Case::new(name, ELU_BOUND, move |target| {
        let mut case = Builder::new(batch, target);
        let values = input();
        let (input, output) = (case.tensor(contents, &values), case.unset(contents));
        case.push(NetworkOp::Elu { input, output });
        case.finish(move |results| {
            let expected: Vec<f32> = values.iter().map(|&x| elu(x)).collect();
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn reflect_case(shape: Shape, to: (usize, usize)) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} to {}×{}", named("reflect", shape), to.0, to.1);
    Case::new(name, 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let planes = batch * channels;
        let values = uniforms(2, planes * height * width);
        let input = case.tensor(Contents::F32(channels * height * width), &values);
        let output = case.unset(Contents::F32(channels * to.0 * to.1));
        let from = (height, width);
        case.push(NetworkOp::Reflect {
            input,
            from,
            to,
            output,
        });
        case.finish(move |results| {
            let expected = each(f32::NAN, planes, to.0 * to.1, |plane, output| {
                reflect(part(&values, planes, plane), from, to.1, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn load_case(shape: Shape) -> Case {
    let (batch, channels, height, width) = shape;
    Case::new(named("load_image", shape), 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let values = uniforms(2, batch * channels * height * width);
        let x = case.tensor(Contents::F32(channels * height * width), &values);
        let output = case.unset(feature(channels, (height, width)));
        case.push(NetworkOp::LoadImage { x, output });
        case.finish(move |results| {
            let map = channels.next_multiple_of(BLOCK) * height * width;
            let expected = each(f32::NAN, batch, map, |state, output| {
                load_image(part(&values, batch, state), channels, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn load_scaled_case(shape: Shape, kind: Parametrisation, tells_level: bool) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} {kind:?}", named("load_scaled", shape));
    Case::new(name, 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let values = uniforms(2, batch * channels * height * width);
        let x = case.tensor(Contents::F32(channels * height * width), &values);
        let level = case.tensor(Contents::F64(1), &levels(batch));
        let wide = channels + usize::from(tells_level);
        let output = case.unset(feature(wide, (height, width)));
        case.push(NetworkOp::LoadScaled { x, level, kind, output });
        case.finish(move |results| {
            let map = wide.next_multiple_of(BLOCK) * height * width;
            let expected = each(f32::NAN, batch, map, |state, output| {
                let x = part(&values, batch, state);
                load_scaled(kind, x, levels(batch)[state], channels, tells_level, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn store_mixed_case(shape: Shape, kind: Parametrisation) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} {kind:?}", named("store_mixed", shape));
    Case::new(name, 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let image = channels * height * width;
        let (states, values) = (
            uniforms(2, batch * image),
            feature_map(3, batch, channels, height * width),
        );
        let x = case.tensor(Contents::F32(image), &states);
        let input = case.tensor(feature(channels, (height, width)), &values);
        let level = case.tensor(Contents::F64(1), &levels(batch));
        let score = case.unset(Contents::F32(image));
        case.push(NetworkOp::StoreMixed {
            x,
            input,
            level,
            kind,
            score,
        });
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, image, |state, score| {
                let (x, input) = (part(&states, batch, state), part(&values, batch, state));
                store_mixed(kind, x, input, levels(batch)[state], channels, score);
            });
            Ok(absolute_error(&results.of(score), &expected))
        })
    })
}

fn store_case(shape: Shape) -> Case {
    let (batch, channels, height, width) = shape;
    Case::new(named("store_score", shape), 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let values = feature_map(3, batch, channels, height * width);
        let input = case.tensor(feature(channels, (height, width)), &values);
        let level = case.tensor(Contents::F64(1), &levels(batch));
        let score = case.unset(Contents::F32(channels * height * width));
        case.push(NetworkOp::StoreScore { input, level, score });
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, channels * height * width, |state, score| {
                store_score(part(&values, batch, state), levels(batch)[state], channels, score);
            });
            Ok(absolute_error(&results.of(score), &expected))
        })
    })
}

/// alpha, gamma and beta of a norm.
pub fn learned(channels: usize) -> [Vec<f32>; 3] {
    [5, 6, 7].map(|name| normals(name, channels))
}

/// Pushes the norm of a map.
pub fn push_norm(case: &mut Builder<'_>, input: TensorId, statistics: Option<TensorId>, channels: usize) -> TensorId {
    let [alpha, gamma, beta] = learned(channels);
    let output = case.unset(Contents::F32(2 * channels.next_multiple_of(BLOCK)));
    let op = NetworkOp::NormCoefficients {
        input,
        statistics,
        alpha: case.weight("norm.alpha", &[channels], alpha),
        gamma: case.weight("norm.gamma", &[channels], gamma),
        beta: case.weight("norm.beta", &[channels], beta),
        output,
    };
    case.push(op);
    output
}

/// How far the coefficients are off that were made of these maps.
pub fn norm_error(coefficients: &[f32], maps: &[f32], batch: usize, channels: usize) -> f64 {
    let [alpha, gamma, beta] = learned(channels);
    let expected = each(f32::NAN, batch, coefficients.len() / batch, |state, output| {
        norm_coefficients(part(maps, batch, state), &alpha, &gamma, &beta, output);
    });
    // With one pixel or one channel a variance is 0/0 or 0: both sides agree on what that gives.
    relative_error(coefficients, &expected)
}

/// The CPU sums runs of 64 pixels in f32, and all hand means and variances on in f32; the shift is a difference of terms as
/// large as scale · mean.
pub fn norm_bound(offset: f32) -> f64 {
    if offset == 0.0 { 1e-6 } else { 4e-6 }
}

/// `offset` moves the map far from 0, where a variance as a difference of squares would be lost.
fn norm_case(shape: Shape, offset: f32) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} + {offset}", named("norm_coefficients", shape));
    Case::new(name, norm_bound(offset), move |target| {
        let mut case = Builder::new(batch, target);
        let mut maps = feature_map(4, batch, channels, height * width);
        for value in maps.iter_mut().filter(|v| **v != 0.0) {
            *value += offset;
        }
        let input = case.tensor(feature(channels, (height, width)), &maps);
        let output = push_norm(&mut case, input, None, channels);
        case.finish(move |results| Ok(norm_error(&results.of(output), &maps, batch, channels)))
    })
}

/// What the twin makes of each plane of a batch.
fn planes(count: usize, len: usize, of: impl FnMut(usize, &mut [f32])) -> Vec<f32> {
    each(f32::NAN, count, len, of)
}

fn max_pool_case(shape: Shape) -> Case {
    let (batch, channels, height, width) = shape;
    Case::new(named("max_pool", shape), 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let (count, plane) = (batch * channels / BLOCK, height * width * BLOCK);
        let mut values = normals(8, count * plane);
        values[0] = f32::NEG_INFINITY;
        values[plane - 1] = f32::INFINITY;
        let map = feature(channels, (height, width));
        let (input, output) = (case.tensor(map, &values), case.unset(map));
        case.push(NetworkOp::MaxPool { input, output });
        case.finish(move |results| {
            let expected = planes(count, plane, |i, output| {
                max_pool(part(&values, count, i), height, width, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// `height` and `width` of the output.
fn mean_pool_case(shape: Shape, with_residual: bool) -> Case {
    let (batch, channels, height, width) = shape;
    let what = if with_residual { "with" } else { "without" };
    let name = format!("{} {what} residual", named("mean_pool to", shape));
    Case::new(name, 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let (count, plane) = (batch * channels / BLOCK, height * width * BLOCK);
        let (maps, added) = (normals(9, 4 * count * plane), normals(10, count * plane));
        let to = feature(channels, (height, width));
        let input = case.tensor(feature(channels, (2 * height, 2 * width)), &maps);
        let residual = with_residual.then(|| case.tensor(to, &added));
        let output = case.unset(to);
        case.push(NetworkOp::MeanPool {
            input,
            residual,
            output,
        });
        case.finish(move |results| {
            let expected = planes(count, plane, |i, output| {
                let residual = with_residual.then(|| part(&added, count, i));
                mean_pool(part(&maps, count, i), residual, height, width, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// Without fused multiply-add each of two interpolations of numbers below 8 rounds once more: half a unit of 2⁻²¹ each.
const RESIZE_BOUND: f64 = 1e-6;

fn resize_case(shape: Shape, to: (usize, usize), with_addend: bool) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} to {}×{}", named("resize_add", shape), to.0, to.1);
    Case::new(name, RESIZE_BOUND, move |target| {
        let mut case = Builder::new(batch, target);
        let (count, from) = (batch * channels / BLOCK, (height, width));
        let plane = to.0 * to.1 * BLOCK;
        let (maps, added) = (normals(11, count * height * width * BLOCK), normals(12, count * plane));
        let input = case.tensor(feature(channels, from), &maps);
        let addend = with_addend.then(|| case.tensor(feature(channels, to), &added));
        let output = case.unset(feature(channels, to));
        case.push(NetworkOp::ResizeAdd { input, addend, output });
        case.finish(move |results| {
            let expected = planes(count, plane, |i, output| {
                let addend = with_addend.then(|| part(&added, count, i));
                resize_add(part(&maps, count, i), from, addend, to, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

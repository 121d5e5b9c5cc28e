//! The ops of published networks beside convolution.

use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::attention::attention;
use qcs_kernels::network::concat::concat;
use qcs_kernels::network::dense::dense;
use qcs_kernels::network::embed::{Told, embed, halves};
use qcs_kernels::network::group_norm::{GroupNorm as Twin, Terms};
use qcs_kernels::network::resample::{Resampling, resample};

use super::values::{feature_map, normals};
use super::{Builder, Case, absolute_error, each, part, relative_error};
use crate::plan::{Activation, Contents, Embed, GroupNorm, LevelTerms, NetworkOp};

/// Batch, channels, height, width.
type Shape = (usize, usize, usize, usize);

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [(1, 8, 4, 6), (3, 16, 2, 2), (2, 40, 6, 10)] {
        for how in [
            Resampling::Keep,
            Resampling::Mean,
            Resampling::Nearest,
            Resampling::First,
            Resampling::Last,
            Resampling::Unfold,
        ] {
            cases.push(resample_case(shape, how, Function::Identity, false, 1.0));
            cases.push(resample_case(shape, how, Function::Silu, true, 0.7));
        }
    }
    cases.push(resample_case(
        (2, 32, 3, 5),
        Resampling::Fold,
        Function::Identity,
        false,
        1.0,
    ));
    cases.push(resample_case(
        (1, 96, 2, 2),
        Resampling::Fold,
        Function::Relu,
        false,
        1.0,
    ));
    cases.push(resample_case(
        (1, 16, 5, 7),
        Resampling::Keep,
        Function::Identity,
        true,
        1.0,
    ));
    // Groups of 1, 3 and 12 channels, which straddle blocks of eight, one of all channels, and a single pixel.
    for (shape, groups) in [
        ((1, 32, 6, 7), 32),
        ((5, 96, 4, 4), 32),
        ((2, 48, 9, 5), 4),
        ((1, 24, 16, 16), 1),
        ((3, 16, 1, 1), 2),
        ((1, 20, 5, 5), 5),
    ] {
        for terms in [None, Some(Terms::Added), Some(Terms::ScaleShift)] {
            cases.push(group_norm_case(shape, groups, terms, 0.0));
        }
        cases.push(group_norm_case(shape, groups, Some(Terms::Added), 300.0));
        cases.push(faint_norm_case(shape, groups));
    }
    cases.extend([
        concat_case((1, 8, 3, 5), 16),
        concat_case((3, 24, 1, 1), 8),
        concat_case((2, 16, 7, 7), 5),
    ]);
    // Heads of 8, 64 and 72 channels; fewer keys than a warp has lanes, as many, and more.
    cases.extend([
        attention_case((1, 8, 1, 1), 1),
        attention_case((2, 32, 3, 5), 4),
        attention_case((1, 64, 4, 8), 1),
        attention_case((3, 72, 5, 7), 1),
        attention_case((1, 128, 6, 6), 2),
        attention_case((2, 256, 4, 9), 1),
    ]);
    for told in [Told::QuarterLog, Told::Log, Told::Step] {
        cases.push(embed_case(5, 32, told, false));
        cases.push(embed_case(2, 6, told, true));
    }
    cases.extend([
        dense_case(1, 8, 16, false),
        dense_case(5, 37, 13, true),
        dense_case(3, 128, 200, true),
        dense_case(2, 5, 1, false),
        whole_dense_case(2, 37, 13),
        whole_dense_case(3, 40, 9),
    ]);
    cases
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

/// The GPU's exp and quotient, and the CPU's polynomial, leave this of values near ten.
const SILU_BOUND: f64 = 2e-6;

fn resample_case(shape: Shape, how: Resampling, function: Function, is_normed: bool, factor: f32) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} {how:?} {function:?} {is_normed}", named("resample", shape));
    Case::new(name, SILU_BOUND, move |target| {
        let mut case = Builder::new(batch, target);
        let maps = feature_map(70, batch, channels, height * width);
        let coefficients = normals(71, batch * 2 * channels);
        let input = case.tensor(feature(channels, (height, width)), &maps);
        let mut norm = || case.tensor(Contents::F32(2 * channels), &coefficients);
        let activation = match (function, is_normed) {
            (Function::Silu, _) => Activation::NormSilu(norm()),
            (Function::Identity, true) => Activation::Norm(norm()),
            (Function::Relu, _) => Activation::Relu,
            (Function::Elu, _) => Activation::Elu,
            (Function::Identity, false) => Activation::None,
        };
        let (wide, rows, columns) = how.output((channels, height, width));
        let output = case.unset(feature(wide, (rows, columns)));
        case.push(NetworkOp::Resample {
            input,
            activation,
            how,
            factor,
            output,
        });
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, wide * rows * columns, |state, output| {
                let coefficients = is_normed.then(|| part(&coefficients, batch, state));
                let map = part(&maps, batch, state);
                resample(how, function, factor, map, (height, width), coefficients, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// `offset` moves the map far from 0.
fn group_norm_case(shape: Shape, groups: usize, kind: Option<Terms>, offset: f32) -> Case {
    let bound = if offset == 0.0 { 2e-6 } else { 1e-5 };
    let map = move |v: f32| v + offset;
    norm_case(&format!("+ {offset}"), bound, shape, groups, kind, map)
}

/// A map so faint that its variance counts no more than the floor.
fn faint_norm_case(shape: Shape, groups: usize) -> Case {
    norm_case("faint", 2e-6, shape, groups, Some(Terms::ScaleShift), |v| v * 2e-3)
}

fn norm_case(
    what: &str,
    bound: f64,
    shape: Shape,
    groups: usize,
    kind: Option<Terms>,
    map: impl Fn(f32) -> f32 + 'static + Copy,
) -> Case {
    let (batch, channels, height, width) = shape;
    const BEFORE: usize = 3;
    let name = format!("{} {groups} groups, {kind:?} {what}", named("group_norm", shape));
    Case::new(name, bound, move |target| {
        let mut case = Builder::new(batch, target);
        let mut maps = feature_map(72, batch, channels, height * width);
        maps.iter_mut().filter(|v| **v != 0.0).for_each(|v| *v = map(*v));
        let (gamma, beta) = (normals(73, channels), normals(74, channels));
        let of_state = BEFORE + 2 * channels + 1;
        let all = normals(75, batch * of_state);
        let input = case.tensor(feature(channels, (height, width)), &maps);
        let terms = kind.map(|kind| LevelTerms {
            kind,
            tensor: case.tensor(Contents::F32(of_state), &all),
            first: BEFORE,
        });
        let wide = 2 * channels.next_multiple_of(BLOCK);
        let op = GroupNorm {
            input,
            statistics: None,
            gamma: case.weight("norm.weight", &[channels], gamma.clone()),
            beta: case.weight("norm.bias", &[channels], beta.clone()),
            groups,
            epsilon: 1e-5,
            terms,
            output: case.unset(Contents::F32(wide)),
        };
        case.push(NetworkOp::GroupNorm(op));
        case.finish(move |results| {
            let norm = Twin {
                gamma: &gamma,
                beta: &beta,
                of_group: channels / groups,
                epsilon: 1e-5,
            };
            let expected = each(f32::NAN, batch, wide, |state, output| {
                let terms = kind.map(|kind| (kind, &part(&all, batch, state)[BEFORE..]));
                norm.coefficients(part(&maps, batch, state), terms, output);
            });
            Ok(relative_error(&results.of(op.output), &expected))
        })
    })
}

fn concat_case(shape: Shape, more: usize) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} and {more}", named("concat", shape));
    Case::new(name, 0.0, move |target| {
        let mut case = Builder::new(batch, target);
        let one = feature_map(76, batch, channels, height * width);
        let two = feature_map(77, batch, more, height * width);
        let first = case.tensor(feature(channels, (height, width)), &one);
        let second = case.tensor(feature(more, (height, width)), &two);
        let output = case.unset(feature(channels + more, (height, width)));
        case.push(NetworkOp::Concat { first, second, output });
        case.finish(move |results| {
            let len = (one.len() + two.len()) / batch;
            let expected = each(f32::NAN, batch, len, |state, output| {
                concat(part(&one, batch, state), part(&two, batch, state), output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// Products of a few units are exponents: what f32 loses of them is what the weights lose, relatively.
const ATTENTION_BOUND: f64 = 4e-6;

fn attention_case(shape: Shape, heads: usize) -> Case {
    let (batch, channels, height, width) = shape;
    let name = format!("{} {heads} heads", named("attention", shape));
    Case::new(name, ATTENTION_BOUND, move |target| {
        let mut case = Builder::new(batch, target);
        let pixels = height * width;
        let qkv = feature_map(78, batch, 3 * channels, pixels);
        let input = case.tensor(feature(3 * channels, (height, width)), &qkv);
        let output = case.unset(feature(channels, (height, width)));
        case.push(NetworkOp::Attention { input, heads, output });
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, channels * pixels, |state, output| {
                attention(part(&qkv, batch, state), heads, pixels, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

/// Numbers as the tables of an embedding hold them.
fn table(values: impl Iterator<Item = f64> + Clone) -> Vec<f32> {
    let halves = values.map(halves);
    halves.clone().map(|h| h.0).chain(halves.map(|h| h.1)).collect()
}

/// Both sides compute in f64 and round once, but for the order of a product's roundings.
fn embed_case(batch: usize, width: usize, told: Told, cosines_first: bool) -> Case {
    let name = format!("embed {batch}×{width} {told:?}");
    Case::new(name, 1e-7, move |target| {
        let mut case = Builder::new(batch, target);
        // From below the least of the table to beyond its last
        let values: Vec<f64> = (0..batch).map(|state| 0.001 * 30f64.powi(state as i32)).collect();
        let frequencies = table((0..width / 2).map(|k| 1e4f64.powf(-2.0 * k as f64 / width as f64)));
        let steps = table((0..1000).map(|step| -4.6 + 0.0096 * f64::from(step)));
        let level = case.tensor(Contents::F64(1), &values);
        let output = case.unset(Contents::F32(width));
        let is_step = told == Told::Step;
        let op = Embed {
            level,
            told,
            cosines_first,
            frequencies: case.weight("frequencies", &[frequencies.len()], frequencies.clone()),
            table: is_step.then(|| case.weight("steps", &[steps.len()], steps.clone())),
            output,
        };
        case.push(op);
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, width, |state, output| {
                let table = if is_step { &steps[..] } else { &[] };
                embed(told, values[state], &frequencies, table, cosines_first, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

fn dense_case(batch: usize, inputs: usize, outputs: usize, silu: bool) -> Case {
    let unit = 1.0 / (inputs as f32).sqrt();
    let name = format!("dense {batch}×{inputs}→{outputs} {silu}");
    layer_case(
        name,
        SILU_BOUND,
        [batch, inputs, outputs],
        silu,
        |v| v,
        move |w| w * unit,
    )
}

/// Whole numbers, whose products take more bits than one word of an f64 has, and whose few sums are exact in f32: not a bit may be lost.
fn whole_dense_case(batch: usize, inputs: usize, outputs: usize) -> Case {
    let name = format!("dense {batch}×{inputs}→{outputs} of whole numbers");
    let large = |v: f32| v.signum() * (1500.0 + (50.0 * v).round());
    let rare = move |v: f32| if v.abs() > 1.8 { large(v) } else { 0.0 };
    layer_case(name, 0.0, [batch, inputs, outputs], false, rare, large)
}

fn layer_case(
    name: String,
    bound: f64,
    [batch, inputs, outputs]: [usize; 3],
    silu: bool,
    value: impl Fn(f32) -> f32 + 'static + Copy,
    weight: impl Fn(f32) -> f32 + 'static + Copy,
) -> Case {
    Case::new(name, bound, move |target| {
        let mut case = Builder::new(batch, target);
        let values: Vec<f32> = normals(79, batch * inputs).into_iter().map(value).collect();
        let bias: Vec<f32> = normals(80, outputs).into_iter().map(weight).collect();
        let weights: Vec<f32> = normals(81, outputs * inputs).into_iter().map(weight).collect();
        let input = case.tensor(Contents::F32(inputs), &values);
        let output = case.unset(Contents::F32(outputs));
        let op = NetworkOp::Dense {
            input,
            weight: case.weight("weight", &[outputs, inputs], weights.clone()),
            bias: case.weight("bias", &[outputs], bias.clone()),
            silu,
            output,
        };
        case.push(op);
        case.finish(move |results| {
            let expected = each(f32::NAN, batch, outputs, |state, output| {
                dense(part(&values, batch, state), &weights, &bias, silu, output);
            });
            Ok(absolute_error(&results.of(output), &expected))
        })
    })
}

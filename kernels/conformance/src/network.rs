//! The ops on feature maps other than convolution.

use crate::values::{feature_map, levels, normals, uniforms};
use crate::{Array, Case, absolute_error, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::network::elu::{EluArgs, elu};
use qcs_kernels::network::load_image::{LoadImageArgs, load_image};
use qcs_kernels::network::max_pool::{MaxPoolArgs, max_pool};
use qcs_kernels::network::mean_pool::{MeanPoolArgs, mean_pool};
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMomentsArgs, norm_coefficients};
use qcs_kernels::network::resize_add::{ResizeAddArgs, resize_add};
use qcs_kernels::network::store_score::{StoreScoreArgs, store_score};

/// Batch, channels, height, width: sizes of the three configurations at few channels, odd ones, and single pixels.
const SHAPES: [(usize, usize, usize, usize); 6] = [
    (1, 3, 28, 28),
    (5, 16, 14, 14),
    (2, 40, 7, 9),
    (5, 1, 1, 1),
    (1, 8, 64, 64),
    (1, 24, 5, 33),
];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![elu_of_special_values(), norm_case("8×128×32×32", 8, 128, 32 * 32, 0.0)];
    for (batch, channels, height, width) in SHAPES {
        let shape = format!("{batch}×{channels}×{height}×{width}");
        cases.extend([
            elu_case(&shape, batch, channels, height * width),
            load_case(&shape, batch, channels, height * width),
            store_case(&shape, batch, channels, height * width),
            norm_case(&shape, batch, channels, height * width, 0.0),
            norm_case(&shape, batch, channels, height * width, 1000.0),
            max_pool_case(&shape, batch * channels.div_ceil(8), height, width),
            mean_pool_case(&shape, batch * channels.div_ceil(8), height, width, true),
            mean_pool_case(&shape, batch * channels.div_ceil(8), height, width, false),
        ]);
        for to in [(height, width), (2 * height, 2 * width), (height + 3, 1)] {
            cases.push(resize_case(
                &shape,
                batch * channels.div_ceil(8),
                (height, width),
                to,
                true,
            ));
        }
        cases.push(resize_case(
            &shape,
            batch * channels.div_ceil(8),
            (height, width),
            (3, width),
            false,
        ));
    }
    cases
}

/// The approximate 2ˣ and f32 near 1.
const ELU_BOUND: f64 = 4e-7;

fn elu_case(shape: &str, batch: usize, channels: usize, pixels: usize) -> Case {
    Case::new(format!("elu {shape}"), 0, ELU_BOUND, move |gpu| {
        let input: Vec<f32> = feature_map(1, batch, channels, pixels)
            .iter()
            .map(|v| 4.0 * v)
            .collect();
        let expected: Vec<f32> = input.iter().map(|&x| elu(x)).collect();
        let (input, output) = (Array::new(gpu, &input)?, Array::unset(gpu, expected.len())?);
        let len = expected.len() as u64;
        launch(
            gpu,
            EluArgs {
                input: input.global(),
                output: output.global(),
                len,
            },
        )?;
        Ok(absolute_error(&output.read()?, &expected))
    })
}

fn elu_of_special_values() -> Case {
    Case::new("elu of special values, in place".into(), 0, ELU_BOUND, |gpu| {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let x = [0.0, -0.0, -1e-30, 1e-30, -inf, inf, nan, f32::MIN];
        let expected: Vec<f32> = x.iter().map(|&x| elu(x)).collect();
        let x = Array::new(gpu, &x)?;
        launch(
            gpu,
            EluArgs {
                input: x.global(),
                output: x.global(),
                len: 8,
            },
        )?;
        Ok(absolute_error(&x.read()?, &expected))
    })
}

fn load_case(shape: &str, states: usize, channels: usize, pixels: usize) -> Case {
    Case::new(format!("load_image {shape}"), 0, 0.0, move |gpu| {
        let x = uniforms(2, states * channels * pixels);
        let per_state = channels.next_multiple_of(8) * pixels;
        let mut expected = vec![f32::NAN; states * per_state];
        for (x, output) in x.chunks(channels * pixels).zip(expected.chunks_mut(per_state)) {
            load_image(x, channels, output);
        }
        let (x, output) = (Array::new(gpu, &x)?, Array::unset(gpu, expected.len())?);
        let args = LoadImageArgs {
            x: x.global(),
            output: output.global(),
            states: states as u32,
            channels: channels as u32,
            pixels: pixels as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&output.read()?, &expected))
    })
}

fn store_case(shape: &str, states: usize, channels: usize, pixels: usize) -> Case {
    Case::new(format!("store_score {shape}"), 0, 0.0, move |gpu| {
        let input = feature_map(3, states, channels, pixels);
        let per_state = channels.next_multiple_of(8) * pixels;
        let mut expected = vec![f32::NAN; states * channels * pixels];
        let maps = input.chunks(per_state).zip(expected.chunks_mut(channels * pixels));
        for ((input, score), level) in maps.zip(levels(states)) {
            store_score(input, level, channels, score);
        }
        let level = Array::new(gpu, &levels(states))?;
        let (input, score) = (Array::new(gpu, &input)?, Array::unset(gpu, expected.len())?);
        let args = StoreScoreArgs {
            level: level.global(),
            input: input.global(),
            score: score.global(),
            states: states as u32,
            channels: channels as u32,
            pixels: pixels as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&score.read()?, &expected))
    })
}

/// `offset` moves the map far from 0, where a variance as a difference of squares would be lost.
fn norm_case(shape: &str, images: usize, channels: usize, pixels: usize, offset: f32) -> Case {
    // Means and variances are handed on in f32. The shift is a difference of terms as large as scale · mean.
    let bound = if offset == 0.0 { 1e-6 } else { 2e-6 };
    Case::new(format!("norm_coefficients {shape} + {offset}"), 0, bound, move |gpu| {
        let mut input = feature_map(4, images, channels, pixels);
        for value in input.iter_mut().filter(|v| **v != 0.0) {
            *value += offset;
        }
        let wide = channels.next_multiple_of(8);
        let (alpha, gamma, beta) = (normals(5, channels), normals(6, channels), normals(7, channels));
        let mut expected = vec![f32::NAN; images * 2 * wide];
        for (input, output) in input.chunks(wide * pixels).zip(expected.chunks_mut(2 * wide)) {
            norm_coefficients(input, &alpha, &gamma, &beta, output);
        }
        let input = Array::new(gpu, &input)?;
        let output = Array::unset(gpu, expected.len())?;
        let (alpha, gamma, beta) = (
            Array::new(gpu, &alpha)?,
            Array::new(gpu, &gamma)?,
            Array::new(gpu, &beta)?,
        );
        let moments = NormMomentsArgs {
            input: input.global(),
            output: output.global(),
            images: images as u32,
            blocks: wide as u32 / 8,
            pixels: pixels as u32,
            unused: 0,
        };
        let finish = NormFinishArgs {
            alpha: alpha.global(),
            gamma: gamma.global(),
            beta: beta.global(),
            output: output.global(),
            images: images as u32,
            channels: channels as u32,
        };
        launch(gpu, moments)?;
        launch(gpu, finish)?;
        let actual = output.read()?;
        // With one pixel or one channel a variance is 0/0 or 0: both sides agree on what that gives.
        Ok(relative_error(&actual, &expected))
    })
}

fn max_pool_case(shape: &str, planes: usize, height: usize, width: usize) -> Case {
    Case::new(format!("max_pool {shape}"), 0, 0.0, move |gpu| {
        let plane = height * width * 8;
        let mut input = normals(8, planes * plane);
        input[0] = f32::NEG_INFINITY;
        input[plane - 1] = f32::INFINITY;
        let mut expected = vec![f32::NAN; planes * plane];
        for (input, output) in input.chunks(plane).zip(expected.chunks_mut(plane)) {
            max_pool(input, height, width, output);
        }
        let (input, output) = (Array::new(gpu, &input)?, Array::unset(gpu, expected.len())?);
        let args = MaxPoolArgs {
            input: input.global(),
            output: output.global(),
            planes: planes as u32,
            height: height as u32,
            width: width as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&output.read()?, &expected))
    })
}

/// `height` and `width` of the output.
fn mean_pool_case(shape: &str, planes: usize, height: usize, width: usize, with_residual: bool) -> Case {
    let what = if with_residual { "with" } else { "without" };
    Case::new(format!("mean_pool to {shape} {what} residual"), 0, 0.0, move |gpu| {
        let plane = height * width * 8;
        let (input, residual) = (normals(9, 4 * planes * plane), normals(10, planes * plane));
        let mut expected = vec![f32::NAN; planes * plane];
        for (i, output) in expected.chunks_mut(plane).enumerate() {
            let residual = with_residual.then(|| &residual[i * plane..(i + 1) * plane]);
            mean_pool(
                &input[4 * i * plane..4 * (i + 1) * plane],
                residual,
                height,
                width,
                output,
            );
        }
        let (input, residual) = (Array::new(gpu, &input)?, Array::new(gpu, &residual)?);
        let output = Array::unset(gpu, expected.len())?;
        let args = MeanPoolArgs {
            input: input.global(),
            residual: if with_residual { residual.global() } else { Global::NONE },
            output: output.global(),
            planes: planes as u32,
            height: height as u32,
            width: width as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&output.read()?, &expected))
    })
}

fn resize_case(shape: &str, planes: usize, from: (usize, usize), to: (usize, usize), with_addend: bool) -> Case {
    Case::new(format!("resize_add {shape} to {}×{}", to.0, to.1), 0, 0.0, move |gpu| {
        let (source, target) = (from.0 * from.1 * 8, to.0 * to.1 * 8);
        let (input, addend) = (normals(11, planes * source), normals(12, planes * target));
        let mut expected = vec![f32::NAN; planes * target];
        for (i, output) in expected.chunks_mut(target).enumerate() {
            let addend = with_addend.then(|| &addend[i * target..(i + 1) * target]);
            resize_add(&input[i * source..(i + 1) * source], from, addend, to, output);
        }
        let (input, addend) = (Array::new(gpu, &input)?, Array::new(gpu, &addend)?);
        let output = Array::unset(gpu, expected.len())?;
        let args = ResizeAddArgs {
            input: input.global(),
            addend: if with_addend { addend.global() } else { Global::NONE },
            output: output.global(),
            planes: planes as u32,
            from_height: from.0 as u32,
            from_width: from.1 as u32,
            height: to.0 as u32,
            width: to.1 as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&output.read()?, &expected))
    })
}

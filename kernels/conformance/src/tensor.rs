//! Convolutions on the tensor cores, and the preparation of their inputs.

use crate::values::{feature_map, normals};
use crate::{Array, Case, Gpu, absolute_error, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::network::conv::prepare::{ConvPrepareArgs, conv_prepare, prepared_words};
use qcs_kernels::network::conv::rounding::{Rounding, f16_value, round};
use qcs_kernels::network::conv::tensor::{TensorConvArgs, pack_tensor_weights, packed_tensor_words};
use qcs_kernels::network::conv::{Layer, conv};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for precision in [Rounding::F16, Rounding::Tf32] {
        for (images, channels, pixels) in [(1, 3, 49), (2, 16, 196), (3, 40, 5), (1, 24, 1)] {
            for (norm, elu) in [(false, false), (false, true), (true, true)] {
                cases.push(prepare_case(precision, images, channels, pixels, norm, elu));
            }
        }
        for shape in [
            (1, 3, 16, 28, 28, 9, 1),
            (2, 24, 40, 7, 9, 9, 4),
            (5, 16, 32, 14, 14, 9, 2),
            (1, 16, 136, 5, 33, 9, 1),
            (2, 40, 72, 5, 7, 1, 1),
            (3, 8, 5, 1, 1, 9, 1),
            (1, 128, 128, 16, 16, 9, 1),
            // Enough pixels for the large tile.
            (5, 16, 72, 64, 65, 9, 1),
            (6, 8, 136, 45, 44, 1, 1),
        ] {
            cases.push(conv_case(precision, shape));
        }
        cases.push(rounding_case(precision, (1, 64, 16, 9, 9, 9, 1)));
    }
    cases
}

/// TF32's instructions came with compute capability 8.0.
pub fn architecture(precision: Rounding) -> u32 {
    match precision {
        Rounding::F16 => 70,
        Rounding::Tf32 => 80,
    }
}

/// Uploads a map, prepares it on the device, and gives its words.
fn prepare<'a>(
    gpu: &'a dyn Gpu,
    precision: Rounding,
    input: &[f32],
    coefficients: Option<&[f32]>,
    (images, channels, pixels): (usize, usize, usize),
    elu: bool,
) -> Result<Array<'a, f32>, String> {
    let input = Array::new(gpu, input)?;
    let coefficients = coefficients.map(|c| Array::new(gpu, c)).transpose()?;
    let output = Array::unset(gpu, prepared_words(precision, images, channels, pixels))?;
    let args = ConvPrepareArgs {
        input: input.global(),
        coefficients: coefficients.as_ref().map_or(Global::NONE, Array::global),
        output: output.global(),
        images: images as u32,
        in_blocks: channels.div_ceil(8) as u32,
        pixels: pixels as u32,
        elu: u32::from(elu),
        precision: precision.code(),
        unused: 0,
    };
    launch(gpu, args)?;
    Ok(output)
}

/// The twin of [`prepare`], for all images.
fn prepared(
    precision: Rounding,
    input: &[f32],
    coefficients: Option<&[f32]>,
    images: usize,
    pixels: usize,
    elu: bool,
) -> Vec<f32> {
    let map = input.len() / images;
    let of_image = 2 * map / pixels;
    let mut output = vec![f32::NAN; input.len()];
    for (image, output) in output.chunks_mut(map).enumerate() {
        let coefficients = coefficients.map(|c| &c[image * of_image..(image + 1) * of_image]);
        conv_prepare(
            precision,
            &input[image * map..(image + 1) * map],
            coefficients,
            pixels,
            elu,
            output,
        );
    }
    output
}

fn prepare_case(precision: Rounding, images: usize, channels: usize, pixels: usize, norm: bool, elu: bool) -> Case {
    let name = format!("conv_prepare {precision:?} {images}×{channels}×{pixels} norm: {norm}, elu: {elu}");
    // Where the device's ELU is off by its own error, the nearest number may be the next one: 2⁻¹⁰ of at most 8.
    let bound = if elu { 8.0 / 1024.0 } else { 0.0 };
    Case::new(name, 0, bound, move |gpu| {
        let input = feature_map(60, images, channels, pixels);
        let wide = channels.next_multiple_of(8);
        let coefficients = norm.then(|| {
            let mut values = normals(61, images * 2 * wide);
            for (at, value) in values.iter_mut().enumerate() {
                *value = if at % wide < channels { *value } else { 0.0 };
            }
            values
        });
        let expected = prepared(precision, &input, coefficients.as_deref(), images, pixels, elu);
        let shape = (images, channels, pixels);
        let words = prepare(gpu, precision, &input, coefficients.as_deref(), shape, elu)?.read()?;
        let actual = match precision {
            Rounding::Tf32 => words,
            Rounding::F16 => halves(&words, images, wide / 8, pixels)?,
        };
        nearly_all_equal(&actual, &expected)?;
        Ok(absolute_error(&actual, &expected))
    })
}

/// Nearly all values must be the very same: all but one in a hundred, and one where there are fewer. A device's `ex2.approx`
/// is not the emulator's, and a single value near the middle between two roundings is no mistake.
fn nearly_all_equal(actual: &[f32], expected: &[f32]) -> Result<(), String> {
    let different = actual.iter().zip(expected).filter(|(a, e)| a != e).count();
    if different > (actual.len() / 100).max(1) {
        return Err(format!("{different} of {} values differ", actual.len()));
    }
    Ok(())
}

/// The halves of a prepared map as a feature map; its padding block must be 0.
fn halves(words: &[f32], images: usize, blocks: usize, pixels: usize) -> Result<Vec<f32>, String> {
    let halves = words
        .iter()
        .flat_map(|w| [w.to_bits() as u16, (w.to_bits() >> 16) as u16])
        .map(f16_value);
    let even = blocks.next_multiple_of(2);
    let (mut kept, mut padding) = (Vec::with_capacity(images * blocks * pixels * 8), 0);
    for (at, value) in halves.enumerate() {
        if at / 8 / pixels % even < blocks {
            kept.push(value);
        } else if value != 0.0 {
            padding += 1;
        }
    }
    if padding == 0 {
        Ok(kept)
    } else {
        Err(format!("{padding} padding values are not 0"))
    }
}

/// Images, inputs, outputs, height, width, taps, dilation.
pub type Shape = (usize, usize, usize, usize, usize, usize, usize);

/// The operands of a convolution, as the host has them.
pub struct Operands {
    pub shape: Shape,
    pub input: Vec<f32>,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub residual: Vec<f32>,
}

impl Operands {
    pub fn new(shape: Shape) -> Self {
        let (images, inputs, outputs, height, width, taps, _) = shape;
        Self {
            shape,
            input: feature_map(62, images, inputs, height * width),
            weight: normals(63, outputs * inputs * taps),
            bias: normals(64, outputs),
            residual: feature_map(65, images, outputs, height * width),
        }
    }

    /// The same with every number changed.
    fn map(&self, change: impl Fn(f32) -> f32) -> Self {
        let of = |values: &[f32]| values.iter().map(|&v| change(v)).collect();
        Self {
            shape: self.shape,
            input: of(&self.input),
            weight: of(&self.weight),
            bias: of(&self.bias),
            residual: of(&self.residual),
        }
    }

    /// The same with input and weights as the tensor cores see them.
    fn rounded(&self, precision: Rounding) -> Self {
        let rounded = self.map(|v| round(precision, v));
        Self {
            bias: self.bias.clone(),
            residual: self.residual.clone(),
            ..rounded
        }
    }

    /// What the twin gives.
    fn twin(&self) -> Vec<f32> {
        let (images, inputs, outputs, height, width, taps, dilation) = self.shape;
        let layer = Layer {
            weight: &self.weight,
            bias: Some(&self.bias),
            outputs,
            inputs,
            taps,
            dilation,
        };
        let (map_in, map_out) = (self.input.len() / images, self.residual.len() / images);
        let mut result = vec![f32::NAN; self.residual.len()];
        for (image, output) in result.chunks_mut(map_out).enumerate() {
            let residual = &self.residual[image * map_out..(image + 1) * map_out];
            conv(
                layer,
                &self.input[image * map_in..(image + 1) * map_in],
                height,
                width,
                Some(residual),
                output,
            );
        }
        result
    }

    /// What the device gives: the output, and its statistics if asked for.
    pub fn on<'a>(
        &self,
        gpu: &'a dyn Gpu,
        precision: Rounding,
        statistics: bool,
    ) -> Result<(Array<'a, f32>, Option<Array<'a, f32>>), String> {
        let (images, inputs, outputs, height, width, taps, dilation) = self.shape;
        let wide = outputs.next_multiple_of(8);
        let mut wide_bias = vec![0.0; wide];
        wide_bias[..outputs].copy_from_slice(&self.bias);
        let mut packed = vec![0u32; packed_tensor_words(precision, outputs, inputs, taps)];
        pack_tensor_weights(precision, &self.weight, outputs, inputs, taps, &mut packed);
        let input = prepare(
            gpu,
            precision,
            &self.input,
            None,
            (images, inputs, height * width),
            false,
        )?;
        let (packed, residual) = (Array::new(gpu, &packed)?, Array::new(gpu, &self.residual)?);
        let (wide_bias, output) = (Array::new(gpu, &wide_bias)?, Array::unset(gpu, self.residual.len())?);
        let mut args = TensorConvArgs {
            input: input.global(),
            weights: packed.cast(),
            bias: wide_bias.global(),
            residual: residual.global(),
            output: output.global(),
            statistics: Global::NONE,
            images: images as u32,
            units: precision.units(inputs) as u32,
            out_blocks: wide as u32 / 8,
            height: height as u32,
            width: width as u32,
            taps: taps as u32,
            dilation: dilation as u32,
            precision: precision.code(),
        };
        let statistics = statistics
            .then(|| Array::unset(gpu, args.statistics_len()))
            .transpose()?;
        args.statistics = statistics.as_ref().map_or(Global::NONE, Array::global);
        launch(gpu, args)?;
        Ok((output, statistics))
    }
}

fn name(precision: Rounding, shape: Shape) -> String {
    let (images, inputs, outputs, height, width, taps, dilation) = shape;
    format!("conv {precision:?} {images}×{inputs}→{outputs}×{height}×{width} {taps} taps, dilation {dilation}")
}

fn flops((images, inputs, outputs, height, width, taps, _): Shape) -> u64 {
    2 * (images * inputs * outputs * taps * height * width) as u64
}

/// The rounding of the additions in f32, rounded or truncated once for every unit.
const ADDITIONS: f64 = 2e-5;

/// The operands are the rounded ones on both sides.
fn conv_case(precision: Rounding, shape: Shape) -> Case {
    Case::new(name(precision, shape), flops(shape), ADDITIONS, move |gpu| {
        let operands = Operands::new(shape);
        let expected = operands.rounded(precision).twin();
        let (output, _) = operands.on(gpu, precision, false)?;
        Ok(relative_error(&output.read()?, &expected))
    })
    .needs(architecture(precision))
}

/// Against the exact operands, in units of what their rounding allows: a product of two numbers of 11 bits is off by
/// 2⁻¹⁰ of itself at most, so a sum by 2⁻¹⁰ of the sum of magnitudes.
fn rounding_case(precision: Rounding, shape: Shape) -> Case {
    let name = format!("{}, against exact operands", name(precision, shape));
    Case::new(name, flops(shape), 1.0, move |gpu| {
        let operands = Operands::new(shape);
        let (expected, magnitudes) = (operands.twin(), operands.map(f32::abs).twin());
        let actual = operands.on(gpu, precision, false)?.0.read()?;
        let errors = actual.iter().zip(&expected).zip(&magnitudes).map(|((a, e), m)| {
            let allowed = (1.001 / 1024.0 + ADDITIONS) * f64::from(*m);
            let error = (f64::from(*a) - f64::from(*e)).abs();
            if error <= allowed {
                error / allowed.max(f64::MIN_POSITIVE)
            } else {
                f64::INFINITY
            }
        });
        Ok(errors.fold(0.0, f64::max))
    })
    .needs(architecture(precision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_a_hundred_may_round_otherwise_and_one_of_a_few() {
        for (len, allowed) in [(24, 1), (100, 1), (199, 1), (1000, 10)] {
            let with = |different: usize| {
                let mut values = vec![0.0; len];
                values[..different].fill(1.0);
                nearly_all_equal(&values, &vec![0.0; len])
            };
            assert!(with(allowed).is_ok() && with(allowed + 1).is_err(), "{len}");
        }
    }
}

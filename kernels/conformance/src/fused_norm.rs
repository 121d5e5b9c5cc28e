//! A convolution that leaves the statistics of its output, and the norm coefficients made of them.

use crate::conv::{self, Activation};
use crate::tensor;
use crate::values::normals;
use crate::{Array, Case, Gpu, launch, part, relative_error};
use qcs_kernels::network::conv::rounding::Rounding;
use qcs_kernels::network::norm_coefficients::{NormFinishArgs, NormMergeArgs, norm_coefficients};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for layer in layers() {
        // In one batch, the tile is the large one for the largest layers; alone it is never.
        if layer.shape.images == 5 {
            cases.push(batch_case(layer));
        }
        cases.push(norm_case(layer, 0.0));
        cases.push(norm_case(layer, 1000.0));
    }
    cases
}

/// A convolution and what computes it.
#[derive(Clone, Copy, Debug)]
struct Layer {
    shape: conv::Shape,
    /// Of the tensor cores; none for fp32.
    precision: Option<Rounding>,
}

/// Sizes of the three configurations, of which 14×14 leaves the last strip short; sizes below a strip; every tile with
/// every activation.
fn layers() -> Vec<Layer> {
    use Activation::{Elu, None as Plain, NormElu};
    let fp32 = [
        conv::Shape::new(5, 16, 16, 28, 28).pointwise(),
        conv::Shape::new(5, 16, 32, 14, 14).after(NormElu).plus_residual(),
        conv::Shape::new(2, 8, 40, 32, 32).after(Elu).pointwise(),
        conv::Shape::new(1, 8, 16, 16, 16)
            .dilated(4)
            .without_bias()
            .plus_residual(),
        conv::Shape::new(1, 8, 16, 64, 64).pointwise(),
        conv::Shape::new(2, 24, 40, 7, 9).dilated(2).plus_residual(),
        conv::Shape::new(3, 8, 24, 3, 3),
        conv::Shape::new(5, 20, 12, 1, 1).after(NormElu),
        conv::Shape::new(5, 16, 8, 9, 9).after(Elu),
        conv::Shape::new(1, 24, 3, 33, 31).after(NormElu).plus_residual(),
        conv::Shape::new(2, 8, 5, 28, 28),
        conv::Shape::new(8, 8, 128, 32, 32).pointwise(),
        conv::Shape::new(5, 8, 72, 65, 63)
            .after(Plain)
            .pointwise()
            .plus_residual(),
        conv::Shape::new(5, 8, 72, 65, 63).after(Elu).pointwise(),
        conv::Shape::new(5, 8, 72, 65, 63).after(NormElu).pointwise(),
    ];
    let tensor = [
        conv::Shape::new(1, 3, 16, 28, 28),
        conv::Shape::new(5, 16, 32, 14, 14).dilated(2),
        conv::Shape::new(1, 16, 136, 16, 16).pointwise(),
        conv::Shape::new(2, 24, 40, 7, 9),
        conv::Shape::new(3, 8, 24, 3, 3),
        conv::Shape::new(5, 16, 72, 65, 63).pointwise(),
    ];
    let with = |precision| move |shape| Layer { shape, precision };
    let mut layers: Vec<Layer> = fp32.map(with(None)).into();
    layers.extend(tensor.map(with(Some(Rounding::F16))));
    layers.extend(tensor.map(with(Some(Rounding::Tf32))));
    layers
}

impl Layer {
    fn name(&self) -> String {
        let conv::Shape {
            images,
            inputs,
            outputs,
            height,
            width,
            taps,
            activation,
            ..
        } = self.shape;
        let kind = self
            .precision
            .map_or("F32".into(), |precision| format!("{precision:?}"));
        format!("{kind} {images}×{inputs}→{outputs}×{height}×{width} {taps} taps, {activation:?}")
    }

    fn architecture(&self) -> u32 {
        self.precision.map_or(70, tensor::architecture)
    }

    /// The output for the chosen images of the batch, and its statistics if asked for. The output's channels have
    /// deviations near 1 and means near `offset`.
    fn on<'a>(
        &self,
        gpu: &'a dyn Gpu,
        chosen: &[usize],
        offset: f32,
        statistics: bool,
    ) -> Result<(Array<'a, f32>, Option<Array<'a, f32>>), String> {
        let shape = self.shape;
        let conv::Operands {
            input,
            coefficients,
            weight,
            bias,
            mut residual,
            ..
        } = conv::Operands::new(shape);
        let unit = 1.0 / ((shape.inputs * shape.taps) as f32).sqrt();
        let weight = weight.iter().map(|w| unit * w).collect();
        let bias = bias.iter().map(|b| b + offset).collect();
        if !shape.bias {
            residual.iter_mut().for_each(|r| *r += offset);
        }
        let of_chosen = |values: &[f32]| -> Vec<f32> {
            let parts = chosen.iter().map(|&image| part(values, shape.images, image));
            parts.flatten().copied().collect()
        };
        let (input, residual) = (of_chosen(&input), of_chosen(&residual));
        let images = chosen.len();
        match self.precision {
            None => conv::Operands {
                shape: conv::Shape { images, ..shape },
                input,
                coefficients: of_chosen(&coefficients),
                weight,
                bias,
                residual,
            }
            .on(gpu, statistics),
            Some(precision) => tensor::Operands {
                shape: (
                    images,
                    shape.inputs,
                    shape.outputs,
                    shape.height,
                    shape.width,
                    shape.taps,
                    shape.dilation,
                ),
                input,
                weight,
                bias,
                residual,
            }
            .on(gpu, precision, statistics),
        }
    }

    /// The output for the chosen images, and the coefficients of its norm, of which this is `of_channels`.
    fn coefficients(&self, gpu: &dyn Gpu, chosen: &[usize], offset: f32) -> Result<(Vec<f32>, Vec<f32>), String> {
        let channels = self.shape.outputs;
        let (output, statistics) = self.on(gpu, chosen, offset, true)?;
        let statistics = statistics.expect("asked for");
        let coefficients = Array::unset(gpu, chosen.len() * 2 * channels.next_multiple_of(8))?;
        let [alpha, gamma, beta] = of_channels(channels);
        let (alpha, gamma, beta) = (
            Array::new(gpu, &alpha)?,
            Array::new(gpu, &gamma)?,
            Array::new(gpu, &beta)?,
        );
        let merge = NormMergeArgs {
            input: output.global(),
            statistics: statistics.global(),
            output: coefficients.global(),
            images: chosen.len() as u32,
            blocks: channels.div_ceil(8) as u32,
            pixels: self.shape.pixels() as u32,
            unused: 0,
        };
        let finish = NormFinishArgs {
            alpha: alpha.global(),
            gamma: gamma.global(),
            beta: beta.global(),
            output: coefficients.global(),
            images: chosen.len() as u32,
            channels: channels as u32,
        };
        launch(gpu, merge)?;
        launch(gpu, finish)?;
        Ok((output.read()?, coefficients.read()?))
    }
}

/// alpha, gamma and beta of a norm.
fn of_channels(channels: usize) -> [Vec<f32>; 3] {
    [5, 6, 7].map(|name| normals(name, channels))
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
}

/// Against the twin of the norm on the convolution's own output, which must not change by leaving statistics.
fn norm_case(layer: Layer, offset: f32) -> Case {
    // As for the norm of a map that is read.
    let bound = if offset == 0.0 { 1e-6 } else { 2e-6 };
    let name = format!("fused norm {} + {offset}", layer.name());
    Case::new(name, 0, bound, move |gpu| {
        let all: Vec<usize> = (0..layer.shape.images).collect();
        let (output, actual) = layer.coefficients(gpu, &all, offset)?;
        if !same_bits(&output, &layer.on(gpu, &all, offset, false)?.0.read()?) {
            return Err("leaving statistics changes the output".into());
        }
        let [alpha, gamma, beta] = of_channels(layer.shape.outputs);
        let mut expected = vec![f32::NAN; actual.len()];
        let of_image = expected.len() / layer.shape.images;
        for (image, expected) in expected.chunks_mut(of_image).enumerate() {
            norm_coefficients(
                part(&output, layer.shape.images, image),
                &alpha,
                &gamma,
                &beta,
                expected,
            );
        }
        Ok(relative_error(&actual, &expected))
    })
    .needs(layer.architecture())
}

/// An image's coefficients have the same bits alone, in its batch, and elsewhere in another.
fn batch_case(layer: Layer) -> Case {
    let name = format!("fused norm {}, in any batch", layer.name());
    Case::new(name, 0, 0.0, move |gpu| {
        let images = layer.shape.images;
        let all: Vec<usize> = (0..images).collect();
        let (_, together) = layer.coefficients(gpu, &all, 3.0)?;
        for batch in [&[3][..], &[4, 3, 0]] {
            let (_, coefficients) = layer.coefficients(gpu, batch, 3.0)?;
            for (at, &image) in batch.iter().enumerate() {
                if !same_bits(part(&coefficients, batch.len(), at), part(&together, images, image)) {
                    return Err(format!("image {image} has other bits as image {at} of {}", batch.len()));
                }
            }
        }
        Ok(0.0)
    })
    .needs(layer.architecture())
}

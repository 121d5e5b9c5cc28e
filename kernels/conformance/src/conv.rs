//! Convolutions.

use crate::values::{feature_map, normals};
use crate::{Array, Case, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::launch::Arguments;
use qcs_kernels::network::conv::{ConvArgs, Layer, activate, conv, pack_weights, packed_len};

/// What happens to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activation {
    None,
    Elu,
    NormElu,
}

/// One layer on one batch.
#[derive(Clone, Copy, Debug)]
struct Shape {
    images: usize,
    inputs: usize,
    outputs: usize,
    height: usize,
    width: usize,
    taps: usize,
    dilation: usize,
    activation: Activation,
    bias: bool,
    residual: bool,
}

impl Shape {
    const fn new(images: usize, inputs: usize, outputs: usize, height: usize, width: usize) -> Self {
        Self {
            images,
            inputs,
            outputs,
            height,
            width,
            taps: 9,
            dilation: 1,
            activation: Activation::None,
            bias: true,
            residual: false,
        }
    }

    const fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    const fn pointwise(self) -> Self {
        Self { taps: 1, ..self }
    }

    const fn after(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    const fn plus_residual(self) -> Self {
        Self { residual: true, ..self }
    }

    const fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    fn pixels(&self) -> usize {
        self.height * self.width
    }
}

/// Each kind of layer of the three configurations at few channels, odd shapes, and layers large enough for each tile.
fn shapes() -> Vec<Shape> {
    use Activation::{Elu, None, NormElu};
    let mut shapes = vec![
        // begin_conv and end_conv
        Shape::new(1, 1, 16, 28, 28),
        Shape::new(2, 3, 24, 32, 32),
        Shape::new(5, 16, 1, 28, 28).after(NormElu),
        Shape::new(1, 24, 3, 33, 31).after(NormElu).plus_residual(),
        Shape::new(1, 16, 8, 9, 9).after(Elu),
        Shape::new(3, 8, 5, 1, 1),
        // residual stages, refine blocks, shortcuts
        Shape::new(1, 16, 16, 28, 28).after(NormElu).plus_residual(),
        Shape::new(5, 16, 32, 14, 14).after(NormElu),
        Shape::new(1, 16, 32, 14, 14).pointwise(),
        Shape::new(2, 40, 72, 5, 7).pointwise().after(Elu).without_bias(),
        Shape::new(5, 32, 32, 14, 14).dilated(2).after(NormElu).plus_residual(),
        Shape::new(1, 32, 32, 16, 16).dilated(4).after(NormElu),
        Shape::new(1, 24, 40, 7, 9).dilated(4),
        Shape::new(3, 16, 16, 16, 16).after(Elu).without_bias().plus_residual(),
        Shape::new(2, 8, 136, 3, 3).dilated(2).after(Elu),
        Shape::new(1, 16, 16, 64, 64).after(Elu).without_bias(),
        Shape::new(7, 20, 12, 1, 1).after(NormElu),
    ];
    // Enough pixels for the large tile.
    for activation in [None, Elu, NormElu] {
        shapes.push(Shape::new(5, 8, 72, 64, 65).after(activation).plus_residual());
    }
    shapes.push(Shape::new(3, 16, 136, 60, 62).dilated(2).after(NormElu));
    shapes
}

pub fn cases() -> Vec<Case> {
    shapes().into_iter().map(case).collect()
}

fn case(shape: Shape) -> Case {
    let Shape {
        images,
        inputs,
        outputs,
        height,
        width,
        taps,
        dilation,
        ..
    } = shape;
    let name = format!(
        "conv f32 {images}×{inputs}→{outputs}×{height}×{width} {taps} taps, dilation {dilation}, {:?}",
        shape.activation
    );
    let flops = 2 * (images * inputs * outputs * taps * shape.pixels()) as u64;
    Case::new(name, flops, 1e-5, move |gpu| {
        let (wide_in, wide_out) = (inputs.next_multiple_of(8), outputs.next_multiple_of(8));
        let input = feature_map(50, images, inputs, shape.pixels());
        let residual = feature_map(51, images, outputs, shape.pixels());
        let weight = normals(52, outputs * inputs * taps);
        let bias = normals(53, outputs);
        let mut coefficients = normals(54, images * 2 * wide_in);
        // Coefficients of padding channels are 0.
        for (at, value) in coefficients.iter_mut().enumerate() {
            *value = if at % wide_in < inputs { *value } else { 0.0 };
        }
        let with_norm = shape.activation == Activation::NormElu;
        let with_elu = shape.activation != Activation::None;
        let layer = Layer {
            weight: &weight,
            bias: shape.bias.then_some(&bias[..]),
            outputs,
            inputs,
            taps,
            dilation,
        };
        let (map_in, map_out) = (wide_in * shape.pixels(), wide_out * shape.pixels());
        let mut expected = vec![f32::NAN; images * map_out];
        for (image, output) in expected.chunks_mut(map_out).enumerate() {
            let mut input = input[image * map_in..(image + 1) * map_in].to_vec();
            let of_image = &coefficients[image * 2 * wide_in..(image + 1) * 2 * wide_in];
            activate(&mut input, with_norm.then_some(of_image), shape.pixels(), with_elu);
            let residual = shape
                .residual
                .then(|| &residual[image * map_out..(image + 1) * map_out]);
            conv(layer, &input, height, width, residual, output);
        }
        let mut packed = vec![f32::NAN; packed_len(outputs, inputs, taps)];
        pack_weights(&weight, outputs, inputs, taps, &mut packed);
        let mut wide_bias = vec![0.0; wide_out];
        wide_bias[..outputs].copy_from_slice(&bias);
        let (input, residual) = (Array::new(gpu, &input)?, Array::new(gpu, &residual)?);
        let (packed, wide_bias) = (Array::new(gpu, &packed)?, Array::new(gpu, &wide_bias)?);
        let coefficients = Array::new(gpu, &coefficients)?;
        let output = Array::unset(gpu, expected.len())?;
        let args = ConvArgs {
            input: input.global(),
            coefficients: if with_norm { coefficients.global() } else { Global::NONE },
            weights: packed.global(),
            bias: if shape.bias { wide_bias.global() } else { Global::NONE },
            residual: if shape.residual {
                residual.global()
            } else {
                Global::NONE
            },
            output: output.global(),
            images: images as u32,
            in_blocks: wide_in as u32 / 8,
            out_blocks: wide_out as u32 / 8,
            height: height as u32,
            width: width as u32,
            taps: taps as u32,
            dilation: dilation as u32,
            elu: u32::from(with_elu),
        };
        assert!(args.launch().threads > 0);
        launch(gpu, args)?;
        Ok(relative_error(&output.read()?, &expected))
    })
}

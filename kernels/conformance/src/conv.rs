//! Convolutions.

use crate::values::{feature_map, normals};
use crate::{Array, Case, Gpu, launch, part, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::network::conv::{ConvArgs, Layer, activate, conv, pack_weights, packed_len};

/// What happens to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Elu,
    NormElu,
}

/// One layer on one batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub images: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub height: usize,
    pub width: usize,
    pub taps: usize,
    pub dilation: usize,
    pub activation: Activation,
    pub bias: bool,
    pub residual: bool,
}

impl Shape {
    pub const fn new(images: usize, inputs: usize, outputs: usize, height: usize, width: usize) -> Self {
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

    pub const fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    pub const fn pointwise(self) -> Self {
        Self { taps: 1, ..self }
    }

    pub const fn after(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    pub const fn plus_residual(self) -> Self {
        Self { residual: true, ..self }
    }

    pub const fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    pub fn pixels(&self) -> usize {
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
        let operands = Operands::new(shape);
        let (output, _) = operands.on(gpu, false)?;
        Ok(relative_error(&output.read()?, &operands.twin()))
    })
}

/// The operands of a convolution, as the host has them.
pub struct Operands {
    pub shape: Shape,
    pub input: Vec<f32>,
    pub coefficients: Vec<f32>,
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub residual: Vec<f32>,
}

impl Operands {
    pub fn new(shape: Shape) -> Self {
        let Shape {
            images,
            inputs,
            outputs,
            taps,
            ..
        } = shape;
        let wide_in = inputs.next_multiple_of(8);
        let mut coefficients = normals(54, images * 2 * wide_in);
        // Coefficients of padding channels are 0.
        for (at, value) in coefficients.iter_mut().enumerate() {
            *value = if at % wide_in < inputs { *value } else { 0.0 };
        }
        Self {
            shape,
            input: feature_map(50, images, inputs, shape.pixels()),
            coefficients,
            weight: normals(52, outputs * inputs * taps),
            bias: normals(53, outputs),
            residual: feature_map(51, images, outputs, shape.pixels()),
        }
    }

    /// What the twin gives.
    fn twin(&self) -> Vec<f32> {
        let Shape {
            images,
            inputs,
            outputs,
            height,
            width,
            taps,
            dilation,
            ..
        } = self.shape;
        let layer = Layer {
            weight: &self.weight,
            bias: self.shape.bias.then_some(&self.bias[..]),
            outputs,
            inputs,
            taps,
            dilation,
        };
        let mut result = vec![f32::NAN; self.residual.len()];
        let map = self.residual.len() / images;
        for (image, output) in result.chunks_mut(map).enumerate() {
            let mut input = part(&self.input, images, image).to_vec();
            let coefficients =
                (self.shape.activation == Activation::NormElu).then(|| part(&self.coefficients, images, image));
            let elu = self.shape.activation != Activation::None;
            activate(&mut input, coefficients, self.shape.pixels(), elu);
            let residual = self.shape.residual.then(|| part(&self.residual, images, image));
            conv(layer, &input, height, width, residual, output);
        }
        result
    }

    /// What the device gives: the output, and its statistics if asked for.
    pub fn on<'a>(
        &self,
        gpu: &'a dyn Gpu,
        statistics: bool,
    ) -> Result<(Array<'a, f32>, Option<Array<'a, f32>>), String> {
        let Shape {
            images,
            inputs,
            outputs,
            height,
            width,
            taps,
            dilation,
            activation,
            bias,
            residual,
        } = self.shape;
        let wide = outputs.next_multiple_of(8);
        let mut packed = vec![f32::NAN; packed_len(outputs, inputs, taps)];
        pack_weights(&self.weight, outputs, inputs, taps, &mut packed);
        let mut wide_bias = vec![0.0; wide];
        wide_bias[..outputs].copy_from_slice(&self.bias);
        let given = |given: bool, array: &Array<f32>| if given { array.global() } else { Global::NONE };
        let (input, of_residual) = (Array::new(gpu, &self.input)?, Array::new(gpu, &self.residual)?);
        let (packed, wide_bias) = (Array::new(gpu, &packed)?, Array::new(gpu, &wide_bias)?);
        let coefficients = Array::new(gpu, &self.coefficients)?;
        let output = Array::unset(gpu, self.residual.len())?;
        let mut args = ConvArgs {
            input: input.global(),
            coefficients: given(activation == Activation::NormElu, &coefficients),
            weights: packed.global(),
            bias: given(bias, &wide_bias),
            residual: given(residual, &of_residual),
            output: output.global(),
            statistics: Global::NONE,
            images: images as u32,
            in_blocks: inputs.div_ceil(8) as u32,
            out_blocks: wide as u32 / 8,
            height: height as u32,
            width: width as u32,
            taps: taps as u32,
            dilation: dilation as u32,
            elu: u32::from(activation != Activation::None),
        };
        let statistics = statistics
            .then(|| Array::unset(gpu, args.statistics_len()))
            .transpose()?;
        args.statistics = statistics.as_ref().map_or(Global::NONE, Array::global);
        launch(gpu, args)?;
        Ok((output, statistics))
    }
}

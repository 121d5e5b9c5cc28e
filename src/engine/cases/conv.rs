//! Convolutions, in f32 and as the tensor cores multiply.

use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::activation::Function;
use qcs_kernels::network::conv::prepare::conv_prepare;
use qcs_kernels::network::conv::rounding::{Rounding, round};
use qcs_kernels::network::conv::{Layer, activate, conv};

use super::values::{feature_map, normals};
use super::{Builder, Case, each, part, relative_error, same_bits};
use crate::engine::Precision;
use crate::plan::{Activation, Contents, Conv, NetworkOp, TensorId};

/// What happens to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    None,
    Elu,
    NormElu,
    NormSilu,
    Norm,
    Relu,
}

impl Before {
    fn function(self) -> Function {
        match self {
            Self::None | Self::Norm => Function::Identity,
            Self::Elu | Self::NormElu => Function::Elu,
            Self::NormSilu => Function::Silu,
            Self::Relu => Function::Relu,
        }
    }

    fn is_normed(self) -> bool {
        matches!(self, Self::NormElu | Self::NormSilu | Self::Norm)
    }
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
    pub before: Before,
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
            before: Before::None,
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

    pub const fn after(self, before: Before) -> Self {
        Self { before, ..self }
    }

    pub const fn plus_residual(self) -> Self {
        Self { residual: true, ..self }
    }

    pub const fn without_bias(self) -> Self {
        Self { bias: false, ..self }
    }

    fn map(&self, channels: usize) -> Contents {
        Contents::Feature {
            channels,
            height: self.height,
            width: self.width,
        }
    }

    fn output(&self) -> Contents {
        self.map(self.outputs)
    }

    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    pub fn name(&self) -> String {
        let Self {
            images,
            inputs,
            outputs,
            height,
            width,
            taps,
            dilation,
            before,
            ..
        } = self;
        format!("{images}×{inputs}→{outputs}×{height}×{width} {taps} taps, dilation {dilation}, {before:?}")
    }
}

/// Each kind of layer of the three configurations at few channels, odd shapes, and layers large enough for each tile.
fn shapes() -> Vec<Shape> {
    use Before::{Elu, None, NormElu};
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
        // the CPU's parts: sums over many blocks, tasks by channels
        Shape::new(1, 72, 17, 7, 13).after(Elu),
        Shape::new(1, 128, 128, 5, 6).after(NormElu),
    ];
    // 160 large tiles: they are faster than small ones on 80 multiprocessors.
    for before in [None, Elu, NormElu] {
        shapes.push(Shape::new(5, 8, 120, 63, 65).after(before).plus_residual());
    }
    shapes.push(Shape::new(2, 16, 248, 71, 72).dilated(2).after(NormElu));
    // The same on 108.
    shapes.push(Shape::new(4, 8, 120, 63, 52).after(NormElu));
    shapes.extend(winograd_shapes());
    shapes.extend(unit_shapes());
    shapes
}

/// Layers of published networks: what stands before them, computed directly and by Winograd's algorithm, and more channels than the
/// direct kernels' table holds.
fn unit_shapes() -> Vec<Shape> {
    use Before::{None, Norm, NormSilu, Relu};
    vec![
        Shape::new(2, 32, 24, 7, 9).after(NormSilu).plus_residual(),
        Shape::new(1, 72, 80, 16, 16).after(NormSilu),
        Shape::new(3, 20, 12, 5, 5).after(Relu).without_bias().plus_residual(),
        Shape::new(1, 80, 72, 12, 16).after(Relu).without_bias(),
        Shape::new(2, 40, 120, 6, 5).pointwise().after(Norm),
        Shape::new(1, 520, 16, 4, 5).after(NormSilu),
        Shape::new(2, 640, 8, 3, 3).after(None).plus_residual(),
        Shape::new(1, 1040, 24, 4, 4).pointwise().after(Norm),
    ]
}

/// Layers with channels enough for the GPU to compute them by Winograd's algorithm: the maps of all configurations, whole tiles
/// and such as stand out, lattices of which the last are shorter; and one with large tiles of the products.
fn winograd_shapes() -> Vec<Shape> {
    use Before::{Elu, None, NormElu};
    vec![
        Shape::new(1, 72, 72, 28, 28).after(NormElu).plus_residual(),
        Shape::new(2, 72, 80, 16, 16).after(NormElu),
        Shape::new(3, 104, 100, 14, 14).after(Elu).plus_residual(),
        Shape::new(5, 100, 96, 7, 7).after(NormElu),
        Shape::new(1, 104, 96, 14, 14).dilated(2).after(NormElu).plus_residual(),
        Shape::new(2, 96, 96, 14, 14).dilated(4).after(Elu).without_bias(),
        Shape::new(1, 72, 72, 16, 16).dilated(2).after(None),
        Shape::new(1, 72, 72, 16, 16).dilated(4).after(NormElu).plus_residual(),
        Shape::new(1, 96, 80, 11, 64).after(NormElu).without_bias(),
        Shape::new(4, 40, 248, 32, 32).after(Elu),
    ]
}

/// Layers for the tensor cores.
fn tensor_shapes() -> Vec<Shape> {
    use Before::{Elu, Norm, NormElu, NormSilu, Relu};
    let plus = Shape::plus_residual;
    vec![
        plus(Shape::new(1, 8, 16, 28, 28)),
        plus(Shape::new(2, 24, 40, 7, 9).dilated(4)),
        plus(Shape::new(5, 16, 32, 14, 14).dilated(2)),
        plus(Shape::new(1, 16, 136, 5, 33)),
        plus(Shape::new(2, 40, 72, 5, 7).pointwise()),
        plus(Shape::new(3, 8, 8, 1, 1)),
        plus(Shape::new(1, 128, 128, 16, 16)),
        // Enough pixels for the widest tile, and for the one between.
        plus(Shape::new(5, 16, 120, 64, 65)),
        plus(Shape::new(6, 8, 136, 45, 44).pointwise()),
        // What prepares the input
        Shape::new(1, 8, 16, 7, 7).after(Elu),
        Shape::new(2, 16, 16, 14, 14).after(NormElu),
        Shape::new(3, 40, 16, 1, 5).after(NormElu).without_bias(),
        Shape::new(1, 24, 8, 1, 1).after(Elu).without_bias(),
        Shape::new(2, 32, 24, 7, 9).after(NormSilu),
        Shape::new(1, 16, 48, 5, 5).pointwise().after(Norm),
        Shape::new(1, 16, 16, 6, 6).after(Relu).without_bias(),
        Shape::new(1, 1040, 16, 4, 4),
        // Inputs or outputs so few that the layer stays in f32
        plus(Shape::new(1, 3, 16, 28, 28)),
        plus(Shape::new(3, 8, 5, 1, 1)),
    ]
}

/// The rounding precisions.
pub const ROUNDED: [Precision; 2] = [Precision::Fp16, Precision::Tf32];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = shapes().into_iter().map(|s| case(s, Precision::Fp32)).collect();
    for precision in ROUNDED {
        cases.extend(tensor_shapes().into_iter().map(|s| case(s, precision)));
        cases.push(rounding_case(Shape::new(1, 64, 16, 9, 9).plus_residual(), precision));
        cases.extend(chained_shapes().map(|(first, second)| chained_case(first, second, precision)));
    }
    for shape in bf16_shapes() {
        cases.extend([whole_numbers_case(shape), bf16_case(shape)]);
    }
    cases
}

/// Layers for Winograd's algorithm: odd blocks on either side, one to four vectors of outputs, one tile and many, dilated.
fn bf16_shapes() -> [Shape; 6] {
    [
        Shape::new(1, 16, 24, 4, 4),
        Shape::new(3, 24, 32, 7, 9).plus_residual(),
        Shape::new(2, 72, 48, 14, 13).without_bias(),
        Shape::new(1, 48, 112, 5, 28),
        Shape::new(2, 136, 64, 6, 6).dilated(2),
        Shape::new(1, 96, 24, 33, 31),
    ]
}

/// Layers of NCSNv2 with 128 feature maps for CIFAR-10: begin_conv, res1.0.conv1, res2.0.shortcut.conv,
/// refine1.crp.convs.0, res3.0.conv1, res4.0.conv1, end_conv.
pub fn paper_size() -> Vec<Case> {
    let shapes = [
        Shape::new(8, 3, 128, 32, 32),
        Shape::new(8, 128, 128, 32, 32),
        Shape::new(8, 128, 256, 16, 16).pointwise(),
        Shape::new(8, 256, 256, 16, 16),
        Shape::new(8, 256, 256, 16, 16).dilated(2),
        Shape::new(8, 256, 256, 16, 16).dilated(4),
        Shape::new(8, 128, 3, 32, 32),
    ];
    let of = |shape: Shape| case(shape.after(Before::Elu).without_bias(), Precision::Fp32);
    shapes.map(of).into()
}

/// The rounding of the additions in f32, rounded or truncated once for every unit; of Winograd's transforms.
const ADDITIONS: f64 = 2e-5;

fn case(shape: Shape, precision: Precision) -> Case {
    // Where an ELU is off by its own error, the nearest number of 11 bits may be the next one.
    let flips = precision != Precision::Fp32 && shape.before != Before::None;
    let bound = if flips { 1e-3 } else { ADDITIONS };
    Case::new(format!("conv {precision} {}", shape.name()), bound, move |target| {
        let mut case = Builder::new(shape.images, target);
        let values = Values::new(shape);
        let output = values.push(&mut case, "layer", None);
        case.finish(move |results| {
            let rounding = precision.of_conv(shape.inputs, shape.outputs);
            Ok(relative_error(&results.of(output), &values.twin(rounding)))
        })
    })
    .in_precision(precision)
}

/// A layer and one that takes its output: of whole units, which the first one prepares for the second, in the widest tile and in
/// the narrowest; of others; and behind a norm.
fn chained_shapes() -> [(Shape, Shape); 6] {
    use Before::{Elu, None, NormElu};
    let first = |images, channels, side| Shape::new(images, 24, channels, side, side + 1).plus_residual();
    let second = |images, channels, side| Shape::new(images, channels, 16, side, side + 1);
    [
        (first(3, 32, 7), second(3, 32, 7).after(Elu).plus_residual()),
        (first(2, 48, 14).after(Elu), second(2, 48, 14).dilated(2).after(None)),
        (first(1, 20, 9), second(1, 20, 9).after(Elu)),
        (first(2, 40, 9), second(2, 40, 9).after(Elu)),
        (first(2, 32, 7), second(2, 32, 7).after(NormElu)),
        (first(1, 64, 64).pointwise(), second(1, 64, 64).after(Elu).pointwise()),
    ]
}

/// The second layer against the twin on what the first one gave, and against itself on a copy of that: where the first layer leaves
/// its output prepared, no bit may change.
fn chained_case(first: Shape, second: Shape, precision: Precision) -> Case {
    let name = format!("conv {precision} {}, then {}", first.name(), second.name());
    let bound = if second.before == Before::None { ADDITIONS } else { 1e-3 };
    Case::new(name, bound, move |target| {
        let mut case = Builder::new(first.images, target);
        let between = Values::new(first).push(&mut case, "first", None);
        let values = Values::new(second);
        let output = values.push_on(between, &mut case, "second", None);
        let copy = case.unset(first.output());
        case.push(NetworkOp::ResizeAdd {
            input: between,
            addend: None,
            output: copy,
        });
        let plain = values.push_on(copy, &mut case, "again", None);
        case.finish(move |results| {
            let (output, plain): (Vec<f32>, Vec<f32>) = (results.of(output), results.of(plain));
            if !same_bits(&output, &plain) {
                return Err("what the first layer leaves is not what the second one would prepare".into());
            }
            let values = Values {
                input: results.of(between),
                ..values.clone()
            };
            let rounding = precision.of_conv(second.inputs, second.outputs);
            Ok(relative_error(&output, &values.twin(rounding)))
        })
    })
    .in_precision(precision)
}

/// Against the exact operands, in units of what their rounding allows: a product of two numbers of 11 bits is off by
/// 2⁻¹⁰ of itself at most, so a sum by 2⁻¹⁰ of the sum of magnitudes.
fn rounding_case(shape: Shape, precision: Precision) -> Case {
    let name = format!("conv {precision} {}, against exact operands", shape.name());
    Case::new(name, 1.0, move |target| {
        let mut case = Builder::new(shape.images, target);
        let values = Values::new(shape);
        let output = values.push(&mut case, "layer", None);
        case.finish(move |results| {
            let (expected, magnitudes) = (values.twin(None), values.map(f32::abs).twin(None));
            let actual: Vec<f32> = results.of(output);
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
    })
    .in_precision(precision)
}

/// Of whole numbers so small that a bf16 holds each transformed input (at most 200) and filter (of multiples of 576, which the factors of
/// Winograd's matrices divide): all sums are exact.
fn whole_numbers_case(shape: Shape) -> Case {
    let name = format!("conv bf16 {}, whole numbers", shape.name());
    Case::new(name, 1e-6, move |target| {
        let mut case = Builder::new(shape.images, target);
        let mut values = Values::new(shape).map(|v| v.round().clamp(-2.0, 2.0));
        values.weight.iter_mut().for_each(|w| *w = 576.0 * w.clamp(-1.0, 1.0));
        let output = values.push(&mut case, "layer", None);
        case.finish(move |results| Ok(relative_error(&results.of(output), &values.twin(None))))
    })
    .in_precision(Precision::Bf16)
}

/// Against the exact operands: what eight bits of transformed inputs and filters cost, of the largest output; of maps of white noise, as
/// here, 0.055 to 0.082.
fn bf16_case(shape: Shape) -> Case {
    let name = format!("conv bf16 {}, against exact operands", shape.name());
    Case::new(name, 0.15, move |target| {
        let mut case = Builder::new(shape.images, target);
        let values = Values::new(shape);
        let output = values.push(&mut case, "layer", None);
        case.finish(move |results| {
            let error = relative_error(&results.of(output), &values.twin(None));
            // f32 would be off by 1e-5.
            if error < 1e-3 {
                return Err(format!("an error of {error:.1e}: nothing was rounded to bf16"));
            }
            Ok(error)
        })
    })
    .in_precision(Precision::Bf16)
}

/// The operands of a convolution.
#[derive(Clone)]
pub struct Values {
    shape: Shape,
    input: Vec<f32>,
    coefficients: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

impl Values {
    pub fn new(shape: Shape) -> Self {
        let Shape {
            images,
            inputs,
            outputs,
            taps,
            ..
        } = shape;
        let wide_in = inputs.next_multiple_of(BLOCK);
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

    /// The same with output channels that have deviations near 1 and means near `offset`.
    pub fn around(mut self, offset: f32) -> Self {
        let unit = 1.0 / ((self.shape.inputs * self.shape.taps) as f32).sqrt();
        self.weight.iter_mut().for_each(|w| *w *= unit);
        self.bias.iter_mut().for_each(|b| *b += offset);
        if !self.shape.bias {
            self.residual.iter_mut().for_each(|r| *r += offset);
        }
        self
    }

    /// The same with every number changed.
    fn map(&self, change: impl Fn(f32) -> f32) -> Self {
        let of = |values: &[f32]| values.iter().map(|&v| change(v)).collect();
        Self {
            shape: self.shape,
            input: of(&self.input),
            coefficients: of(&self.coefficients),
            weight: of(&self.weight),
            bias: of(&self.bias),
            residual: of(&self.residual),
        }
    }

    /// Pushes the layer and gives its output.
    pub fn push(&self, case: &mut Builder<'_>, name: &str, statistics: Option<TensorId>) -> TensorId {
        let input = case.tensor(self.shape.map(self.shape.inputs), &self.input);
        self.push_on(input, case, name, statistics)
    }

    /// The same on another input.
    fn push_on(&self, input: TensorId, case: &mut Builder<'_>, name: &str, statistics: Option<TensorId>) -> TensorId {
        let Shape { inputs, outputs, .. } = self.shape;
        let kernel = if self.shape.taps == 9 { 3 } else { 1 };
        let mut norm = || {
            let contents = Contents::F32(2 * inputs.next_multiple_of(BLOCK));
            case.tensor(contents, &self.coefficients)
        };
        let activation = match self.shape.before {
            Before::None => Activation::None,
            Before::Elu => Activation::Elu,
            Before::NormElu => Activation::NormElu(norm()),
            Before::NormSilu => Activation::NormSilu(norm()),
            Before::Norm => Activation::Norm(norm()),
            Before::Relu => Activation::Relu,
        };
        let shape = [outputs, inputs, kernel, kernel];
        let weight = case.weight(&format!("{name}.weight"), &shape, self.weight.clone());
        let bias = self
            .shape
            .bias
            .then(|| case.weight(&format!("{name}.bias"), &[outputs], self.bias.clone()));
        let residual = self
            .shape
            .residual
            .then(|| case.tensor(self.shape.output(), &self.residual));
        let output = case.unset(self.shape.output());
        case.push(NetworkOp::Conv(Conv {
            input,
            activation,
            weight,
            bias,
            residual,
            output,
            kernel,
            dilation: self.shape.dilation,
            statistics,
            activated: None,
            leaves: None,
        }));
        output
    }

    /// What the twin gives, with the activated input and the weights rounded where they are to be.
    fn twin(&self, rounding: Option<Rounding>) -> Vec<f32> {
        let Shape {
            images,
            inputs,
            outputs,
            height,
            width,
            taps,
            dilation,
            before,
            bias,
            residual,
        } = self.shape;
        let rounded = |&w: &f32| rounding.map_or(w, |rounding| round(rounding, w));
        let weight: Vec<f32> = self.weight.iter().map(rounded).collect();
        let layer = Layer {
            weight: &weight,
            bias: bias.then_some(&self.bias[..]),
            outputs,
            inputs,
            taps,
            dilation,
        };
        each(f32::NAN, images, self.residual.len() / images, |image, output| {
            let mut input = part(&self.input, images, image).to_vec();
            let coefficients = before.is_normed().then(|| part(&self.coefficients, images, image));
            let (function, pixels) = (before.function(), self.shape.pixels());
            match rounding {
                Some(rounding) => {
                    let exact = input.clone();
                    conv_prepare(rounding, &exact, coefficients, pixels, function, &mut input);
                }
                None => activate(&mut input, coefficients, pixels, function),
            }
            let residual = residual.then(|| part(&self.residual, images, image));
            conv(layer, &input, height, width, residual, output);
        })
    }
}

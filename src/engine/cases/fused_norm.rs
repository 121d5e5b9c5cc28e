//! A convolution that leaves the statistics of its output, and the norm coefficients made of them.

use qcs_kernels::launch::BLOCK;
use qcs_kernels::network::conv::statistics::statistics_len;

use super::conv::{Before, ROUNDED, Shape, Values};
use super::network::{norm_bound, norm_error, push_norm};
use super::{Builder, Case, same_bits};
use crate::engine::Precision;
use crate::plan::Contents;

/// Sizes of the three configurations, of which 14×14 leaves the last strip short; sizes below a strip; every tile with
/// every activation.
fn shapes() -> Vec<Shape> {
    use Before::{Elu, NormElu};
    vec![
        Shape::new(5, 16, 16, 28, 28).pointwise(),
        Shape::new(5, 16, 32, 14, 14).after(NormElu).plus_residual(),
        Shape::new(2, 8, 40, 32, 32).after(Elu).pointwise(),
        Shape::new(1, 8, 16, 16, 16).dilated(4).without_bias().plus_residual(),
        Shape::new(1, 8, 16, 64, 64).pointwise(),
        Shape::new(2, 24, 40, 7, 9).dilated(2).plus_residual(),
        Shape::new(3, 8, 24, 3, 3),
        Shape::new(5, 20, 12, 1, 1).after(NormElu),
        Shape::new(5, 16, 8, 9, 9).after(Elu),
        Shape::new(1, 24, 3, 33, 31).after(NormElu).plus_residual(),
        Shape::new(2, 8, 5, 28, 28),
        Shape::new(8, 8, 128, 32, 32).pointwise(),
        Shape::new(5, 8, 72, 65, 63).pointwise().plus_residual(),
        Shape::new(5, 8, 72, 65, 63).after(Elu).pointwise(),
        Shape::new(5, 8, 72, 65, 63).after(NormElu).pointwise(),
        // By Winograd's algorithm
        Shape::new(2, 72, 72, 16, 16).after(NormElu).plus_residual(),
        Shape::new(1, 72, 80, 16, 16).dilated(2),
        Shape::new(1, 80, 72, 16, 16).dilated(4).without_bias().plus_residual(),
        Shape::new(2, 88, 88, 20, 32).dilated(2).after(Elu),
    ]
}

fn tensor_shapes() -> Vec<Shape> {
    let shapes = [
        Shape::new(1, 8, 16, 28, 28),
        Shape::new(5, 16, 32, 14, 14).dilated(2),
        Shape::new(1, 16, 136, 16, 16).pointwise(),
        Shape::new(2, 24, 40, 7, 9),
        Shape::new(3, 8, 24, 3, 3),
        Shape::new(5, 16, 72, 65, 63).pointwise(),
        Shape::new(1, 16, 64, 65, 63).pointwise(),
    ];
    shapes.map(Shape::plus_residual).into()
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |shape, precision| cases.extend([0.0, 1000.0].map(|offset| case(shape, precision, offset)));
    shapes().into_iter().for_each(|shape| add(shape, Precision::Fp32));
    for precision in ROUNDED {
        tensor_shapes().into_iter().for_each(|shape| add(shape, precision));
    }
    cases
}

/// Against the twin of the norm on the convolution's own output, which must not change by leaving statistics. An engine
/// that has no use for statistics leaves none.
fn case(shape: Shape, precision: Precision, offset: f32) -> Case {
    let name = format!("conv+norm {precision} {} + {offset}", shape.name());
    Case::new(name, norm_bound(offset), move |target| {
        let mut case = Builder::new(shape.images, target);
        let values = Values::new(shape).around(offset);
        let blocks = shape.outputs.div_ceil(BLOCK) as u32;
        let statistics = case.unset(Contents::F32(statistics_len(1, blocks, shape.pixels() as u32)));
        let output = values.push(&mut case, "layer", Some(statistics));
        let coefficients = push_norm(&mut case, output, Some(statistics), shape.outputs);
        let plain = values.push(&mut case, "again", None);
        case.finish(move |results| {
            let (maps, plain): (Vec<f32>, Vec<f32>) = (results.of(output), results.of(plain));
            if !same_bits(&maps, &plain) {
                return Err("leaving statistics changes the output".into());
            }
            let coefficients: Vec<f32> = results.of(coefficients);
            Ok(norm_error(&coefficients, &maps, shape.images, shape.outputs))
        })
    })
    .in_precision(precision)
}

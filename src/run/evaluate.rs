//! The metrics of samples: against the truth where it is known, against the measurements where there are any.

use rayon::prelude::*;

use crate::metrics::{Digits, consistency, psnr, ssim};
use crate::output::ImageMetrics;
use crate::problem::Problem;
use crate::{Error, ImageShape, Images, Result};

/// Notes whether each image shows the digit that its truth shows; nothing where the images are not of MNIST's shape.
pub fn compare_digits(rows: &mut [ImageMetrics], estimates: &Images, truth: &Images) {
    if estimates.shape != ImageShape::new(1, 28, 28) {
        return;
    }
    let digits = Digits::shipped();
    for row in rows {
        let same = digits.of(estimates.image(row.index)) == digits.of(truth.image(row.index));
        row.same_digit = Some(same);
    }
}

/// One row of metrics for each of the images, under the name `method`.
///
/// # Errors
/// [`Error::Usage`] if the truth or the problem holds fewer images or images of another shape.
pub fn evaluate(
    method: &str,
    estimates: &Images,
    truth: Option<&Images>,
    problem: Option<&Problem>,
) -> Result<Vec<ImageMetrics>> {
    let (count, shape) = (estimates.count(), estimates.shape);
    if let Some(truth) = truth
        && (truth.shape != shape || truth.count() < count)
    {
        return Err(Error::usage(format!(
            "{count} images of shape {shape} cannot be compared with a truth of {} images of shape {}",
            truth.count(),
            truth.shape
        )));
    }
    if let Some(problem) = problem
        && (problem.a().cols() != shape.len() || problem.cells().count() < count)
    {
        return Err(Error::usage(format!(
            "{count} images of shape {shape} do not fit a problem of {} images with {} pixels",
            problem.cells().count(),
            problem.a().cols()
        )));
    }
    let metrics = |index: usize| {
        let x = estimates.image(index);
        ImageMetrics {
            index,
            method: method.to_owned(),
            psnr: truth.map(|truth| psnr(x, truth.image(index))),
            ssim: truth.and_then(|truth| ssim(x, truth.image(index), shape)),
            consistency: problem.map(|problem| {
                let x: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
                let (lower, upper) = problem.cells().image(index);
                consistency(&problem.a().times(&x), lower, upper)
            }),
            predicted_error: None,
            evaluations: None,
            ep_iterations: None,
            same_digit: None,
        }
    };
    Ok((0..count).into_par_iter().map(metrics).collect())
}

//! The metrics of samples: against the truth where it is known, against the measurements where there are any.

use rayon::prelude::*;

use crate::methods::{FARTHEST, reach};
use crate::metrics::{Believed, Digits, clamped, consistency, contradicted, psnr, psnr_scaled, ssim};
use crate::output::ImageMetrics;
use crate::problem::Problem;
use crate::{Error, ImageShape, Images, Result};

/// Notes whether each image shows the digit that its truth shows; nothing where the images are not of MNIST's shape.
pub fn compare_digits(rows: &mut [ImageMetrics], estimates: &Images, truth: &Images) {
    if estimates.shape != ImageShape::new(1, 28, 28) {
        return;
    }
    let Some(digits) = Digits::shipped() else {
        return;
    };
    for (index, row) in rows.iter_mut().enumerate() {
        let same = digits.of(estimates.image(index)) == digits.of(truth.image(index));
        row.same_digit = Some(same);
    }
}

/// The error of an estimate that nobody has predicted: that of a poor one.
const UNKNOWN_ERROR: f64 = 0.2;

/// Notes which images their measurements contradict, the first of them image `first` of the problem.
pub fn compare_measurements(rows: &mut [ImageMetrics], estimates: &Images, first: usize, problem: &Problem) {
    let compare = |(index, row): (usize, &mut ImageMetrics)| {
        let x: Vec<f64> = estimates.image(index).iter().map(|&v| clamped(v)).collect();
        let (lower, upper) = problem.cells().image(first + index);
        let believed = Believed {
            lower,
            upper,
            diag: problem.diag(),
            sigma: problem.sigma(),
            error: row.predicted_error.unwrap_or(UNKNOWN_ERROR),
        };
        row.contradicted = contradicted(&problem.a().times(&x), &believed);
    };
    crate::pool::install(|| rows.par_iter_mut().enumerate().for_each(compare));
}

/// One row of metrics for each of the images, under the name `method`. The first of them is image `first` of the problem; the
/// truth is theirs, image by image. Every metric is of the image clipped to [0, 1], as pictures show it.
///
/// # Errors
/// [`Error::Usage`] if the truth holds another number of images, the problem too few, or one of them images of another shape.
pub fn evaluate(
    method: &str,
    estimates: &Images,
    first: usize,
    truth: Option<&Images>,
    problem: Option<&Problem>,
) -> Result<Vec<ImageMetrics>> {
    let (count, shape) = (estimates.count(), estimates.shape);
    if let Some(truth) = truth
        && (truth.shape != shape || truth.count() != count)
    {
        return Err(Error::usage(format!(
            "{count} images of shape {shape} cannot be compared with a truth of {} images of shape {}",
            truth.count(),
            truth.shape
        )));
    }
    if let Some(problem) = problem
        && (problem.a().cols() != shape.len() || problem.cells().count().saturating_sub(first) < count)
    {
        return Err(Error::usage(format!(
            "{count} images of shape {shape} do not fit a problem of {} images with {} pixels",
            problem.cells().count(),
            problem.a().cols()
        )));
    }
    let metrics = |index: usize| {
        let x = estimates.image(index);
        let psnr = truth.map(|truth| psnr(x, truth.image(index)));
        ImageMetrics {
            index: first + index,
            name: problem
                .and_then(Problem::names)
                .map(|names| names[first + index].clone()),
            method: method.to_owned(),
            psnr_scaled: truth.map(|truth| psnr_scaled(x, truth.image(index))),
            psnr,
            exact: psnr == Some(f64::INFINITY),
            ssim: truth.and_then(|truth| ssim(x, truth.image(index), shape)),
            consistency: problem.map(|problem| {
                let x: Vec<f64> = x.iter().map(|&v| clamped(v)).collect();
                let (lower, upper) = problem.cells().image(first + index);
                consistency(&problem.a().times(&x), lower, upper)
            }),
            predicted_error: None,
            evaluations: None,
            ep_iterations: None,
            same_digit: None,
            contradicted: false,
            diverged: reach(x) > FARTHEST,
        }
    };
    Ok(crate::pool::install(|| {
        (0..count).into_par_iter().map(metrics).collect()
    }))
}

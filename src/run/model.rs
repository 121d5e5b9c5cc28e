//! The model that a configuration names, for images of the problem's size.

use std::path::Path;
use std::sync::Arc;

use super::{Reuse, RunConfig};
use crate::prior::{Denoiser, Prior};
use crate::problem::Problem;
use crate::{ImageShape, Result, bundled};

/// Loads a model by the name a configuration gives it.
///
/// # Errors
/// As [`Prior::open`].
pub fn load_prior(model: &str, shape: Option<ImageShape>) -> Result<Prior> {
    match bundled::is_name(model) {
        true => Prior::bundled(model, shape),
        false => Prior::open(Path::new(model), shape),
    }
}

/// A word on a model that was asked to work on images of another `shape` than its file says.
pub fn told_of_shape(model: &str, shape: Option<ImageShape>, prior: &Prior) -> Option<String> {
    shape?;
    let own = load_prior(model, None).ok()?.image();
    (own != prior.image()).then(|| at_other_shape(own, prior))
}

/// The prior for images of the problem's size, and what to tell of it: a convolutional network serves any size that it can
/// halve, but what turbo knows of it was measured at one.
pub(super) fn at_size_of(
    problem: &Problem,
    prior: Arc<Prior>,
    config: &RunConfig,
    shared: &mut Reuse,
) -> Result<(Arc<Prior>, Option<String>)> {
    let trained = prior.image();
    let Some(shape) = problem.shape().filter(|&shape| {
        shape != trained
            && shape.channels == trained.channels
            && config.model != Prior::SHIPPED
            && config.shape.is_none()
    }) else {
        return Ok((prior, None));
    };
    let sized = shared.prior(&config.model, Some(shape))?;
    let words = at_other_shape(trained, &sized);
    Ok((sized, Some(words)))
}

/// What there is to tell of a prior that works on images of another shape than those it was trained at.
fn at_other_shape(trained: ImageShape, sized: &Prior) -> String {
    let shape = sized.image();
    let measured = sized
        .metadata
        .get(Denoiser::SHAPE)
        .map_or_else(|| trained.to_string(), String::clone);
    let table = match sized.denoiser() {
        Some(_) if measured != shape.to_string() => {
            format!("; turbo's table of its errors was measured at {measured}: calibrate it for {shape}")
        }
        _ => String::new(),
    };
    format!("the prior was trained at {trained} and runs at {shape}{table}")
}

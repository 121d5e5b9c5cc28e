//! From a problem and a prior to images.

use numpy::{PyReadonlyArray2, PyReadonlyArray4};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qcs::likelihood::{Diag, Ep, Likelihood};
use qcs::methods::{self as known, Kind, METHODS};
use qcs::output::{Grid, Series, Style};
use qcs::{Device, Error, Images, Job, Reconstruction};

use crate::arrays;
use crate::errors::raised;
use crate::options::Options;
use crate::prior::Prior;
use crate::problem::Problem;
use crate::watch::watched;

/// Reconstructs images of the problem. What comes of it is a dictionary of arrays, and of JSON where it is a table.
#[pyfunction]
pub fn reconstruct<'py>(
    py: Python<'py>,
    problem: &Problem,
    prior: &Prior,
    options: Options,
) -> PyResult<Bound<'py, PyDict>> {
    let (problem, prior) = (&problem.inner, &prior.inner);
    let found = watched(py, options.watch.as_ref(), |watch| {
        let mut job = Job::new(problem, prior, options.method()?)
            .chains(options.chains)
            .seed(options.seed)
            .batch(options.batch)
            .device(options.device()?)
            .threads(options.threads)
            .observer(watch);
        if let Some((first, end)) = options.images {
            job = job.images(first..end);
        }
        if let Some(precision) = options.precision()? {
            job = job.precision(precision);
        }
        job.run()
    });
    dictionary(py, found?)
}

fn dictionary(py: Python<'_>, found: Reconstruction) -> PyResult<Bound<'_, PyDict>> {
    let json = |value: serde_json::Result<String>| value.map_err(|e| raised(Error::Failed(e.to_string())));
    let (images, shape) = (found.mean.count(), found.mean.shape);
    let told = PyDict::new(py);
    told.set_item("method", found.method.kind().key())?;
    told.set_item("settings", json(serde_json::to_string(&found.method))?)?;
    told.set_item("metrics", json(serde_json::to_string(&found.metrics))?)?;
    told.set_item("calibration", json(serde_json::to_string(&found.calibration))?)?;
    told.set_item("diverged", json(serde_json::to_string(&found.diverged))?)?;
    told.set_item("predicted_error", found.predicted_error)?;
    told.set_item("evaluations", found.evaluations)?;
    told.set_item("notes", found.notes)?;
    told.set_item("seconds", found.seconds)?;
    told.set_item("mean", arrays::of_images(py, found.mean)?)?;
    let std = found.std.map(|std| arrays::of_images(py, std)).transpose()?;
    told.set_item("std", std)?;
    let sides = [images, found.chains, shape.channels, shape.height, shape.width];
    told.set_item("samples", arrays::shaped(py, found.samples.data, &sides)?)?;
    Ok(told)
}

/// The methods: key, name in the literature, what it is, and each setting with what it does.
#[pyfunction]
#[allow(clippy::type_complexity)] // a table
pub fn methods() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str)>,
)> {
    let settings = |kind: &Kind| {
        let all = kind.settings().iter();
        all.map(|setting| (setting.name, setting.help.trim())).collect()
    };
    let told = |kind: &'static Kind| (kind.key(), kind.title(), kind.about(), settings(kind));
    METHODS.into_iter().map(told).collect()
}

/// Threads that work outside of engines; 0 is one to each core.
#[pyfunction]
pub fn use_threads(threads: usize) -> PyResult<()> {
    qcs::use_threads(threads).map_err(raised)
}

/// The likelihood score of states `x`, `[B, N]`: of image b of the problem at noise level `beta`.
#[pyfunction]
pub fn likelihood_score<'py>(
    py: Python<'py>,
    problem: &Problem,
    x: PyReadonlyArray2<'_, f32>,
    beta: f64,
    likelihood: &str,
    device: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let likelihood = match likelihood {
        "ep" => Likelihood::Ep(Ep::default()),
        "diag" => Likelihood::Diag(Diag),
        other => {
            return Err(raised(Error::usage(format!(
                "there is no likelihood {other:?}: there are ep and diag"
            ))));
        }
    };
    let device: Device = device.parse().map_err(raised)?;
    let (x, problem) = (x.as_slice()?.to_vec(), &problem.inner);
    let (count, n) = (problem.cells().count(), problem.a().cols());
    if x.len() != count * n {
        let reason = format!("x holds {} pixels, but {count} images of {n} were measured", x.len());
        return Err(raised(Error::usage(reason)));
    }
    let score = py.detach(|| {
        let mut engine = qcs::engine::open(&device, None, threads)?.engine;
        known::likelihood_score(engine.as_mut(), &likelihood, problem, &x, 1, beta, &mut |_| {})
    });
    arrays::shaped(py, score.map_err(raised)?, &[count, n])
}

/// The picture of a result, `[H, W, 3]` of bytes: each series a title, images, a line below each of them, and whether they are
/// deviations.
#[pyfunction]
#[allow(clippy::type_complexity)] // a list of named things, in Python
pub fn picture<'py>(
    py: Python<'py>,
    series: Vec<(String, PyReadonlyArray4<'_, f32>, Option<Vec<String>>, bool)>,
) -> PyResult<Bound<'py, PyAny>> {
    let all = series.iter().map(|(_, images, ..)| arrays::images(images));
    let all = all.collect::<PyResult<Vec<Images>>>()?;
    let shown = series
        .iter()
        .zip(&all)
        .map(|((title, _, captions, heat), images)| Series {
            title: title.clone(),
            note: None,
            images,
            captions: captions.clone(),
            style: if *heat { Style::Heat } else { Style::Intensity },
        });
    let picture = Grid::new(shown.collect()).render();
    let sides = [picture.height() as usize, picture.width() as usize, 3];
    arrays::shaped(py, picture.pixels().as_flattened().to_vec(), &sides)
}

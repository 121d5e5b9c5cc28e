//! Priors: score networks and their weights.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray4;
use pyo3::prelude::*;
use qcs::engine::cpu::CpuEngine;
use qcs::methods::prior_score;
use qcs::methods::turbo::{Levels, calibrate_at};
use qcs::prior::Denoiser;
use qcs::{Device, ImageShape};

use crate::arrays;
use crate::callable;
use crate::errors::raised;

/// A prior. Engines keep what they make of its weights in it, so it is worth keeping.
#[pyclass(frozen, module = "qcs._qcs")]
pub struct Prior {
    pub inner: Arc<qcs::Prior>,
}

fn wrapped(prior: qcs::Result<qcs::Prior>) -> PyResult<Prior> {
    let inner = Arc::new(prior.map_err(raised)?);
    Ok(Prior { inner })
}

#[pymethods]
impl Prior {
    #[staticmethod]
    fn shipped(py: Python<'_>) -> PyResult<Self> {
        wrapped(py.detach(qcs::Prior::shipped))
    }

    #[staticmethod]
    #[pyo3(signature = (path, shape=None))]
    fn load(py: Python<'_>, path: PathBuf, shape: Option<[usize; 3]>) -> PyResult<Self> {
        let shape = shape.map(|[channels, height, width]| ImageShape::new(channels, height, width));
        wrapped(py.detach(|| qcs::Prior::open(&path, shape)))
    }

    /// A callable as denoiser, see `callable.rs`, with its table of errors where that is known.
    #[staticmethod]
    #[pyo3(signature = (function, shape, name, table=None))]
    fn from_callable(
        function: Py<PyAny>,
        shape: [usize; 3],
        name: String,
        table: Option<(Vec<f32>, f64, Vec<f32>, Vec<f32>)>,
    ) -> PyResult<Self> {
        let [channels, height, width] = shape;
        let shape = ImageShape::new(channels, height, width);
        let mut prior = qcs::Prior::from_fn(shape, callable::denoiser(function));
        prior.source = name.into();
        let Some((mean, variance, levels, errors)) = table else {
            return wrapped(Ok(prior));
        };
        wrapped(prior.with_denoiser(Denoiser {
            mean,
            variance,
            levels,
            errors,
        }))
    }

    /// Mean, variance, levels and errors of the prior as a denoiser, measured on images.
    fn measure_errors(
        &self,
        py: Python<'_>,
        images: PyReadonlyArray4<'_, f32>,
        count: usize,
        levels: (usize, f64, f64),
        threads: usize,
    ) -> PyResult<(Vec<f32>, f64, Vec<f32>, Vec<f32>)> {
        let images = arrays::images(&images)?;
        let (levels, least, largest) = levels;
        let table = Levels {
            count: levels,
            least,
            largest,
        };
        let measured = py.detach(|| {
            let mut engine = CpuEngine::new(threads);
            calibrate_at(&mut engine, &self.inner, &images, count, table, &mut |_, _| {})
        });
        let Denoiser {
            mean,
            variance,
            levels,
            errors,
        } = measured.map_err(raised)?;
        Ok((mean, variance, levels, errors))
    }

    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let shape = self.inner.image();
        (shape.channels, shape.height, shape.width)
    }

    /// The file, or what names the shipped one.
    #[getter]
    fn source(&self) -> String {
        self.inner.source.display().to_string()
    }

    fn describe(&self) -> String {
        self.inner.network().describe()
    }

    #[getter]
    fn parameters(&self) -> usize {
        self.inner.parameter_count()
    }

    /// Whether it knows its error as a denoiser, which turbo needs.
    #[getter]
    fn is_calibrated(&self) -> bool {
        self.inner.denoiser().is_some()
    }

    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.inner.metadata.clone()
    }

    /// The score of each image at a noise level.
    fn score<'py>(
        &self,
        py: Python<'py>,
        images: PyReadonlyArray4<'_, f32>,
        sigma: f64,
        device: &str,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let images = arrays::images(&images)?;
        let device: Device = device.parse().map_err(raised)?;
        let scores = py.detach(|| {
            let mut engine = qcs::engine::open(&device, None, threads)?.engine;
            prior_score(engine.as_mut(), &self.inner, &images, sigma)
        });
        arrays::of_images(py, scores.map_err(raised)?)
    }
}

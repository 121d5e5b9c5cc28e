//! Priors: score networks and their weights.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray4;
use pyo3::prelude::*;
use qcs::bundled;
use qcs::files::safetensors::{Slice, Tensor, amended};
use qcs::files::{map, write_atomically};
use qcs::methods::prior_score;
use qcs::methods::turbo::{Levels, calibrate_at};
use qcs::prior::Denoiser;
use qcs::{Device, Error};

use crate::arrays::{self, of_sides};
use crate::callable;
use crate::errors::{self, raised};

/// Mean, variance, levels and errors.
type Table = (Vec<f32>, f64, Vec<f32>, Vec<f32>);

/// A prior. Engines keep what they make of its weights in it, so it is worth keeping.
#[pyclass(frozen, module = "qcs._qcs")]
pub struct Prior {
    pub inner: Arc<qcs::Prior>,
    origin: Origin,
    /// Whether its table of errors is another than the origin's
    has_own_table: bool,
}

/// Where the weights came from, which is what a copy with another table is made of.
#[derive(Clone)]
enum Origin {
    /// A file of our own, or what is bundled
    File(PathBuf),
    /// A file or folder as its authors published it: the network describes itself
    Published(PathBuf),
    Function,
}

fn wrapped(prior: qcs::Result<qcs::Prior>) -> PyResult<Prior> {
    let inner = Arc::new(prior.map_err(raised)?);
    let source = inner.source.clone();
    // A file of our own says what network it holds.
    let origin = if inner.network().config().is_some() && !inner.metadata.contains_key("network") {
        Origin::Published(source)
    } else {
        Origin::File(source)
    };
    Ok(Prior {
        inner,
        origin,
        has_own_table: false,
    })
}

fn denoiser_of((mean, variance, levels, errors): Table) -> Denoiser {
    Denoiser {
        mean,
        variance,
        levels,
        errors,
        peak: None,
    }
}

impl Prior {
    /// The weights file, with a table of errors where one is given.
    fn bytes(&self, denoiser: Option<&Denoiser>) -> qcs::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.origin {
            Origin::Function => return Err(Error::usage("a function has no weights that a file could hold")),
            Origin::Published(source) => self.inner.write_units(source, false, &mut bytes)?,
            Origin::File(path) => match path.to_str().filter(|name| bundled::is_name(name)) {
                Some(name) => bytes = bundled::file(name)?.to_vec(),
                None => bytes = map(path)?.to_vec(),
            },
        }
        let Some(denoiser) = denoiser else {
            return Ok(bytes);
        };
        let [mean, levels, errors] = Denoiser::TENSORS;
        let vector = |name, values| Tensor::new(name, &[<[f32]>::len(values)], Slice::F32(values));
        let tensors = [
            vector(mean, &denoiser.mean),
            vector(levels, &denoiser.levels),
            vector(errors, &denoiser.errors),
        ];
        let metadata = BTreeMap::from([
            (Denoiser::VARIANCE, denoiser.variance.to_string()),
            (Denoiser::SHAPE, self.inner.image().to_string()),
        ]);
        amended(&bytes, &tensors, &metadata)
    }
}

#[pymethods]
impl Prior {
    /// One that comes with the package, by the name that the command knows it by.
    #[staticmethod]
    #[pyo3(signature = (name, shape=None))]
    fn bundled(py: Python<'_>, name: &str, shape: Option<[usize; 3]>) -> PyResult<Self> {
        wrapped(py.detach(|| qcs::Prior::bundled(name, shape.map(of_sides))))
    }

    #[staticmethod]
    #[pyo3(signature = (path, shape=None))]
    fn load(py: Python<'_>, path: PathBuf, shape: Option<[usize; 3]>) -> PyResult<Self> {
        wrapped(py.detach(|| qcs::Prior::open(&path, shape.map(of_sides))))
    }

    /// A callable as denoiser, see `callable.rs`, with its table of errors where that is known.
    #[staticmethod]
    #[pyo3(signature = (function, shape, name, table=None))]
    fn from_callable(function: Py<PyAny>, shape: [usize; 3], name: String, table: Option<Table>) -> PyResult<Self> {
        let mut prior = qcs::Prior::from_fn(of_sides(shape), callable::denoiser(function));
        prior.source = name.into();
        if let Some(table) = table {
            prior = prior.with_denoiser(denoiser_of(table)).map_err(raised)?;
        }
        Ok(Self {
            inner: Arc::new(prior),
            origin: Origin::Function,
            has_own_table: true,
        })
    }

    /// The same weights with another table of errors.
    fn with_table(&self, py: Python<'_>, table: Table) -> PyResult<Self> {
        let denoiser = denoiser_of(table);
        let (source, image) = (&self.inner.source, self.inner.image());
        let prior = py.detach(|| {
            denoiser.check(image)?;
            qcs::Prior::from_bytes(source, &self.bytes(Some(&denoiser))?, Some(image))
        });
        Ok(Self {
            inner: Arc::new(prior.map_err(raised)?),
            origin: self.origin.clone(),
            has_own_table: true,
        })
    }

    /// The table of errors, where it is known.
    #[getter]
    fn table(&self) -> Option<Table> {
        let denoiser = self.inner.denoiser()?.clone();
        Some((denoiser.mean, denoiser.variance, denoiser.levels, denoiser.errors))
    }

    /// Writes the weights file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| {
            let bytes = self.bytes(self.inner.denoiser().filter(|_| self.has_own_table))?;
            write_atomically(&path, |out| {
                out.write_all(&bytes).map_err(|e| Error::io(&path, "write", e))
            })
        });
        saved.map_err(raised)
    }

    /// Mean, variance, levels and errors of the prior as a denoiser, measured on images.
    fn measure_errors(
        &self,
        py: Python<'_>,
        images: PyReadonlyArray4<'_, f32>,
        count: usize,
        levels: (usize, f64, f64),
        device: &str,
        threads: usize,
    ) -> PyResult<Table> {
        let images = arrays::images(&images)?;
        let (levels, least, largest) = levels;
        let table = Levels {
            count: levels,
            least,
            largest,
        };
        let device: Device = device.parse().map_err(raised)?;
        // An interrupt counts between two levels.
        let mut heard = |_, _| {
            Python::attach(|py| py.check_signals()).map_err(|exception| {
                errors::keep(exception);
                Error::Interrupted("stopped".to_owned())
            })
        };
        let measured = py.detach(|| {
            let mut engine = qcs::engine::open(&device, None, threads)?.engine;
            calibrate_at(engine.as_mut(), &self.inner, &images, count, table, &mut heard)
        });
        let Denoiser {
            mean,
            variance,
            levels,
            errors,
            ..
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

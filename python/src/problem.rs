//! Problems: what was measured.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyReadonlyArray2, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use qcs::methods::Preset;
use qcs::problem::{Sensing, Simulation};
use qcs::run::MeasureConfig;
use qcs::{Cells, Error, ImageShape, Images, Quantiser};

use crate::arrays;
use crate::errors::raised;

/// A problem. Its spectrum is computed once, by the first run that needs it.
#[pyclass(frozen, module = "qcs._qcs")]
pub struct Problem {
    pub inner: Arc<qcs::Problem>,
}

fn wrapped(problem: qcs::Result<qcs::Problem>) -> PyResult<Problem> {
    let inner = Arc::new(problem.map_err(raised)?);
    Ok(Problem { inner })
}

/// A quantiser by its bits and step, as Python names it.
type Bits = (u8, Option<f64>);

fn quantiser((bits, step): Bits) -> qcs::Result<Quantiser> {
    match (bits, step) {
        (1, None) => Quantiser::new(1, None, 1.0),
        (_, Some(step)) => Quantiser::new(bits, Some(step), 1.0),
        (_, None) => Err(Error::setting(
            "step",
            format!("is missing: a quantiser of {bits} bits needs one"),
        )),
    }
}

/// Refuses what is no quantiser, with the library's words.
#[pyfunction]
#[pyo3(signature = (bits, step))]
pub fn check_quantizer(bits: u8, step: Option<f64>) -> PyResult<()> {
    quantiser((bits, step)).map(|_| ()).map_err(raised)
}

/// What was measured, beside A and the noise.
struct Measured {
    m: usize,
    bounds: [Vec<f64>; 2],
    shape: Option<ImageShape>,
    truth: Option<Images>,
    quantizer: Option<Bits>,
}

impl Measured {
    fn new(
        lower: &PyReadonlyArray2<'_, f64>,
        upper: &PyReadonlyArray2<'_, f64>,
        shape: Option<[usize; 3]>,
        truth: Option<&PyReadonlyArray4<'_, f32>>,
        quantizer: Option<Bits>,
    ) -> PyResult<Self> {
        Ok(Self {
            m: lower.shape()[1],
            bounds: [lower.as_slice()?.to_vec(), upper.as_slice()?.to_vec()],
            shape: shape.map(arrays::of_sides),
            truth: truth.map(arrays::images).transpose()?,
            quantizer,
        })
    }

    fn cells(&self) -> qcs::Result<Cells> {
        let [lower, upper] = self.bounds.clone();
        Cells::new(self.m, lower, upper)
    }

    /// The problem, told of the rest.
    fn told(self, mut problem: qcs::Problem) -> qcs::Result<qcs::Problem> {
        if let Some(shape) = self.shape {
            problem = problem.with_shape(shape)?;
        }
        if let Some(truth) = self.truth {
            problem = problem.with_truth(truth)?;
        }
        Ok(match self.quantizer {
            Some(bits) => problem.with_quantiser(quantiser(bits)?),
            None => problem,
        })
    }
}

#[pymethods]
impl Problem {
    /// `a` is `[M, N]`, f32 or f64; `lower` and `upper` are `[B, M]`.
    #[staticmethod]
    #[pyo3(signature = (a, lower, upper, sigma, shape=None, truth=None, quantizer=None))]
    #[allow(clippy::too_many_arguments)] // named at the call, in Python
    fn from_cells(
        py: Python<'_>,
        a: &Bound<'_, PyAny>,
        lower: PyReadonlyArray2<'_, f64>,
        upper: PyReadonlyArray2<'_, f64>,
        sigma: f64,
        shape: Option<[usize; 3]>,
        truth: Option<PyReadonlyArray4<'_, f32>>,
        quantizer: Option<Bits>,
    ) -> PyResult<Self> {
        let a = arrays::matrix(a)?;
        let measured = Measured::new(&lower, &upper, shape, truth.as_ref(), quantizer)?;
        wrapped(py.detach(|| {
            let problem = qcs::Problem::new(a, measured.cells()?, sigma)?;
            measured.told(problem)
        }))
    }

    /// Other measurements by the same A: what is known of its spectrum stays known.
    #[pyo3(signature = (lower, upper, sigma, shape=None, truth=None, quantizer=None))]
    #[allow(clippy::too_many_arguments)] // named at the call, in Python
    fn with_cells(
        &self,
        py: Python<'_>,
        lower: PyReadonlyArray2<'_, f64>,
        upper: PyReadonlyArray2<'_, f64>,
        sigma: f64,
        shape: Option<[usize; 3]>,
        truth: Option<PyReadonlyArray4<'_, f32>>,
        quantizer: Option<Bits>,
    ) -> PyResult<Self> {
        let measured = Measured::new(&lower, &upper, shape, truth.as_ref(), quantizer)?;
        wrapped(py.detach(|| {
            let mut problem = qcs::Problem::new(self.inner.a().clone(), measured.cells()?, sigma)?;
            // An operator without a matrix knows its own.
            if let (Some(spectrum), None) = (self.inner.known_spectrum(), problem.known_spectrum()) {
                problem = problem.with_spectrum(spectrum.clone())?;
            }
            measured.told(problem)
        }))
    }

    /// Images measured by a matrix of one's own.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // named at the call, in Python
    fn simulate(
        py: Python<'_>,
        images: PyReadonlyArray4<'_, f32>,
        a: &Bound<'_, PyAny>,
        bits: u8,
        step: Option<f64>,
        sigma: f64,
        mean_square: Option<f64>,
        seed: u64,
    ) -> PyResult<Self> {
        let (images, a) = (arrays::images(&images)?, arrays::matrix(a)?);
        let known = mean_square.or(Preset::of_shape(images.shape).map(|preset| preset.mean_square));
        if bits > 1 && step.is_none() && known.is_none() {
            let reason = "is missing: for these images no step is known; give it, or their mean_square";
            return Err(raised(Error::setting("step", reason)));
        }
        let simulation = Simulation {
            bits,
            step,
            sigma,
            mean_square: known.unwrap_or(1.0),
            seed,
            ..Simulation::default()
        };
        wrapped(py.detach(|| qcs::Problem::simulate(images, Sensing::Inputs(a.into()), &simulation)))
    }

    /// Images measured by a matrix that is drawn from a law or read from a file; `settings` are those of `[measure]`.
    #[staticmethod]
    fn measure(py: Python<'_>, images: PyReadonlyArray4<'_, f32>, settings: Vec<(String, String)>) -> PyResult<Self> {
        use qcs::methods::Options;
        let images = arrays::images(&images)?;
        let mut config = MeasureConfig::default();
        for (name, text) in &settings {
            config.set(name, text).map_err(raised)?;
        }
        wrapped(py.detach(|| config.resolve_with(|_| Ok(images))))
    }

    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        wrapped(py.detach(|| qcs::Problem::read(&path)))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.inner.write(&path)).map_err(raised)
    }

    /// Computes the spectrum of A·Aᵀ, unless it is known.
    fn factorise(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.spectrum().map(|_| ())).map_err(raised)
    }

    #[getter]
    fn m(&self) -> usize {
        self.inner.a().rows()
    }

    #[getter]
    fn n(&self) -> usize {
        self.inner.a().cols()
    }

    #[getter]
    fn count(&self) -> usize {
        self.inner.cells().count()
    }

    #[getter]
    fn sigma(&self) -> f64 {
        self.inner.sigma()
    }

    #[getter]
    fn shape(&self) -> Option<(usize, usize, usize)> {
        self.inner.shape().map(|s| (s.channels, s.height, s.width))
    }

    #[getter]
    fn quantizer(&self) -> Option<Bits> {
        self.inner.quantiser().map(|q| (q.bits(), q.step()))
    }

    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shaped(py, self.inner.cells().lower().to_vec(), &[self.count(), self.m()])
    }

    #[getter]
    fn upper<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shaped(py, self.inner.cells().upper().to_vec(), &[self.count(), self.m()])
    }

    #[getter]
    fn truth<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let truth = self.inner.truth().cloned();
        truth.map(|truth| arrays::of_images(py, truth)).transpose()
    }

    /// A·x for each row of `x`, `[B, N]` in f64.
    fn forward<'py>(&self, py: Python<'py>, x: PyReadonlyArray2<'_, f64>) -> PyResult<Bound<'py, PyAny>> {
        self.product(py, &x, self.n(), self.m(), |problem, row| problem.a().times(row))
    }

    /// Aᵀ·z for each row of `z`, `[B, M]` in f64.
    fn adjoint<'py>(&self, py: Python<'py>, z: PyReadonlyArray2<'_, f64>) -> PyResult<Bound<'py, PyAny>> {
        self.product(py, &z, self.m(), self.n(), |problem, row| {
            problem.a().transpose_times(row)
        })
    }

    /// The share of measurements that each image agrees with, clipped to [0, 1].
    fn consistency(&self, py: Python<'_>, x: PyReadonlyArray4<'_, f32>) -> PyResult<Vec<f64>> {
        let images: Images = arrays::images(&x)?;
        let rows = py.detach(|| qcs::reconstruct::evaluate("", &images, 0, None, Some(&self.inner)));
        let rows = rows.map_err(raised)?;
        Ok(rows.iter().filter_map(|row| row.consistency).collect())
    }
}

impl Problem {
    fn product<'py>(
        &self,
        py: Python<'py>,
        input: &PyReadonlyArray2<'_, f64>,
        from: usize,
        to: usize,
        times: impl Fn(&qcs::Problem, &[f64]) -> Vec<f64> + Sync + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let &[count, length] = input.shape() else {
            unreachable!("two axes")
        };
        if length != from {
            let reason = format!(
                "the rows have {length} entries, not {from}: A is {} by {}",
                self.m(),
                self.n()
            );
            return Err(raised(Error::usage(reason)));
        }
        let rows = input.as_slice()?.to_vec();
        let products = py.detach(|| {
            let products = rows.chunks_exact(from).flat_map(|row| times(&self.inner, row));
            products.collect::<Vec<f64>>()
        });
        arrays::shaped(py, products, &[count, to])
    }
}

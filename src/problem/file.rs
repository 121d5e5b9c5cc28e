//! A problem as a safetensors file; [`Problem::read`] says what it holds.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Cells, Matrix, Operator, Origin, Parts, Problem, Quantiser, Spectrum, Values, operator};
use crate::error::{Error, Result};
use crate::files::safetensors::{self, Slice, Tensor, TensorFile};
use crate::files::write_atomically;
use crate::images::{ImageShape, Images};

/// How far rounding may carry a true pixel beyond 0 and 1.
const ROUNDING: f32 = 1e-4;

impl Problem {
    /// Reads a problem file.
    ///
    /// | tensor | shape | |
    /// |---|---|---|
    /// | `A` | `[M, N]` | f32 or f64; absent where the metadata have an `operator` |
    /// | `lower`, `upper` | `[B, M]` | f32 or f64; −inf and inf are legal |
    /// | `sigma` | `[M]` | optional, instead of the metadata's: the noise of each measurement |
    /// | `truth` | `[B, C, H, W]` | optional; f32 or f64, values in 0 to 1 |
    /// | `eigenvalues` | `[M]` | optional; f64, of A·Aᵀ |
    /// | `U` | `[M, M]` | optional; f64, eigenvectors as columns; the identity if only `eigenvalues` is there |
    /// | `signs` | `[N]` | of an operator, optional; ±1 for each pixel: i8, f32 or f64 |
    /// | `order` | `[N]` | of an operator, optional; the pixel that comes to each place: integers |
    /// | `factor.0`, … | `[m, n]` | of an operator, for axes with the factor `matrix`; f32 or f64 |
    /// | `rows` | `[M]` | of an operator, optional; the rows of the product that are measured: integers |
    ///
    /// Metadata: `sigma`; optionally `shape` ("C,H,W"), `bits` and `step`, `names` (what each image is called, a list as JSON),
    /// `seed` and `matrix` (the [`Ensemble`](super::Ensemble) as JSON), and `operator`: A = S·(F₁ ⊗ F₂ ⊗ …)·P·D without a matrix, as JSON.
    /// `{"label": "mine", "axes": [{"factor": "dct", "length": 3}, {"factor": "hadamard", "length": 256}, {"factor": "matrix"}]}`
    /// names what acts along each axis, the last one running fastest. Other tensors and metadata are ignored.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::BadFile`] if it is no safetensors file, lacks
    /// something, or holds what [`Matrix::new`], [`Cells::new`], [`Problem::new`] or
    /// [`Spectrum::check`] refuse.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        safetensors::read(path.as_ref(), parse)
    }

    /// Writes the problem file, whole or not at all. Equal problems give equal bytes. The spectrum
    /// is stored if it is known: call [`Problem::spectrum`] before, and no run on this file has to
    /// compute it.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_atomically(path, |out| {
            safetensors::write(out, &self.tensors(), &self.metadata()).map_err(|e| Error::io(path, "write", e))
        })
    }

    /// f64 first, so that every tensor is aligned.
    fn tensors(&self) -> Vec<Tensor<'_>> {
        let (m, b) = (self.a.rows(), self.cells.count());
        let matrix = self.a.matrix().map(|matrix| match matrix.values() {
            Values::F32(v) => Slice::F32(v),
            Values::F64(v) => Slice::F64(v),
        });
        let matrix = matrix.map(|values| Tensor::new("A", &[m, self.a.cols()], values));
        let mut tensors: Vec<Tensor<'_>> = matrix.into_iter().collect();
        tensors.extend(self.a.parts().into_iter().flat_map(Parts::tensors));
        tensors.push(Tensor::new("lower", &[b, m], Slice::F64(self.cells.lower())));
        tensors.push(Tensor::new("upper", &[b, m], Slice::F64(self.cells.upper())));
        let spectrum = self.known_spectrum().filter(|_| self.a.matrix().is_some());
        tensors.extend(spectrum.into_iter().flat_map(Spectrum::tensors));
        if let Some(sigmas) = &self.sigmas {
            tensors.push(Tensor::new("sigma", &[m], Slice::F64(sigmas)));
        }
        if let Some(Images { shape, data }) = &self.truth {
            let shape = [b, shape.channels, shape.height, shape.width];
            tensors.push(Tensor::new("truth", &shape, Slice::F32(data)));
        }
        tensors.sort_by_key(|tensor| matches!(tensor.values, Slice::F32(_) | Slice::U32(_)));
        tensors
    }

    fn metadata(&self) -> BTreeMap<&'static str, String> {
        let mut metadata = BTreeMap::from([("sigma", self.sigma.to_string())]);
        metadata.extend(self.a.parts().map(|parts| (operator::KEY, parts.description())));
        if let Some(shape) = self.shape {
            metadata.insert("shape", shape.to_string());
        }
        if let Some(quantiser) = self.quantiser {
            metadata.insert("bits", quantiser.bits().to_string());
            metadata.extend(quantiser.step().map(|step| ("step", step.to_string())));
        }
        if let Some(names) = &self.names {
            metadata.insert("names", serde_json::json!(names).to_string());
        }
        if let Some(origin) = self.origin {
            metadata.insert("seed", origin.seed.to_string());
            let matrix = origin.ensemble.map(|e| serde_json::json!(e).to_string());
            metadata.extend(matrix.map(|json| ("matrix", json)));
        }
        metadata
    }
}

impl Matrix {
    /// Reads a user's matrix from a safetensors file: the tensor `A`, or the only tensor there is.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::BadFile`] if there is no such tensor, it is not a
    /// matrix of f32 or f64, or [`Matrix::new`] refuses it.
    pub fn read_safetensors(path: impl AsRef<Path>) -> Result<Self> {
        safetensors::read(path.as_ref(), |file| {
            let name = match file.names()[..] {
                [only] => only,
                _ => "A",
            };
            let ([m, n], values) = file.values(name)?;
            Self::new(m, n, values)
        })
    }
}

fn parse(file: &TensorFile<'_>) -> Result<Problem> {
    let a = match Operator::read(file)? {
        Some(operator) => operator,
        None => {
            let ([m, n], a) = file.values("A")?;
            Matrix::new(m, n, a)?.into()
        }
    };
    let (m, n) = (a.rows(), a.cols());
    let ([b, m_lower], lower) = file.values("lower")?;
    let ([b_upper, m_upper], upper) = file.values("upper")?;
    if (m_lower, b_upper, m_upper) != (m, b, m) {
        return Err(Error::usage(format!(
            "lower is [{b}, {m_lower}] and upper [{b_upper}, {m_upper}]: with A of [{m}, {n}] both must be [B, {m}]"
        )));
    }
    let cells = Cells::new(m, lower.into_f64(), upper.into_f64())?;
    let sigmas = file.has("sigma").then(|| file.values::<1>("sigma")).transpose()?;
    let sigma = match (file.number::<f64>("sigma")?, &sigmas) {
        (Some(sigma), _) => sigma,
        (None, Some(_)) => 0.0,
        (None, None) => {
            return Err(Error::usage(
                "the metadata have no `sigma`: add the noise's standard deviation (0 for noise-free)",
            ));
        }
    };
    let mut problem = Problem::new(a, cells, sigma)?;
    if let Some((_, sigmas)) = sigmas {
        problem = problem.with_sigmas(sigmas.into_f64())?;
    }
    if file.has("truth") {
        problem = problem.with_truth(truth(file)?)?;
    }
    if let Some(shape) = shape(file)? {
        problem = problem.with_shape(shape)?;
    }
    if let Some(quantiser) = quantiser(file)? {
        problem = problem.with_quantiser(quantiser);
    }
    if let Some(text) = file.text("names") {
        let names = serde_json::from_str(text).map_err(|_| {
            Error::usage("the metadata's `names` is no list of texts as JSON, like [\"a.png\", \"b.png\"]")
        })?;
        problem = problem.with_names(names)?;
    }
    if let Some(seed) = file.number("seed")? {
        let ensemble = file.text("matrix").map(serde_json::from_str).transpose();
        let ensemble = ensemble.map_err(|e| Error::usage(format!("the metadata's `matrix` is no ensemble: {e}")))?;
        problem = problem.with_origin(Origin { ensemble, seed });
    }
    if let (Some(spectrum), true) = (Spectrum::parse(file)?, problem.a().matrix().is_some()) {
        problem = problem.with_spectrum(spectrum).map_err(|e| {
            Error::usage(format!(
                "{e}: remove `U` and `eigenvalues`, and they are computed when needed"
            ))
        })?;
    }
    Ok(problem)
}

fn shape(file: &TensorFile<'_>) -> Result<Option<ImageShape>> {
    let Some(text) = file.text("shape") else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|e| Error::usage(format!("the metadata's `shape`: {e}")))
}

/// The cells are what counts: `bits` without the `step` they need describe no quantiser, and
/// none is recorded.
fn quantiser(file: &TensorFile<'_>) -> Result<Option<Quantiser>> {
    let step = file.number::<f64>("step")?;
    match file.number::<u8>("bits")? {
        Some(1) => Ok(Some(Quantiser::Sign)),
        Some(bits) => step.map(|step| Quantiser::uniform(bits, step)).transpose(),
        None => Ok(None),
    }
}

fn truth(file: &TensorFile<'_>) -> Result<Images> {
    let ([b, channels, height, width], values) = file.values("truth")?;
    if b == 0 || channels == 0 || height == 0 || width == 0 {
        return Err(Error::usage("tensor `truth` is empty"));
    }
    let truth = Images::new(ImageShape::new(channels, height, width), values.into_f32());
    // What is compared with it is clipped to this range: a truth in other units would be compared with nothing.
    if let Some(pixel) = truth
        .data
        .iter()
        .find(|pixel| pixel.is_finite() && !(-ROUNDING..=1.0 + ROUNDING).contains(*pixel))
    {
        return Err(Error::usage(format!(
            "tensor `truth` holds {pixel}: pixels lie between 0 and 1; scale A, or leave the truth out"
        )));
    }
    Ok(truth)
}

impl Spectrum {
    /// As a file holds it, a problem's or a cache's: `eigenvalues`, and `U` unless that is the identity.
    pub(crate) fn tensors(&self) -> Vec<Tensor<'_>> {
        let m = self.eigenvalues.len();
        let eigenvalues = Tensor::new("eigenvalues", &[m], Slice::F64(&self.eigenvalues));
        let u = self.u.iter().map(|u| Tensor::new("U", &[m, m], Slice::F64(u)));
        [eigenvalues].into_iter().chain(u).collect()
    }

    /// The spectrum of a file, if it has one.
    pub(crate) fn parse(file: &TensorFile<'_>) -> Result<Option<Self>> {
        if !file.has("eigenvalues") {
            return Ok(None);
        }
        let ([_], eigenvalues) = file.values("eigenvalues")?;
        let u = match file.has("U") {
            true => Some(file.values::<2>("U")?.1.into_f64()),
            false => None,
        };
        Ok(Some(Self {
            u,
            eigenvalues: eigenvalues.into_f64(),
        }))
    }
}

//! A problem as a safetensors file.
//!
//! Tensors: `A` [M,N], `lower` and `upper` [B,M], each f32 or f64; optionally `truth` [B,C,H,W]
//! (f32 or f64), and the spectrum of A·Aᵀ: `eigenvalues` [M] and `U` [M,M], both f64 (`eigenvalues`
//! alone: U is the identity).
//! Metadata: `sigma`; optionally `shape` ("C,H,W"), `bits`, `step`, `matrix` (the ensemble as JSON)
//! and `seed`.
//! Other tensors and metadata are ignored.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

use ::safetensors::tensor::{Dtype, SafeTensors};

use super::{Cells, Matrix, Origin, Problem, Quantiser, Spectrum, Values};
use crate::error::{Error, Result};
use crate::files::safetensors::{self, Slice, Tensor};
use crate::files::write_atomically;
use crate::images::{ImageShape, Images};

impl Problem {
    /// Reads a problem file.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::BadFile`] if it is no safetensors file, lacks
    /// something, or holds what [`Matrix::new`], [`Cells::new`], [`Problem::new`] or
    /// [`Spectrum::check`] refuse.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        // SAFETY: the mapping is read-only and private to this function. As for every memory-mapped
        // file, another process that truncates it meanwhile can kill this one; files of this
        // program are replaced, never truncated.
        let bytes = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io(path, "read", e))?;
        // What the parts of a problem refuse is here the fault of the file.
        parse(&bytes).map_err(|e| Error::bad_file(path, e.to_string()))
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
            safetensors::write(out, &self.tensors(), &self.metadata())
                .map_err(|e| Error::io(path, "write", e))
        })
    }

    /// f64 first, so that every tensor is aligned.
    fn tensors(&self) -> Vec<Tensor<'_>> {
        let (m, b) = (self.a.rows(), self.cells.count());
        let matrix = match self.a.values() {
            Values::F32(v) => Slice::F32(v),
            Values::F64(v) => Slice::F64(v),
        };
        let mut tensors = vec![
            Tensor {
                name: "A",
                shape: vec![m, self.a.cols()],
                values: matrix,
            },
            Tensor {
                name: "lower",
                shape: vec![b, m],
                values: Slice::F64(self.cells.lower()),
            },
            Tensor {
                name: "upper",
                shape: vec![b, m],
                values: Slice::F64(self.cells.upper()),
            },
        ];
        if let Some(spectrum) = self.known_spectrum() {
            let eigenvalues = Slice::F64(&spectrum.eigenvalues);
            tensors.push(Tensor {
                name: "eigenvalues",
                shape: vec![m],
                values: eigenvalues,
            });
            if let Some(u) = &spectrum.u {
                tensors.push(Tensor {
                    name: "U",
                    shape: vec![m, m],
                    values: Slice::F64(u),
                });
            }
        }
        if let Some(truth) = &self.truth {
            let ImageShape {
                channels,
                height,
                width,
            } = truth.shape;
            let shape = vec![b, channels, height, width];
            tensors.push(Tensor {
                name: "truth",
                shape,
                values: Slice::F32(&truth.data),
            });
        }
        tensors.sort_by_key(|tensor| matches!(tensor.values, Slice::F32(_)));
        tensors
    }

    fn metadata(&self) -> BTreeMap<&'static str, String> {
        let mut metadata = BTreeMap::from([("sigma", self.sigma.to_string())]);
        if let Some(shape) = self.shape {
            metadata.insert("shape", shape.to_string());
        }
        if let Some(quantiser) = self.quantiser {
            metadata.insert("bits", quantiser.bits().to_string());
            metadata.extend(quantiser.step().map(|step| ("step", step.to_string())));
        }
        if let Some(origin) = self.origin {
            metadata.insert("seed", origin.seed.to_string());
            metadata.extend(
                origin
                    .ensemble
                    .map(|e| ("matrix", serde_json::json!(e).to_string())),
            );
        }
        metadata
    }
}

/// The parts of a file. Errors are [`Error::Usage`], still without the file's name.
fn parse(bytes: &[u8]) -> Result<Problem> {
    let unreadable = |e| {
        Error::usage(format!(
            "not a whole safetensors file ({e}): copy it again or make it with `qcs measure`"
        ))
    };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
    let none = HashMap::new();
    let file = Contents {
        tensors: SafeTensors::deserialize(bytes).map_err(unreadable)?,
        metadata: header.metadata().as_ref().unwrap_or(&none),
    };

    let ([m, n], a) = file.values("A")?;
    let ([b, m_lower], lower) = file.values("lower")?;
    let ([b_upper, m_upper], upper) = file.values("upper")?;
    if (m_lower, b_upper, m_upper) != (m, b, m) {
        return Err(Error::usage(format!(
            "lower is [{b}, {m_lower}] and upper [{b_upper}, {m_upper}]: with A of [{m}, {n}] both must be [B, {m}]"
        )));
    }
    let cells = Cells::new(m, lower.into_f64(), upper.into_f64())?;
    let sigma = file.number::<f64>("sigma")?.ok_or_else(|| {
        Error::usage(
            "the metadata have no `sigma`: add the noise's standard deviation (0 for noise-free)",
        )
    })?;
    let mut problem = Problem::new(Matrix::new(m, n, a)?, cells, sigma)?;
    if file.has("truth") {
        problem = problem.with_truth(file.truth()?)?;
    }
    if let Some(shape) = file.shape()? {
        problem = problem.with_shape(shape)?;
    }
    if let Some(quantiser) = file.quantiser()? {
        problem = problem.with_quantiser(quantiser);
    }
    if let Some(seed) = file.number("seed")? {
        let ensemble = file
            .metadata
            .get("matrix")
            .map(|json| serde_json::from_str(json))
            .transpose();
        let ensemble = ensemble
            .map_err(|e| Error::usage(format!("the metadata's `matrix` is no ensemble: {e}")))?;
        problem = problem.with_origin(Origin { ensemble, seed });
    }
    if let Some(spectrum) = file.spectrum()? {
        problem = problem.with_spectrum(spectrum).map_err(|e| {
            Error::usage(format!(
                "{e}: remove `U` and `eigenvalues`, and they are computed when needed"
            ))
        })?;
    }
    Ok(problem)
}

struct Contents<'a> {
    tensors: SafeTensors<'a>,
    metadata: &'a HashMap<String, String>,
}

impl Contents<'_> {
    fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// The tensor `name` of D dimensions, f32 or f64.
    fn values<const D: usize>(&self, name: &str) -> Result<([usize; D], Values)> {
        let tensor = self.tensors.tensor(name).map_err(|_| {
            Error::usage(format!(
                "there is no tensor `{name}`: a problem file has A, lower and upper"
            ))
        })?;
        let shape = <[usize; D]>::try_from(tensor.shape()).map_err(|_| {
            Error::usage(format!(
                "tensor `{name}` has shape {:?}: it must have {D} dimensions",
                tensor.shape()
            ))
        })?;
        let values = match tensor.dtype() {
            Dtype::F32 => Values::F32(
                tensor
                    .data()
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&b| f32::from_le_bytes(b))
                    .collect(),
            ),
            Dtype::F64 => Values::F64(
                tensor
                    .data()
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&b| f64::from_le_bytes(b))
                    .collect(),
            ),
            other => {
                return Err(Error::usage(format!(
                    "tensor `{name}` is of type {other}: convert it to F32 or F64"
                )));
            }
        };
        Ok((shape, values))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &String| {
            let number = text.trim().parse();
            number.map_err(|_| {
                Error::usage(format!(
                    "the metadata's `{key}` is {text:?}: it must be a number"
                ))
            })
        };
        self.metadata.get(key).map(parse).transpose()
    }

    fn shape(&self) -> Result<Option<ImageShape>> {
        let Some(text) = self.metadata.get("shape") else {
            return Ok(None);
        };
        let sizes: Option<Vec<usize>> = text
            .split(',')
            .map(|size| size.trim().parse().ok())
            .collect();
        match sizes.as_deref() {
            Some(&[channels, height, width]) => Ok(Some(ImageShape::new(channels, height, width))),
            _ => Err(Error::usage(format!(
                "the metadata's `shape` is {text:?}: write it as \"C,H,W\""
            ))),
        }
    }

    /// The cells are what counts: `bits` without the `step` they need describe no quantiser, and
    /// none is recorded.
    fn quantiser(&self) -> Result<Option<Quantiser>> {
        let step = self.number::<f64>("step")?;
        match self.number::<u8>("bits")? {
            Some(1) => Ok(Some(Quantiser::Sign)),
            Some(bits) => step.map(|step| Quantiser::uniform(bits, step)).transpose(),
            None => Ok(None),
        }
    }

    fn truth(&self) -> Result<Images> {
        let ([b, channels, height, width], values) = self.values("truth")?;
        if b == 0 || channels == 0 || height == 0 || width == 0 {
            return Err(Error::usage("tensor `truth` is empty"));
        }
        Ok(Images::new(
            ImageShape::new(channels, height, width),
            values.into_f32(),
        ))
    }

    fn spectrum(&self) -> Result<Option<Spectrum>> {
        if !self.has("eigenvalues") {
            return Ok(None);
        }
        let ([_], eigenvalues) = self.values("eigenvalues")?;
        let u = if self.has("U") {
            Some(self.values::<2>("U")?.1)
        } else {
            None
        };
        Ok(Some(Spectrum {
            u: u.map(Values::into_f64),
            eigenvalues: eigenvalues.into_f64(),
        }))
    }
}

//! A user's own A: a two-dimensional `.npy` array, or the tensor `A` of a safetensors file.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};

use super::{Matrix, Values};
use crate::files::npy::{self, NpyData};
use crate::{Error, Result};

impl Matrix {
    /// Reads A, M×N, from an `.npy` or `.safetensors` file; a problem file will do.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::BadFile`] if it holds no matrix of finite numbers.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let is_npy = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"));
        let ((rows, cols), values) = if is_npy {
            from_npy(path)?
        } else {
            from_safetensors(path)?
        };
        Self::new(rows, cols, values).map_err(|e| Error::bad_file(path, e.to_string()))
    }
}

type Parts = ((usize, usize), Values);

fn from_npy(path: &Path) -> Result<Parts> {
    let array = npy::read(path)?;
    let size = size(path, &array.shape)?;
    let values = match array.data {
        NpyData::F32(values) => Values::F32(values),
        _ => Values::F64(array.to_f64().into_owned()),
    };
    Ok((size, values))
}

fn from_safetensors(path: &Path) -> Result<Parts> {
    let bytes = crate::files::map(path)?;
    let unreadable = |e| {
        Error::bad_file(
            path,
            format!("not a whole safetensors file ({e}), and no .npy by its name"),
        )
    };
    let tensors = SafeTensors::deserialize(&bytes).map_err(unreadable)?;
    let names = tensors.names();
    // A file with one tensor needs no agreement on its name.
    let name = if let [only] = names[..] { only } else { "A" };
    let tensor = tensors.tensor(name).map_err(|_| {
        Error::bad_file(
            path,
            "there is no tensor `A`: name the matrix so, or let it be the only tensor",
        )
    })?;
    let size = size(path, tensor.shape())?;
    let data = tensor.data();
    let values = match tensor.dtype() {
        Dtype::F32 => Values::F32(data.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
        Dtype::F64 => Values::F64(data.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()),
        other => {
            let reason = format!("tensor `{name}` is of type {other}: convert it to F32 or F64");
            return Err(Error::bad_file(path, reason));
        }
    };
    Ok((size, values))
}

fn size(path: &Path, shape: &[usize]) -> Result<(usize, usize)> {
    match *shape {
        [rows, cols] => Ok((rows, cols)),
        _ => Err(Error::bad_file(
            path,
            format!("A has shape {shape:?}: it must be M×N, measurements by pixels"),
        )),
    }
}

//! A user's own A, from whichever file it is in.

use std::path::Path;

use super::{Matrix, Values};
use crate::files::npy::{self, NpyData};
use crate::{Error, Result};

impl Matrix {
    /// Reads A, M×N, from a two-dimensional `.npy` array, or from a safetensors file as [`Matrix::read_safetensors`]
    /// does; a problem file will do.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::BadFile`] if it holds no matrix of finite numbers.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
            return Self::read_safetensors(path);
        }
        let array = npy::read(path)?;
        let [rows, cols] = array.shape[..] else {
            let reason = format!("A has shape {:?}: it must be M×N, measurements by pixels", array.shape);
            return Err(Error::bad_file(path, reason));
        };
        let values = match array.data {
            NpyData::F32(values) => Values::F32(values),
            _ => Values::F64(array.to_f64().into_owned()),
        };
        Self::new(rows, cols, values).map_err(|e| Error::bad_file(path, e.to_string()))
    }
}

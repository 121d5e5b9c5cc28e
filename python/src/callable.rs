//! A Python callable as the denoiser of a prior.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use qcs::{Error, Result};

use crate::errors;

/// Calls `function(x, sigma)` with flat arrays, `[states · N]` and `[states]`; the Python half gives it its shapes and checks what
/// comes back.
pub fn denoiser(function: Py<PyAny>) -> impl Fn(&[f32], &[f64], &mut [f32]) -> Result<()> + Send + Sync {
    move |x, levels, denoised| {
        let called = Python::attach(|py| {
            let arguments = (PyArray1::from_slice(py, x), PyArray1::from_slice(py, levels));
            let answer = function.bind(py).call1(arguments)?;
            let answer = answer.extract::<PyReadonlyArray1<'_, f32>>()?;
            denoised.copy_from_slice(answer.as_slice()?);
            Ok(())
        });
        called.map_err(|exception: PyErr| {
            errors::keep(exception);
            Error::Failed("the denoiser raised an exception".to_owned())
        })
    }
}

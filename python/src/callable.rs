//! A Python callable as the denoiser of a prior.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use qcs::prior::Function;
use qcs::{Error, Result};

use crate::errors;

/// `f(x, sigma)` of flat arrays, `[states · N]` and `[states]`; the Python half gives it its shapes and checks what comes back.
pub struct Callable(pub Py<PyAny>);

impl Function for Callable {
    fn denoise(&self, x: &[f32], levels: &[f64], denoised: &mut [f32]) -> Result<()> {
        let called = Python::attach(|py| {
            let arguments = (PyArray1::from_slice(py, x), PyArray1::from_slice(py, levels));
            let answer = self.0.bind(py).call1(arguments)?;
            let answer = answer.extract::<PyReadonlyArray1<'_, f32>>()?;
            denoised.copy_from_slice(answer.as_slice()?);
            Ok(())
        });
        called.map_err(|exception| {
            errors::keep(exception);
            Error::Failed("the denoiser raised an exception".to_owned())
        })
    }
}

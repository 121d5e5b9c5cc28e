//! The native half of the Python package `qcs`: arrays in, arrays out, the interpreter free while it computes. Names, defaults
//! and documentation are in `qcs/`, which is Python.

mod arrays;
mod callable;
#[path = "../../src/cli/mod.rs"]
mod cli;
mod errors;
mod folder;
mod prior;
mod problem;
mod run;
mod watch;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _qcs {
    #[pymodule_export]
    use super::folder::run_in_folder;
    #[pymodule_export]
    use super::prior::Prior;
    #[pymodule_export]
    use super::problem::{Problem, check_quantizer};
    #[pymodule_export]
    use super::run::{likelihood_score, methods, picture, reconstruct, use_threads};
    #[pymodule_export]
    use super::{command, digits};
}

/// The command line, as the program `qcs` has it; gives the exit code.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| cli::main(arguments))
}

/// The ten digits that come with the package, `[10, 1, 28, 28]`.
#[pyfunction]
fn digits(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let images = qcs::bundled::digits(0, None).map_err(errors::raised)?;
    arrays::of_images(py, images)
}

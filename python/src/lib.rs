//! The native half of the Python package `qcs`: arrays in, arrays out, the interpreter free while it computes. Names, defaults
//! and documentation are in `qcs/`, which is Python.

mod arrays;
mod callable;
#[path = "../../src/cli/mod.rs"]
mod cli;
mod errors;
mod folder;
mod options;
mod prior;
mod problem;
mod run;
mod sample;
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
    use super::sample::sample;
    #[pymodule_export]
    use super::{bundled_images, command, load_images};
}

/// The command line, as the program `qcs` has it; gives the exit code.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| cli::main(arguments))
}

/// Images that come with the package, by the name that the command knows them by, `[B, C, H, W]`.
#[pyfunction]
fn bundled_images<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let images = qcs::bundled::images(name, 0, None).map_err(errors::raised)?;
    arrays::of_images(py, images)
}

/// Images of a file or a folder, as the command reads them, `[B, C, H, W]`.
#[pyfunction]
#[pyo3(signature = (path, first, count=None))]
fn load_images(
    py: Python<'_>,
    path: std::path::PathBuf,
    first: usize,
    count: Option<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let options = qcs::files::LoadOptions {
        first,
        count,
        ..Default::default()
    };
    let images = py.detach(|| qcs::files::load_images(&path, &options));
    arrays::of_images(py, images.map_err(errors::raised)?)
}

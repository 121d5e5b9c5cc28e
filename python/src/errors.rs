//! The library's errors as exceptions of `qcs._errors`, with the library's words.

use std::cell::Cell;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use qcs::Error;

thread_local! {
    /// What a callable raised while the engine called it, which it does on the thread that runs: the library knows only that
    /// something was.
    static KEPT: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Keeps an exception for the error that is about to end the run.
pub fn keep(exception: PyErr) {
    KEPT.set(Some(exception));
}

/// The exception of an error; that which caused it, where there is one.
pub fn raised(error: Error) -> PyErr {
    if let Some(exception) = KEPT.take() {
        return exception;
    }
    Python::attach(|py| exception(py, &error, error.to_string()).unwrap_or_else(|failed| failed))
}

fn exception(py: Python<'_>, error: &Error, words: String) -> PyResult<PyErr> {
    let (class, more) = match error {
        Error::Usage(_) => ("UsageError", None),
        Error::Setting { name, .. } => ("SettingError", Some(("name", (*name).to_owned()))),
        Error::BadFile { path, .. } => ("BadFileError", Some(("path", path.display().to_string()))),
        Error::Io { path, source, .. } => {
            // With an errno, Python makes the class of it: FileNotFoundError, PermissionError.
            let path = path.display().to_string();
            return Ok(match source.raw_os_error() {
                Some(errno) => PyOSError::new_err((errno, reason(source), path)),
                None => PyOSError::new_err(words),
            });
        }
        Error::Failed(_) | Error::Diverged(_) => ("RunFailed", None),
        Error::Device(_) => ("DeviceError", None),
        Error::Interrupted(_) => ("Stopped", None),
        // What would help is part of the words.
        Error::Remediable { error, .. } => return exception(py, error, words),
    };
    let exception = py.import("qcs._errors")?.getattr(class)?.call1((words,))?;
    if let Some((name, value)) = more {
        exception.setattr(name, value)?;
    }
    Ok(PyErr::from_value(exception))
}

/// The operating system's words, without the number that Rust appends: Python writes its own in front.
fn reason(source: &std::io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

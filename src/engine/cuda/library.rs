//! Libraries that may be missing.

use crate::{Error, Result};

/// Checks that a library and the functions called of it are there: cudarc would panic. `file` is its name without
/// version, `has` looks a function up and is called only if the library loads.
///
/// # Errors
/// [`Error::Device`] with what is missing.
pub fn require(file: &str, loads: bool, functions: &[&str], has: impl Fn(&[u8]) -> bool) -> Result<()> {
    if !loads {
        return Err(Error::Device(format!("{file} was not found or does not load")));
    }
    match functions.iter().find(|function| !has(function.as_bytes())) {
        Some(function) => Err(Error::Device(format!("{file} has no {function}: it is too old"))),
        None => Ok(()),
    }
}

//! How a run is made: what `reconstruct` and `run_in_folder` are told alike.

use pyo3::prelude::*;
use qcs::methods::{self, Method};
use qcs::{Device, Precision, Result};

/// A dictionary in Python, with these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    method: String,
    settings: Vec<(String, String)>,
    pub chains: usize,
    pub seed: u64,
    /// The first image, and the one after the last; all of them if absent
    pub images: Option<(usize, usize)>,
    pub batch: usize,
    device: String,
    precision: Option<String>,
    pub threads: usize,
    /// See [`Watch`](crate::watch::Watch)
    pub watch: Option<Py<PyAny>>,
}

impl Options {
    /// The method with the settings that are given; the others stay open.
    pub fn method(&self) -> Result<Method> {
        let mut method = methods::find(&self.method)?.open();
        for (name, text) in &self.settings {
            method.set(name, text)?;
        }
        Ok(method)
    }

    pub fn device(&self) -> Result<Device> {
        self.device.parse()
    }

    pub fn precision(&self) -> Result<Option<Precision>> {
        self.precision.as_deref().map(str::parse).transpose()
    }
}

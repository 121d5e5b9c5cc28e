//! Tensors by name, from whatever file holds them.

use crate::files::safetensors::TensorFile;

/// A set of named tensors. Errors are the reason in words.
pub trait Tensors {
    fn names(&self) -> Vec<String>;
    fn shape(&self, name: &str) -> Option<Vec<usize>>;
    fn values(&self, name: &str) -> Result<Vec<f32>, String>;
}

impl Tensors for TensorFile<'_> {
    fn names(&self) -> Vec<String> {
        self.names().into_iter().map(str::to_owned).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.shape(name)
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, String> {
        self.widened(name).map_err(|e| e.to_string())
    }
}

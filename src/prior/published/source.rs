//! Tensors by name, from whatever file holds them.

use std::collections::HashMap;

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

/// Tensors that are in memory: those of a checkpoint of PyTorch.
pub struct Loaded(pub HashMap<String, (Vec<usize>, Vec<f32>)>);

impl Tensors for Loaded {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.get(name).map(|(shape, _)| shape.clone())
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, String> {
        let (_, values) = self.0.get(name).ok_or_else(|| format!("there is no tensor `{name}`"))?;
        Ok(values.clone())
    }
}

//! A checkpoint of PyTorch as a set of tensors, each read when it is asked for.

use std::cell::RefCell;
use std::collections::HashMap;

use super::state_dict::{self, Chosen};
use crate::files::quoted;
use crate::files::torch::{self, Container, Pickle, Reader, Strided};
use crate::prior::published::Tensors;

/// The state dict of a checkpoint.
pub(in crate::prior) struct Checkpoint<'a> {
    pub(super) container: Container,
    pub(super) object: &'a Pickle<'a>,
    pub(super) chosen: &'a Chosen<'a>,
    tensors: HashMap<&'a str, &'a Strided<'a>>,
    reader: RefCell<Reader<'a>>,
}

impl Checkpoint<'_> {
    /// Hands the moving average of the weights, or the plain ones if `raw`, to `then`. The error is the reason in words.
    pub fn open<T>(bytes: &[u8], raw: bool, then: impl FnOnce(&Checkpoint<'_>) -> T) -> Result<T, String> {
        let (saved, rest) = torch::open(bytes)?;
        let object = saved.unpickle()?;
        let storages = rest.locate(&object)?;
        let chosen = state_dict::choose(&object, raw)?;
        let reader = Reader::new(storages, &chosen.tensors)?;
        let tensors = chosen.tensors.iter();
        Ok(then(&Checkpoint {
            container: saved.container,
            object: &object,
            chosen: &chosen,
            tensors: tensors.map(|(name, tensor)| (name.as_str(), tensor)).collect(),
            reader: RefCell::new(reader),
        }))
    }

    /// Where in the checkpoint the tensors are.
    pub fn entry(&self) -> &str {
        &self.chosen.entry
    }
}

impl Tensors for Checkpoint<'_> {
    fn names(&self) -> Vec<String> {
        self.tensors.keys().map(|&name| name.to_owned()).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|tensor| tensor.shape.clone())
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, String> {
        let tensor = self.tensors.get(name);
        let tensor = tensor.ok_or_else(|| format!("tensor {} is missing", quoted(name)))?;
        self.reader.borrow_mut().values(name, tensor)
    }
}

//! Reading safetensors: tensors of f32 and f64 by name, and metadata as text.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors};

use super::Values;
use crate::error::{Error, Result};

/// Hands the bytes of the file to `parse`; what it refuses becomes the fault of the file.
pub(crate) fn read<T>(path: &Path, parse: impl FnOnce(&Contents<'_>) -> Result<T>) -> Result<T> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let bytes = map(&file).map_err(|e| Error::io(path, "read", e))?;
    let parsed = Contents::parse(&bytes).and_then(|contents| parse(&contents));
    parsed.map_err(|e| Error::bad_file(path, one_line(&e.to_string())))
}

/// Messages quote names and texts of the file, which can be long or hold control characters.
fn one_line(message: &str) -> String {
    let shown = message.chars().take(300);
    shown.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read-only and ends with the reading. As with every mapped file, another
    // process that truncates it meanwhile can kill this one (SIGBUS), but not corrupt it; files of this
    // program are replaced, never truncated.
    unsafe { Mmap::map(file) }
}

/// The tensors and the metadata of a file that holds together. All errors here are [`Error::Usage`],
/// still without the file's name.
pub(crate) struct Contents<'a> {
    tensors: SafeTensors<'a>,
    metadata: HashMap<String, String>,
}

impl<'a> Contents<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let unreadable = |e| Error::usage(format!("not a whole safetensors file ({e}): copy it or make it again"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        Ok(Self {
            tensors: SafeTensors::deserialize(bytes).map_err(unreadable)?,
            metadata: header.metadata().clone().unwrap_or_default(),
        })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.tensors.names()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// The tensor `name` of D dimensions, f32 or f64.
    pub(crate) fn values<const D: usize>(&self, name: &str) -> Result<([usize; D], Values)> {
        let tensor = self
            .tensors
            .tensor(name)
            .map_err(|_| Error::usage(format!("there is no tensor `{name}`: add or rename it")))?;
        let shape = <[usize; D]>::try_from(tensor.shape()).map_err(|_| {
            Error::usage(format!(
                "tensor `{name}` has shape {:?}: it must have {D} dimensions",
                tensor.shape()
            ))
        })?;
        let values = match tensor.dtype() {
            Dtype::F32 => Values::F32(from_bytes(tensor.data(), f32::from_le_bytes)),
            Dtype::F64 => Values::F64(from_bytes(tensor.data(), f64::from_le_bytes)),
            other => {
                return Err(Error::usage(format!(
                    "tensor `{name}` is of type {other}: convert it to F32 or F64"
                )));
            }
        };
        Ok((shape, values))
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &str| {
            let number = text.trim().parse();
            number.map_err(|_| Error::usage(format!("the metadata's `{key}` is {text:?}: it must be a number")))
        };
        self.text(key).map(parse).transpose()
    }
}

/// The format checked that the length is a multiple of the size.
fn from_bytes<T, const SIZE: usize>(bytes: &[u8], value: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    let (values, _) = bytes.as_chunks();
    values.iter().map(|&bytes| value(bytes)).collect()
}

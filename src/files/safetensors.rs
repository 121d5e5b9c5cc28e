//! The safetensors format: tensors by name, and metadata as text. Equal contents give equal bytes.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::half::{Bf16, F16};
use crate::{Error, Result};

/// The values of a tensor, in the precision of its file.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Values {
    /// Rounded if they are f64.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F32(values) => values,
            Self::F64(values) => values.into_iter().map(|value| value as f32).collect(),
        }
    }

    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.into_iter().map(f64::from).collect(),
            Self::F64(values) => values,
        }
    }
}

/// Hands the contents of the file to `parse`; what it refuses becomes the fault of the file.
pub fn read<T>(path: &Path, parse: impl FnOnce(&TensorFile<'_>) -> Result<T>) -> Result<T> {
    read_bytes(path, &super::map(path)?, parse)
}

/// The same for a file that is already in memory; `path` stands for it in messages.
pub fn read_bytes<T>(path: &Path, bytes: &[u8], parse: impl FnOnce(&TensorFile<'_>) -> Result<T>) -> Result<T> {
    let parsed = TensorFile::parse(bytes).and_then(|file| parse(&file));
    parsed.map_err(|e| match e {
        Error::Remediable { error, remedy } => Error::bad_file(path, one_line(&error.to_string())).or(remedy),
        e => Error::bad_file(path, one_line(&e.to_string())),
    })
}

/// Messages quote names and texts of the file, which can be long or hold control characters.
fn one_line(message: &str) -> String {
    let shown = message.chars().take(300);
    shown.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The tensors and the metadata of a file that holds together. All errors here are [`Error::Usage`],
/// still without the file's name.
pub struct TensorFile<'a> {
    tensors: SafeTensors<'a>,
    pub metadata: HashMap<String, String>,
}

impl<'a> TensorFile<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let unreadable = |e| Error::usage(format!("not a whole safetensors file ({e}): copy it or make it again"));
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        Ok(Self {
            tensors: SafeTensors::deserialize(bytes).map_err(unreadable)?,
            metadata: header
                .metadata()
                .iter()
                .flatten()
                .map(|(key, text)| (key.clone(), text.clone()))
                .collect(),
        })
    }

    pub fn names(&self) -> Vec<&str> {
        self.tensors.names()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// The shape of the tensor `name`, if there is one.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.tensor(name).ok().map(|tensor| tensor.shape().to_vec())
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'a>> {
        let tensor = self.tensors.tensor(name);
        tensor.map_err(|_| Error::usage(format!("there is no tensor `{name}`: add or rename it")))
    }

    /// The tensor `name` of D dimensions, f32 or f64.
    pub fn values<const D: usize>(&self, name: &str) -> Result<([usize; D], Values)> {
        let tensor = self.tensor(name)?;
        let shape = <[usize; D]>::try_from(tensor.shape()).map_err(|_| {
            Error::usage(format!(
                "tensor `{name}` has shape {:?}: it must have {D} dimensions",
                tensor.shape()
            ))
        })?;
        let values = match tensor.dtype() {
            Dtype::F32 => Values::F32(from_bytes(tensor.data(), f32::from_le_bytes)?),
            Dtype::F64 => Values::F64(from_bytes(tensor.data(), f64::from_le_bytes)?),
            other => return Err(wrong_type(name, other, "F32 or F64")),
        };
        Ok((shape, values))
    }

    /// The tensor `name` of any shape: f32, or f16 or bf16 widened to it.
    pub fn widened(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let data = tensor.data();
        match tensor.dtype() {
            Dtype::F32 => from_bytes(data, f32::from_le_bytes),
            Dtype::F16 => from_bytes(data, |bytes| F16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => from_bytes(data, |bytes| Bf16::from_le_bytes(bytes).to_f32()),
            other => Err(wrong_type(name, other, "F32, F16 or BF16")),
        }
    }

    /// The vector `name` of small numbers, exact in f32: integers of one byte, f32 or f64.
    pub fn small(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let data = tensor.data();
        match tensor.dtype() {
            Dtype::I8 => Ok(data.iter().map(|&byte| f32::from(byte as i8)).collect()),
            Dtype::F32 => from_bytes(data, f32::from_le_bytes),
            Dtype::F64 => from_bytes(data, |bytes| f64::from_le_bytes(bytes) as f32),
            other => Err(wrong_type(name, other, "I8, F32 or F64")),
        }
    }

    /// The vector `name` of indices: integers of four or eight bytes, not negative, below 2³² − 1.
    pub fn indices(&self, name: &str) -> Result<Vec<u32>> {
        let tensor = self.tensor(name)?;
        let data = tensor.data();
        let wide: Vec<i64> = match tensor.dtype() {
            Dtype::U32 => from_bytes(data, |bytes| i64::from(u32::from_le_bytes(bytes)))?,
            Dtype::I32 => from_bytes(data, |bytes| i64::from(i32::from_le_bytes(bytes)))?,
            Dtype::I64 | Dtype::U64 => from_bytes(data, i64::from_le_bytes)?,
            other => return Err(wrong_type(name, other, "U32, I32 or I64")),
        };
        let narrow = |(at, value): (usize, i64)| {
            let index = u32::try_from(value).ok().filter(|&index| index != u32::MAX);
            index.ok_or_else(|| Error::usage(format!("tensor `{name}` has {value} at {at}: not an index")))
        };
        wide.into_iter().enumerate().map(narrow).collect()
    }

    /// The bytes of the tensor `name`, whatever they mean.
    pub fn bytes(&self, name: &str) -> Result<&'a [u8]> {
        Ok(self.tensor(name)?.data())
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>> {
        let parse = |text: &str| {
            let number = text.trim().parse();
            number.map_err(|_| Error::usage(format!("the metadata's `{key}` is {text:?}: it must be a number")))
        };
        self.text(key).map(parse).transpose()
    }
}

fn wrong_type(name: &str, found: Dtype, wanted: &str) -> Error {
    Error::usage(format!("tensor `{name}` is of type {found}: convert it to {wanted}"))
}

/// The format checked that the length is a multiple of the size.
fn from_bytes<T, const SIZE: usize>(bytes: &[u8], value: impl Fn([u8; SIZE]) -> T) -> Result<Vec<T>> {
    let (values, _) = bytes.as_chunks();
    let mut all = Vec::new();
    super::reserve(&mut all, values.len()).map_err(Error::usage)?;
    all.extend(values.iter().map(|&bytes| value(bytes)));
    Ok(all)
}

/// A tensor to write.
pub struct Tensor<'a> {
    pub name: &'a str,
    pub shape: Vec<usize>,
    pub values: Slice<'a>,
}

impl<'a> Tensor<'a> {
    pub fn new(name: &'a str, shape: &[usize], values: Slice<'a>) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            values,
        }
    }
}

/// The values of a tensor to write, in C order.
#[derive(Clone, Copy)]
pub enum Slice<'a> {
    /// Bytes of any type
    Raw(Dtype, &'a [u8]),
    U32(&'a [u32]),
    F16(&'a [F16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl<'a> Slice<'a> {
    /// Bytes that mean nothing to anybody else.
    pub fn bytes_of(bytes: &'a [u8]) -> Self {
        Self::Raw(Dtype::U8, bytes)
    }

    fn dtype(&self) -> String {
        let name = match self {
            Self::Raw(dtype, _) => return dtype.to_string(),
            Self::U32(_) => "U32",
            Self::F16(_) => "F16",
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
        };
        name.to_owned()
    }

    fn bytes(&self) -> usize {
        match *self {
            Self::Raw(_, v) => v.len(),
            Self::U32(v) => size_of_val(v),
            Self::F16(v) => size_of_val(v),
            Self::F32(v) => size_of_val(v),
            Self::F64(v) => size_of_val(v),
        }
    }
}

/// A file with some tensors and some metadata replaced or added; everything else is copied as it is.
///
/// # Errors
/// If `bytes` are no safetensors file.
pub fn amended(bytes: &[u8], tensors: &[Tensor<'_>], metadata: &BTreeMap<&str, String>) -> Result<Vec<u8>> {
    let old = TensorFile::parse(bytes)?;
    let mut texts: BTreeMap<&str, String> = old
        .metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    texts.extend(metadata.iter().map(|(key, value)| (*key, value.clone())));
    let mut names = old.names();
    names.retain(|name| !tensors.iter().any(|tensor| tensor.name == *name));
    names.sort_unstable();
    let mut all = Vec::new();
    for name in names {
        let tensor = old.tensor(name)?;
        all.push(Tensor::new(
            name,
            tensor.shape(),
            Slice::Raw(tensor.dtype(), tensor.data()),
        ));
    }
    all.extend(
        tensors
            .iter()
            .map(|tensor| Tensor::new(tensor.name, &tensor.shape, tensor.values)),
    );
    let mut out = Vec::new();
    write(&mut out, &all, &texts).expect("a vector takes everything");
    Ok(out)
}

/// The header's length, the header as JSON, the tensors in the given order: put the wider types first, and every
/// tensor is aligned. Written here and not by the crate, whose metadata come in random order.
pub fn write(out: &mut dyn Write, tensors: &[Tensor<'_>], metadata: &BTreeMap<&str, String>) -> std::io::Result<()> {
    let entry = |tensor: &Tensor<'_>| Entry {
        name: tensor.name.to_owned(),
        dtype: tensor.values.dtype(),
        shape: tensor.shape.clone(),
        bytes: tensor.values.bytes(),
    };
    write_header(out, tensors.iter().map(entry), metadata)?;
    for tensor in tensors {
        match tensor.values {
            Slice::Raw(_, v) => out.write_all(v)?,
            Slice::U32(v) => write_values(out, v, |v| v.to_le_bytes())?,
            Slice::F16(v) => write_values(out, v, |v| v.to_le_bytes())?,
            Slice::F32(v) => write_values(out, v, |v| v.to_le_bytes())?,
            Slice::F64(v) => write_values(out, v, |v| v.to_le_bytes())?,
        }
    }
    Ok(())
}

/// What the header says of a tensor.
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    bytes: usize,
}

fn write_header(
    out: &mut dyn Write,
    entries: impl Iterator<Item = Entry>,
    metadata: &BTreeMap<&str, String>,
) -> std::io::Result<()> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), serde_json::json!(metadata));
    let mut end = 0;
    for Entry {
        name,
        dtype,
        shape,
        bytes,
    } in entries
    {
        let start = end;
        end += bytes;
        let entry = serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        header.insert(name, entry);
    }
    let mut header = serde_json::Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)
}

/// A tensor of weights to write whose values are not there yet.
pub struct Awaited<'a> {
    pub name: &'a str,
    pub shape: &'a [usize],
    /// Stored in half precision; else in single
    pub f16: bool,
}

/// Writes tensors whose values are asked for one after the other, so that one is in memory at a time. `path` stands for the file in
/// messages.
///
/// # Errors
/// What `values` says; [`Error::Usage`] for a value too large for f16; [`Error::Io`].
pub fn write_streamed(
    out: &mut dyn Write,
    path: &Path,
    tensors: &[Awaited<'_>],
    metadata: &BTreeMap<&str, String>,
    mut values: impl FnMut(usize) -> Result<Vec<f32>>,
) -> Result<()> {
    let failed = |e| Error::io(path, "write", e);
    let entry = |tensor: &Awaited<'_>| Entry {
        name: tensor.name.to_owned(),
        dtype: if tensor.f16 { "F16" } else { "F32" }.to_owned(),
        shape: tensor.shape.to_vec(),
        bytes: tensor.shape.iter().product::<usize>() * if tensor.f16 { 2 } else { 4 },
    };
    write_header(out, tensors.iter().map(entry), metadata).map_err(failed)?;
    for (at, tensor) in tensors.iter().enumerate() {
        let values = values(at)?;
        assert_eq!(values.len(), tensor.shape.iter().product::<usize>(), "{}", tensor.name);
        let narrow = |value: f32| F16::from_f32(value);
        if !tensor.f16 {
            write_values(out, &values, f32::to_le_bytes).map_err(failed)?;
        } else if let Some(value) = values.iter().find(|&&value| !narrow(value).is_finite()) {
            let name = super::quoted(tensor.name);
            let reason = format!("tensor {name} holds {value}, too large for f16: convert to f32");
            return Err(Error::usage(reason));
        } else {
            write_values(out, &values, |value| narrow(value).to_le_bytes()).map_err(failed)?;
        }
    }
    Ok(())
}

fn write_values<T: Copy, const SIZE: usize>(
    out: &mut dyn Write,
    values: &[T],
    to_bytes: impl Fn(T) -> [u8; SIZE],
) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(SIZE << 13);
    for chunk in values.chunks(1 << 13) {
        buffer.clear();
        chunk
            .iter()
            .for_each(|&value| buffer.extend_from_slice(&to_bytes(value)));
        out.write_all(&buffer)?;
    }
    Ok(())
}

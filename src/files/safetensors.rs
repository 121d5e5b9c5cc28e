//! Writing safetensors files. Equal contents give equal bytes.

use std::collections::BTreeMap;
use std::io::Write;

use half::f16;

/// One tensor of a file.
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

/// The values of a tensor, in C order.
#[derive(Clone, Copy)]
pub enum Slice<'a> {
    F16(&'a [f16]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl Slice<'_> {
    fn dtype(&self) -> &'static str {
        match self {
            Self::F16(_) => "F16",
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
        }
    }

    fn bytes(&self) -> usize {
        match *self {
            Self::F16(v) => size_of_val(v),
            Self::F32(v) => size_of_val(v),
            Self::F64(v) => size_of_val(v),
        }
    }
}

/// The header's length, the header as JSON, the tensors in the given order: put the wider types first, and every
/// tensor is aligned. Written here and not by the crate, whose metadata come in random order.
pub fn write(out: &mut dyn Write, tensors: &[Tensor<'_>], metadata: &BTreeMap<&str, String>) -> std::io::Result<()> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), serde_json::json!(metadata));
    let mut end = 0;
    for Tensor { name, shape, values } in tensors {
        let start = end;
        end += values.bytes();
        let entry = serde_json::json!({ "dtype": values.dtype(), "shape": shape, "data_offsets": [start, end] });
        header.insert((*name).into(), entry);
    }
    let mut header = serde_json::Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in tensors {
        match tensor.values {
            Slice::F16(v) => write_values(out, v, |v| v.to_le_bytes())?,
            Slice::F32(v) => write_values(out, v, |v| v.to_le_bytes())?,
            Slice::F64(v) => write_values(out, v, |v| v.to_le_bytes())?,
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

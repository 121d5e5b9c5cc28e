//! NumPy's `.npy` arrays: versions 1 to 3, both byte orders, C and Fortran order.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use super::array::{ArrayStream, unreadable};
use super::half::F16;
use super::npy_header::{Dtype, Header};
use super::{AtomicFile, open, reserve, write_atomically};
use crate::{Error, Result};

/// An array in C order, whatever order the file had.
#[derive(Clone, Debug, PartialEq)]
pub struct NpyArray {
    pub shape: Vec<usize>,
    pub data: NpyData,
}

/// The values of an array; float16 is widened to float32, the wider integers to 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub enum NpyData {
    Bool(Vec<bool>),
    U8(Vec<u8>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl NpyArray {
    /// The values as f32: borrowed if they are f32, rounded otherwise; nothing is rescaled.
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        match &self.data {
            NpyData::Bool(values) => values.iter().map(|&v| f32::from(u8::from(v))).collect(),
            NpyData::U8(values) => values.iter().map(|&v| f32::from(v)).collect(),
            NpyData::I64(values) => values.iter().map(|&v| v as f32).collect(),
            NpyData::F32(values) => Cow::Borrowed(values),
            NpyData::F64(values) => values.iter().map(|&v| v as f32).collect(),
        }
    }

    /// The values as f64: borrowed if they are f64; nothing is rescaled.
    pub fn to_f64(&self) -> Cow<'_, [f64]> {
        match &self.data {
            NpyData::Bool(values) => values.iter().map(|&v| f64::from(u8::from(v))).collect(),
            NpyData::U8(values) => values.iter().map(|&v| f64::from(v)).collect(),
            NpyData::I64(values) => values.iter().map(|&v| v as f64).collect(),
            NpyData::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
            NpyData::F64(values) => Cow::Borrowed(values),
        }
    }
}

/// Reads the `.npy` file at `path`.
pub fn read(path: impl AsRef<Path>) -> Result<NpyArray> {
    let path = path.as_ref();
    let array = stream(path)?.read();
    array.map_err(|reason| Error::bad_file(path, reason))
}

/// The `.npy` file at `path`, its values still to be read.
pub(super) fn stream(path: &Path) -> Result<ArrayStream<BufReader<File>>> {
    let (mut file, length) = open(path)?;
    Header::read(&mut file)
        .and_then(|header| ArrayStream::new(header, file, Some(length)))
        .map_err(|reason| Error::bad_file(path, reason))
}

/// Reads `count` values; the error is the reason in words.
pub(super) fn read_values(reader: &mut impl Read, dtype: Dtype, count: usize) -> Result<NpyData, String> {
    let big = dtype.big_endian;
    macro_rules! values {
        ($type:ty as $variant:ident, $widen:expr) => {
            NpyData::$variant(if big {
                decoded(reader, count, |bytes| $widen(<$type>::from_be_bytes(bytes)))?
            } else {
                decoded(reader, count, |bytes| $widen(<$type>::from_le_bytes(bytes)))?
            })
        };
    }
    Ok(match (dtype.kind, dtype.size) {
        ('b', 1) => NpyData::Bool(decoded(reader, count, |[byte]| byte != 0)?),
        ('u', 1) => NpyData::U8(decoded(reader, count, |[byte]| byte)?),
        ('i', 1) => values!(i8 as I64, i64::from),
        ('i', 2) => values!(i16 as I64, i64::from),
        ('u', 2) => values!(u16 as I64, i64::from),
        ('i', 4) => values!(i32 as I64, i64::from),
        ('u', 4) => values!(u32 as I64, i64::from),
        ('i', 8) => values!(i64 as I64, std::convert::identity),
        ('f', 2) => values!(F16 as F32, F16::to_f32),
        ('f', 4) => values!(f32 as F32, std::convert::identity),
        ('f', 8) => values!(f64 as F64, std::convert::identity),
        (kind, size) => return Err(format!("holds values of the unknown type {kind}{size}")),
    })
}

/// Decodes `count` values of `N` bytes, a block at a time, so that no second copy of the array exists.
fn decoded<const N: usize, T>(
    reader: &mut impl Read,
    count: usize,
    decode: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, String> {
    const BLOCK: usize = 1 << 16;
    let mut values = Vec::new();
    reserve(&mut values, count)?;
    let mut block = vec![0; BLOCK.min(count.saturating_mul(N))];
    while values.len() < count {
        let bytes = &mut block[..BLOCK.min((count - values.len()) * N)];
        reader.read_exact(bytes).map_err(|e| unreadable(&e))?;
        let (whole, _) = bytes.as_chunks::<N>();
        values.extend(whole.iter().map(|&bytes| decode(bytes)));
    }
    Ok(values)
}

impl NpyData {
    /// Reorders the values of a Fortran-ordered array.
    pub(super) fn into_c_order(self, shape: &[usize]) -> Result<Self, String> {
        Ok(match self {
            Self::Bool(values) => Self::Bool(c_order(shape, &values)?),
            Self::U8(values) => Self::U8(c_order(shape, &values)?),
            Self::I64(values) => Self::I64(c_order(shape, &values)?),
            Self::F32(values) => Self::F32(c_order(shape, &values)?),
            Self::F64(values) => Self::F64(c_order(shape, &values)?),
        })
    }
}

/// Visits Fortran-ordered `values` with the last axis running fastest.
fn c_order<T: Copy>(shape: &[usize], values: &[T]) -> Result<Vec<T>, String> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &side in shape {
        strides.push(stride);
        stride *= side;
    }
    let mut index = vec![0; shape.len()];
    let mut position = 0;
    let mut ordered = Vec::new();
    reserve(&mut ordered, values.len())?;
    for _ in 0..values.len() {
        ordered.push(values[position]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            position += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            position -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    Ok(ordered)
}

/// A type of value that can be written: f32, f64 and u8.
pub trait Element: Copy {
    /// NumPy's name of the type, little-endian.
    const DESCR: &'static str;
    fn append_to(self, bytes: &mut Vec<u8>);
}

macro_rules! element {
    ($type:ty, $descr:literal) => {
        impl Element for $type {
            const DESCR: &'static str = $descr;
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}
element!(f32, "<f4");
element!(f64, "<f8");
element!(u8, "|u1");

/// Writes `data` as a C-ordered `.npy` file, byte for byte as NumPy's `save` does.
///
/// Panics if `shape` and the length of `data` disagree.
pub fn write<T: Element>(path: impl AsRef<Path>, shape: &[usize], data: &[T]) -> Result<()> {
    let path = path.as_ref();
    assert_eq!(shape.iter().product::<usize>(), data.len(), "shape and data must agree");
    write_atomically(path, |w| {
        let mut put = |bytes: &[u8]| w.write_all(bytes).map_err(|e| Error::io(path, "write", e));
        put(&Header::bytes(T::DESCR, shape))?;
        in_blocks(data, put)
    })
}

/// Passes the bytes of values on, a block at a time.
fn in_blocks<T: Element>(data: &[T], mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut block = Vec::new();
    for values in data.chunks(1 << 14) {
        block.clear();
        values.iter().for_each(|value| value.append_to(&mut block));
        put(&block)?;
    }
    Ok(())
}

/// An `.npy` file that is written part by part, and appears when all of it is there.
#[derive(Debug)]
pub struct NpyWriter<T> {
    file: AtomicFile,
    /// Values that are still to come
    left: usize,
    of: PhantomData<T>,
}

impl<T: Element> NpyWriter<T> {
    /// # Errors
    /// If the file cannot be made.
    pub fn begin(path: &Path, shape: &[usize]) -> Result<Self> {
        let mut file = AtomicFile::begin(path)?;
        file.append(&Header::bytes(T::DESCR, shape))?;
        Ok(Self {
            file,
            left: shape.iter().product(),
            of: PhantomData,
        })
    }

    /// # Errors
    /// If the disk takes no more.
    ///
    /// # Panics
    /// If that is more than the array's shape holds.
    pub fn append(&mut self, data: &[T]) -> Result<()> {
        self.left = self.left.checked_sub(data.len()).expect("the array has its shape");
        in_blocks(data, |bytes| self.file.append(bytes))
    }

    /// # Errors
    /// If the disk takes no more.
    ///
    /// # Panics
    /// If values are missing.
    pub fn finish(self) -> Result<()> {
        assert_eq!(self.left, 0, "the array has its shape");
        self.file.finish()
    }
}

//! The idx format of MNIST and its relatives (images and labels as unsigned bytes), plain or gzipped.

use std::io::{BufRead, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::{MAX_INFLATED, MAX_INFLATION, open};
use crate::{Error, Result};

/// An array of bytes, row-major: images are `[B, H, W]`, labels `[B]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdxArray {
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

const UNSIGNED_BYTE: u8 = 0x08;

/// Reads an idx file; whether it is gzipped is told from its content, not its name.
pub fn read(path: impl AsRef<Path>) -> Result<IdxArray> {
    let path = path.as_ref();
    let (mut file, length) = open(path)?;
    let start = file.fill_buf().map_err(|e| Error::io(path, "read", e))?;
    let array = if start.starts_with(&[0x1f, 0x8b]) {
        let most = length.saturating_mul(MAX_INFLATION).min(MAX_INFLATED);
        read_array(&mut MultiGzDecoder::new(file), most)
    } else {
        read_array(&mut file, length)
    };
    array.map_err(|reason| Error::bad_file(path, reason))
}

/// Reads a stream that can hold at most `most` bytes; the error is the reason in words.
fn read_array(reader: &mut impl Read, most: u64) -> Result<IdxArray, String> {
    let mut start = [0; 4];
    fill(reader, &mut start)?;
    let [zero_a, zero_b, kind, dimensions] = start;
    if (zero_a, zero_b) != (0, 0) || dimensions == 0 {
        return Err("is not an idx file (its first bytes are not 0, 0, type, dimensions)".into());
    }
    if kind != UNSIGNED_BYTE {
        return Err(format!(
            "is an idx file of type {kind:#04x}; only unsigned bytes (0x08) are read"
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let mut side = [0; 4];
        fill(reader, &mut side)?;
        shape.push(u32::from_be_bytes(side) as usize);
    }
    let count = shape
        .iter()
        .try_fold(1u64, |product, &side| product.checked_mul(side as u64))
        .filter(|&count| count <= most)
        .ok_or_else(|| format!("announces {shape:?} values, more than the file can hold"))?;
    // One byte more than announced tells a file that is too long from one that fits.
    let mut data = Vec::new();
    reader
        .take(count + 1)
        .read_to_end(&mut data)
        .map_err(|e| format!("is damaged: {e}"))?;
    if data.len() as u64 != count {
        let verdict = if (data.len() as u64) < count {
            "truncated"
        } else {
            "too long"
        };
        return Err(format!("is {verdict}: its idx header announces {shape:?} values"));
    }
    Ok(IdxArray { shape, data })
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "is truncated inside the idx header".into(),
        _ => format!("is damaged: {error}"),
    })
}

//! The idx format of MNIST and its relatives (images and labels as unsigned bytes), plain or gzipped.

use std::io::Read;

use super::npy_header::{Dtype, Header, shape_text};

const UNSIGNED_BYTE: u8 = 0x08;

/// Reads up to the first value of a stream that can hold at most `most` bytes; the error is the reason in words.
pub(super) fn read_header(reader: &mut impl Read, most: u64) -> Result<Header, String> {
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
    let header = Header {
        dtype: Dtype::BYTE,
        fortran_order: false,
        length: start.len() + 4 * shape.len(),
        shape,
    };
    match header.count() {
        Ok(count) if count as u64 <= most => Ok(header),
        _ => Err(format!(
            "announces {} values, more than the file can hold",
            shape_text(&header.shape)
        )),
    }
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "is truncated inside the idx header".into(),
        _ => format!("is damaged: {error}"),
    })
}

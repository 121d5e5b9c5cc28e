//! An array that is read from front to back, and only as far as it is asked for: npy, a member of an npz, idx.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use zip::read::ZipFile;

use super::npy::{NpyArray, NpyData, read_values};
use super::npy_header::{Header, shape_text};

/// A stream in which values that nobody asked for can be passed over.
pub(super) trait Skip: Read + Sized {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match io::copy(&mut self.take(bytes), &mut io::sink())? {
            skipped if skipped == bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Skip for BufReader<File> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        // A file has fewer than 2⁶³ bytes, and what is skipped was compared with its length.
        self.seek_relative(bytes as i64)
    }
}
impl Skip for &[u8] {}
impl<R: BufRead> Skip for MultiGzDecoder<R> {}
impl<R: Read> Skip for ZipFile<'_, R> {}

/// An array whose header is read and whose values are still to come. Errors are reasons in words.
#[derive(Debug)]
pub(super) struct ArrayStream<R> {
    pub header: Header,
    reader: R,
}

impl<R: Skip> ArrayStream<R> {
    /// `length` is that of the whole stream, where it is known: it is compared with the header before anything is
    /// allocated.
    pub fn new(header: Header, reader: R, length: Option<u64>) -> Result<Self, String> {
        let expected = header.length as u64 + (header.count()? * header.dtype.size) as u64;
        match length.filter(|&length| length != expected) {
            None => Ok(Self { header, reader }),
            Some(length) => {
                let shape = shape_text(&header.shape);
                Err(format!(
                    "is {length} bytes long, but the {shape} array its header announces needs {expected}: the file is \
                     damaged, write it again"
                ))
            }
        }
    }

    /// Passes over the next `count` values.
    pub fn skip(&mut self, count: usize) -> Result<(), String> {
        let bytes = count as u64 * self.header.dtype.size as u64;
        self.reader.skip(bytes).map_err(|e| unreadable(&e))
    }

    /// The next `count` values, in the order of the file.
    pub fn values(&mut self, count: usize) -> Result<NpyData, String> {
        read_values(&mut self.reader, self.header.dtype, count)
    }

    /// To be called behind the last value: there must be nothing left, and where the stream has a checksum, it is
    /// compared only here.
    pub fn finish(&mut self) -> Result<(), String> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err("is longer than its header says: the file is damaged, write it again".into()),
            Err(e) => Err(format!("is damaged: {e}")),
        }
    }

    /// The whole array, in C order.
    pub fn read(mut self) -> Result<NpyArray, String> {
        let data = self.values(self.header.count()?)?;
        self.finish()?;
        Ok(NpyArray {
            data: if self.header.fortran_order {
                data.into_c_order(&self.header.shape)?
            } else {
                data
            },
            shape: self.header.shape,
        })
    }
}

/// What a failed read inside the values means.
pub(super) fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "is truncated inside the values".into(),
        _ => format!("is damaged: {error}"),
    }
}

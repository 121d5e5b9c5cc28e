//! Reading the files people bring, and writing files that appear whole or not at all.

mod array;
pub mod atomic;
pub mod half;
mod idx;
pub mod images;
mod layout;
pub mod npy;
mod npy_header;
mod npz;
mod pictures;
pub mod safetensors;
pub(crate) mod torch;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::{Error, Result};

pub use atomic::{AtomicFile, is_temporary, remove_leftovers, write_atomically};
pub use images::{LoadOptions, ValueRange, load_images};
pub use npy::{NpyArray, NpyData};
pub use npz::split_name;
pub use pictures::in_folder as pictures_in;

/// Deflate cannot expand its input by more than this, so a greater claim is a lie.
pub(crate) const MAX_INFLATION: u64 = 1032;
/// The most a compressed file may unpack to, against archives made to fill the memory.
pub(crate) const MAX_INFLATED: u64 = 4 << 30;

/// The bytes of a file, mapped into memory.
///
/// # Errors
/// If there is no such file, or it is empty or not a regular one.
pub fn map(path: &Path) -> Result<memmap2::Mmap> {
    let (reader, _) = open(path)?;
    // SAFETY: the mapping is read-only. Another process that truncates the file meanwhile can end ours, as it can for
    // every program that maps its inputs; no file is mapped for longer than it takes to read it.
    unsafe { memmap2::Mmap::map(reader.get_ref()) }.map_err(|e| Error::io(path, "read", e))
}

/// Opens a regular file and tells its length, against which every reader checks what a header claims.
fn open(path: &Path) -> Result<(BufReader<File>, u64)> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let metadata = file.metadata().map_err(|e| Error::io(path, "read", e))?;
    if !metadata.is_file() {
        return Err(Error::bad_file(path, "is not a regular file"));
    }
    Ok((BufReader::new(file), metadata.len()))
}

/// A name from the file, fit for a message: on one line and not too long.
pub(crate) fn quoted(name: &str) -> String {
    const LONGEST: usize = 80;
    let mut text: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    format!("`{text}`")
}

/// Makes room for `additional` elements or returns an error: a length that a file claims must not abort the program.
fn reserve<T>(values: &mut Vec<T>, additional: usize) -> Result<(), String> {
    values
        .try_reserve(additional)
        .map_err(|_| format!("holds {additional} values, which do not fit into memory"))
}

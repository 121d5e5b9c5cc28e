//! Reading the files people bring, and writing files that appear whole or not at all.

mod array;
pub mod atomic;
pub mod bundled;
mod fit;
pub mod half;
pub(crate) mod hash;
mod idx;
pub mod images;
mod layout;
pub mod npy;
mod npy_header;
mod npz;
mod pictures;
pub mod safetensors;
mod sha256;
pub(crate) mod torch;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::{Error, Result};

pub use atomic::{AtomicFile, Claim, is_temporary, remove_leftovers, write_atomically};
pub use fit::{Fit, Size};
pub use images::{LoadOptions, Loaded, ValueRange, load_images, load_named};
pub use npy::{NpyArray, NpyData};
pub use npz::split_name;
pub use pictures::{in_folder as pictures_in, sides};
pub use sha256::sha256_of;

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
    // Looked at first: to open a pipe is to wait for whoever writes to it.
    let regular = std::fs::metadata(path)
        .map_err(|e| Error::io(path, "read", e))?
        .is_file();
    if !regular {
        return Err(Error::bad_file(path, "is not a regular file"));
    }
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let metadata = file.metadata().map_err(|e| Error::io(path, "read", e))?;
    Ok((BufReader::new(file), metadata.len()))
}

/// A text file, whole.
///
/// # Errors
/// If there is no such file, or it is not a regular one, not UTF-8 or larger than any text that we read.
pub fn read_text(path: &Path) -> Result<String> {
    use std::io::Read;
    const MOST: u64 = 1 << 30;
    let (reader, length) = open(path)?;
    if length > MOST {
        return Err(Error::bad_file(path, "is too large for what it should be"));
    }
    let mut text = String::new();
    match reader.take(MOST).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(Error::bad_file(path, "is not a text file")),
        Err(e) => Err(Error::io(path, "read", e)),
    }
}

/// Removes a file, which may not be there.
///
/// # Errors
/// If it is there and cannot be removed.
#[cfg(feature = "cli")]
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, "remove", e)),
        _ => Ok(()),
    }
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

/// A name from a file as it may stand in a table or a picture's name: without newlines and what else commands a terminal.
pub fn on_one_line(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Makes room for `additional` elements or returns an error: a length that a file claims must not abort the program.
fn reserve<T>(values: &mut Vec<T>, additional: usize) -> Result<(), String> {
    values
        .try_reserve(additional)
        .map_err(|_| format!("holds {additional} values, which do not fit into memory"))
}

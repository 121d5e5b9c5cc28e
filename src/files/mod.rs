//! Reading the files people bring, and writing files that appear whole or not at all.

pub mod atomic;
pub mod npy;
mod npy_header;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::{Error, Result};

pub use atomic::write_atomically;
pub use npy::{NpyArray, NpyData};

/// Opens a regular file and tells its length, against which every reader checks what a header claims.
fn open(path: &Path) -> Result<(BufReader<File>, u64)> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let metadata = file.metadata().map_err(|e| Error::io(path, "read", e))?;
    if !metadata.is_file() {
        return Err(Error::bad_file(path, "is not a regular file"));
    }
    Ok((BufReader::new(file), metadata.len()))
}

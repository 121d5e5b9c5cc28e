//! The file readers, against files NumPy and Pillow wrote (`tests/fixtures/{arrays,pictures}/make.py`) and against
//! damaged ones.

mod hostile;
mod images;
#[path = "../hostile/memory.rs"]
mod memory;
mod npy;
mod pictures;

use std::io::Write;
use std::path::PathBuf;

use flate2::{Compression, write::GzEncoder};

fn fixture(name: &str) -> PathBuf {
    let folder = if name.ends_with(".jpg") { "pictures" } else { "arrays" };
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", folder, name]
        .iter()
        .collect()
}

/// The error's line, after checking that it is one line that names the file and means exit code 3.
fn complaint<T: std::fmt::Debug>(result: qcs::Result<T>, path: &std::path::Path) -> String {
    let error = result.unwrap_err();
    let line = error.to_string();
    assert!(line.contains(path.to_str().unwrap()), "{line}");
    assert!(!line.contains('\n'), "{line}");
    assert_eq!(error.exit_code(), 3, "{line}");
    line
}

fn idx_bytes(shape: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|side| side.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

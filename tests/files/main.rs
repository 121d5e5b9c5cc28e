//! The file readers, against files NumPy wrote (`tests/fixtures/arrays/make.py`) and against damaged ones.

mod hostile;
mod npy;

use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/arrays", name]
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

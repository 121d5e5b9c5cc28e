//! Writing to the terminal without panicking when nobody reads.

use std::io::{ErrorKind, Write};
use std::path::Path;

use qcs::{Error, Result};

/// Prints a result to stdout. A reader that has seen enough (`qcs info | head -1`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::io(Path::new("stdout"), "write", e)),
        _ => Ok(()),
    }
}

/// Prints anything as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::Failed(format!("the result cannot be written as JSON: {e}")))?;
    print(&(text + "\n"))
}

/// Prints a line to stderr; where even that is closed, nobody wants to know.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

//! The files that commands write: one rule for all. None replaces an earlier file unasked, and none its own input.

use std::path::Path;

use qcs::files::{remove_leftovers, split_name};
use qcs::{Error, Result};

/// Refuses to write `out`, which the flag names, if that would replace a file without `force`, or one of the inputs. What killed
/// commands have left of it goes.
///
/// # Errors
/// [`Error::Usage`]; a place where nothing can be written shows itself when it is written to.
pub fn check(flag: &str, out: &Path, force: bool, inputs: &[&Path]) -> Result<()> {
    let refuse = |reason: &str| Err(Error::usage(format!("{flag} {} {reason}", out.display())));
    if out.is_dir() {
        return refuse("is a folder: name a file");
    }
    // A device or a pipe takes what it is given.
    if !out.is_file() {
        remove_leftovers(out);
        return Ok(());
    }
    if inputs.iter().any(|input| holds(input, out)) {
        return refuse("is an input of the command: choose another file");
    }
    if !force {
        return refuse("exists: choose another file, or --force to replace it");
    }
    remove_leftovers(out);
    Ok(())
}

/// Whether an input is the file, or a folder with the file in it.
fn holds(input: &Path, out: &Path) -> bool {
    let (input, _) = split_name(input);
    match (input.canonicalize(), out.canonicalize()) {
        (Ok(input), Ok(out)) => out.starts_with(input),
        _ => false,
    }
}

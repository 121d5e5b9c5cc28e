//! The files that commands write: one rule for all. None replaces an earlier file unasked, and none its own input.

use std::path::Path;

use qcs::files::{Claim, remove_leftovers, split_name};
use qcs::{Error, Result};

/// Claims `out`, which the flag names, for this command: it is refused if that would replace a file without `force`, or one of the
/// inputs, and while another command has claimed it. What killed commands have left of it goes.
///
/// # Errors
/// [`Error::Usage`], and [`Error::Io`] of a place where nothing can be written.
#[must_use = "the file is claimed for as long as this lives"]
pub fn claim(flag: &str, out: &Path, force: bool, inputs: &[&Path]) -> Result<Option<Claim>> {
    let refuse = |reason: &str| Err(Error::usage(format!("{flag} {} {reason}", out.display())));
    if out.is_dir() {
        return refuse("is a folder: name a file");
    }
    // A device or a pipe takes what it is given.
    if out.exists() && !out.is_file() {
        return Ok(None);
    }
    remove_leftovers(out);
    let claim = Claim::of(out)?;
    if !out.is_file() {
        return Ok(Some(claim));
    }
    if inputs.iter().any(|input| holds(input, out)) {
        return refuse("is an input of the command: choose another file");
    }
    if !force {
        return refuse("exists: choose another file, or --force to replace it");
    }
    Ok(Some(claim))
}

/// Whether an input is the file, or a folder with the file in it.
fn holds(input: &Path, out: &Path) -> bool {
    let (input, _) = split_name(input);
    match (input.canonicalize(), out.canonicalize()) {
        (Ok(input), Ok(out)) => out.starts_with(input),
        _ => false,
    }
}

//! One run at a time in a folder.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::{Error, Result};

/// Holds a folder for as long as it lives; the system lets go of it when the process ends, however it ends.
///
/// What is locked is the folder itself, so that no file has to lie in it. Where the system locks no folders, nothing is held.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not used")] Option<File>);

impl Lock {
    /// Locks a folder that exists.
    ///
    /// # Errors
    /// [`Error::Usage`] if another process holds it.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let Ok(file) = File::open(folder) else {
            return Ok(Self(None));
        };
        match file.try_lock() {
            Ok(()) => Ok(Self(Some(file))),
            Err(TryLockError::WouldBlock) => Err(Error::setting(
                "out",
                format!(
                    "{}: another qcs is at work in this folder: wait for it, or choose another one",
                    folder.display()
                ),
            )),
            Err(TryLockError::Error(_)) => Ok(Self(None)),
        }
    }
}

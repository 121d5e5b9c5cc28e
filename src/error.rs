//! The one error type of the library: each variant is one kind of exit code, each message one line.

use std::path::{Path, PathBuf};

/// What went wrong, in one line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument or a setting makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A setting is out of its range: which one, and what it must be.
    #[error("{name} {reason}")]
    Setting { name: &'static str, reason: String },
    /// A file was read, but what it holds cannot be used.
    #[error("{}: {reason}", path.display())]
    BadFile { path: PathBuf, reason: String },
    /// The operating system refused to read or write.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    /// The run itself failed.
    #[error("{0}")]
    Failed(String),
    /// Some states became non-finite; the others are complete and saved.
    #[error("{0}")]
    Diverged(String),
    /// The device cannot be used.
    #[error("{0}")]
    Device(String),
    /// Ctrl-C or SIGTERM ended the run early; its state is saved.
    #[error("{0}")]
    Interrupted(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// `name` is the setting's field, as a configuration spells it; `reason` completes the sentence.
    pub fn setting(name: &'static str, reason: impl Into<String>) -> Self {
        Self::Setting {
            name,
            reason: reason.into(),
        }
    }

    pub fn bad_file(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::BadFile {
            path: path.as_ref().to_path_buf(),
            reason: reason.into(),
        }
    }

    /// `action` completes the sentence "cannot …", for example "read" or "write".
    pub fn io(path: impl AsRef<Path>, action: &'static str, source: std::io::Error) -> Self {
        Self::Io {
            path: path.as_ref().to_path_buf(),
            action,
            source,
        }
    }

    /// The process's exit code: 1 the run failed, 2 usage, 3 bad input file, 4 some states diverged, 5 device, 130
    /// interrupted (as a shell reports Ctrl-C).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Io { action, .. } => {
                if *action == "read" {
                    3
                } else {
                    1
                }
            }
            Self::Usage(_) | Self::Setting { .. } => 2,
            Self::BadFile { .. } => 3,
            Self::Diverged(_) => 4,
            Self::Device(_) => 5,
            Self::Interrupted(_) => 130,
        }
    }
}

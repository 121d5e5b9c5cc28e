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
    /// Any of the others, and what would help.
    #[error("{error}: {remedy}")]
    Remediable { error: Box<Error>, remedy: Remedy },
    /// Ctrl-C or SIGTERM ended the run early; its state is saved.
    #[error("{0}")]
    Interrupted(String),
}

/// Whether so much memory can be had, for whom the library underneath would rather end the program than say so.
///
/// # Errors
/// [`Error::Failed`], in one line.
pub(crate) fn room_for(bytes: u128, what: &str) -> Result<()> {
    let mut room = Vec::<u8>::new();
    let there = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    if there {
        return Ok(());
    }
    let gib = bytes as f64 / f64::from(1 << 30);
    Err(Error::Failed(format!(
        "{what} needs {gib:.1} GiB of memory, more than there is"
    )))
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
            Self::Remediable { error, .. } => error.exit_code(),
        }
    }

    /// The same with what would help.
    pub fn or(self, remedy: Remedy) -> Self {
        Self::Remediable {
            error: Box::new(self),
            remedy,
        }
    }
}

/// What would help. The library says it in its own words; a command line names its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Replace what is there
    Replace,
    /// Write beside what is there
    WriteInto,
    /// Continue what has been begun, or replace it
    ContinueOrReplace,
    /// Continue what has been begun
    Continue,
    /// Compute on the CPU
    Cpu,
    /// Let a batch hold fewer states
    SmallerBatch,
    /// Take a precision that every device has
    OtherPrecision,
    /// Say the shape of the images
    Shape,
    /// Measure the prior's denoising errors
    Calibrate,
    /// Find the kernel that fails on this GPU
    CheckGpu(usize),
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replace => f.write_str("choose another place, or `force` it to be replaced"),
            Self::WriteInto => f.write_str("choose another place, or `force` writing into it"),
            Self::ContinueOrReplace => f.write_str("`resume` it, or `force` it to be replaced"),
            Self::Continue => f.write_str("`resume` it"),
            Self::Cpu => f.write_str("the CPU works"),
            Self::SmallerBatch => f.write_str("take a smaller `batch`, or `auto`"),
            Self::OtherPrecision => f.write_str("take the `precision` fp16 or fp32"),
            Self::Shape => f.write_str("name the images' `shape`, \"C,H,W\""),
            Self::Calibrate => f.write_str("`calibrate` measures them"),
            Self::CheckGpu(number) => write!(f, "check cuda:{number}; the last checkpoint is there to `resume` from"),
        }
    }
}

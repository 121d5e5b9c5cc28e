//! A folder in which CUDA programs find the emulator in place of NVIDIA's libraries, whatever else is installed.
//!
//! A program asks the dynamic loader for one file name after the other, and the loader looks for each in all places before
//! the program tries the next: cudarc asks for `libcublas.so`, which a CUDA toolkit installs, before `libcublas.so.12`. So
//! the folder, to be searched first, has an entry under every name: the emulator where it stands in, and a file that is no
//! library where there is to be none. The loader gives up at such a file instead of searching on.

mod child;

pub use child::{Child, Ran};

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that the emulator stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Driver,
    Blas,
    Solver,
    Nvtx,
}

/// What follows a library's name in the file names that cudarc tries, and in those of CUDA 13.
const SUFFIXES: [&str; 16] = [
    ".so",
    ".so.1",
    ".so.9",
    ".so.10",
    ".so.11",
    ".so.12",
    ".so.13",
    "64.so",
    "64_9.so",
    "64_10.so",
    "64_11.so",
    "64_12.so",
    "64_120_0.so",
    "64_120_8.so",
    "64_128.so",
    "64_128_0.so",
];

impl Library {
    pub const ALL: [Self; 4] = [Self::Driver, Self::Blas, Self::Solver, Self::Nvtx];

    /// Every file name under which a program may ask for it.
    pub fn names(self) -> impl Iterator<Item = String> {
        let stems: &[&str] = match self {
            Self::Driver => &["cuda", "nvcuda"],
            Self::Blas => &["cublas"],
            Self::Solver => &["cusolver"],
            Self::Nvtx => &["nvToolsExt"],
        };
        let named = |stem| SUFFIXES.iter().map(move |suffix| format!("lib{stem}{suffix}"));
        stems.iter().flat_map(named)
    }
}

/// Makes `folder` anew, as one in which `libraries` are the emulator and the others are missing.
///
/// # Errors
/// If the folder cannot be written, or this program was built without the emulator's shared library beside it.
pub fn link(folder: &Path, libraries: &[Library]) -> io::Result<()> {
    let emulator = shared_library()?;
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir_all(folder)?,
    }
    for library in Library::ALL {
        for name in library.names() {
            let entry = folder.join(name);
            if libraries.contains(&library) {
                // A link, not a copy: the loader recognises the file, so that driver and libraries are one.
                std::os::unix::fs::symlink(&emulator, entry)?;
            } else {
                std::fs::write(entry, "In place of a library that is to be missing.\n")?;
            }
        }
    }
    Ok(())
}

/// Has a program look into `folder` before all places where it would look anyway. The loader reads `LD_LIBRARY_PATH` when a
/// process starts, so a program cannot do this to itself.
///
/// # Panics
/// If the folder's name has a colon.
pub fn search_first(command: &mut Command, folder: &Path) {
    let given = command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH");
    let anyway = match given {
        Some((_, path)) => path.map(OsStr::to_owned),
        None => std::env::var_os("LD_LIBRARY_PATH"),
    };
    let mut folders = vec![folder.to_owned()];
    if let Some(anyway) = anyway {
        // An empty part would mean the current folder.
        folders.extend(std::env::split_paths(&anyway).filter(|part| !part.as_os_str().is_empty()));
    }
    let path = std::env::join_paths(folders).expect("no colon in the folder's name");
    command.env("LD_LIBRARY_PATH", path);
}

/// Cargo builds the shared library for every program that depends on this crate and puts it among the program's
/// dependencies: beside a test, below a binary, next to the folder of an example.
///
/// # Errors
/// If it is in none of these places.
pub fn shared_library() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let places = ["", "deps", "../deps"].map(|place| program.with_file_name(place).join("libqcs_emulator.so"));
    let found = places.into_iter().find(|library| library.exists());
    found.ok_or_else(|| {
        let message = format!(
            "libqcs_emulator.so is not among the dependencies of {}",
            program.display()
        );
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

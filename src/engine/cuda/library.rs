//! Libraries that may be missing.
//!
//! Not by cudarc's loader, which knows no name of CUDA 13, opens a library to see whether it is there, closes it and opens
//! it again. Here a library is opened once, under the first name that loads, and kept.

use std::ffi::c_void;

use crate::{Error, Result};

/// A library that is loaded.
pub struct Library {
    stem: &'static str,
    handle: libloading::Library,
}

impl Library {
    /// Opens the first of the library's versions that loads, or the one without a version.
    ///
    /// # Errors
    /// [`Error::Device`] if none does.
    pub fn open(stem: &'static str, versions: &[u32]) -> Result<Self> {
        let versioned = versions.iter().map(|version| {
            if cfg!(windows) {
                format!("{stem}64_{version}.dll")
            } else {
                format!("lib{stem}.so.{version}")
            }
        });
        let names = versioned.chain([libloading::library_filename(stem).to_string_lossy().into_owned()]);
        // SAFETY: NVIDIA's libraries, whose initialisers ask nothing of the program.
        let opened = names
            .into_iter()
            .find_map(|name| unsafe { libloading::Library::new(name) }.ok());
        match opened {
            Some(handle) => Ok(Self { stem, handle }),
            None => Err(Error::Device(format!("lib{stem} was not found or does not load"))),
        }
    }

    /// The function of that name.
    ///
    /// # Errors
    /// [`Error::Device`] if the library has none.
    ///
    /// # Safety
    /// `F` is the type of a pointer to it.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        // SAFETY: the caller's promise.
        let found = unsafe { self.handle.get::<F>(name.as_bytes()) };
        found
            .map(|function| *function)
            .map_err(|_| Error::Device(format!("lib{} has no {name}: it is too old", self.stem)))
    }
}

/// A table of functions of a library, which is opened when the table is first asked for. Types are those of its headers; a
/// status is a number, because a newer library may have one more.
macro_rules! functions {
    ($stem:literal, $versions:expr; $($name:ident: fn($($argument:ty),* $(,)?) = $symbol:literal;)*) => {
        pub struct Functions {
            // The functions live as long as the library.
            _library: $crate::engine::cuda::library::Library,
            $(pub $name: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)*
        }

        impl Functions {
            fn open() -> $crate::Result<Self> {
                let library = $crate::engine::cuda::library::Library::open($stem, &$versions)?;
                // SAFETY: the types are those of the library's headers.
                unsafe {
                    Ok(Self {
                        $($name: library.function($symbol)?,)*
                        _library: library,
                    })
                }
            }

            /// The functions, or what is missing.
            pub fn get() -> $crate::Result<&'static Self> {
                static OPENED: std::sync::OnceLock<Result<Functions, String>> = std::sync::OnceLock::new();
                let opened = OPENED.get_or_init(|| Self::open().map_err(|e| e.to_string()));
                opened.as_ref().map_err(|reason| $crate::Error::Device(reason.clone()))
            }
        }
    };
}
pub(super) use functions;

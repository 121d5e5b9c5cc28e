//! The CUDA engine as a user runs it, on the PTX emulator: the binary finds a `libcuda.so.1` and does not know better.

mod commands;
mod emulated;
mod errors;
mod libraries;
mod profile;
mod run;
mod several;
#[path = "../small/mod.rs"]
mod small;
#[path = "../cli/support.rs"]
mod support;

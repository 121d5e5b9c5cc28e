//! The CUDA engine as a user runs it, on the PTX emulator: the binary finds a `libcuda.so.1` and does not know better.

mod emulated;
mod errors;
mod run;
#[path = "../cli/support.rs"]
mod support;

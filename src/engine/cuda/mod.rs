//! What the CUDA engine uses of NVIDIA's libraries.

pub mod blas;
mod library;
pub mod solver;
pub mod trace;

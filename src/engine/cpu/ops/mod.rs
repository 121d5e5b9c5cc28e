//! The ops on the CPU, a file per room as in `plan::ops` and in the kernels: which function computes an op, and the functions.

pub mod likelihood;
pub mod network;
pub mod product;
pub mod sampler;
pub mod turbo;

//! What the CPU and the GPU share, compiled for both from one source.
//!
//! - [`float`]: the two operations `core` lacks, fused multiply-add and square root;
//! - [`special`]: `exp` and the tail integrals of the normal distribution;
//! - [`truncated_normal`]: mean and variance of a normal variable known to lie in a cell, EP's only special function;
//! - [`philox`]: the counter-based random numbers behind noise, start values, matrices and measurements.
//!
//! All of it is made of IEEE additions, multiplications, divisions, square roots and *explicit* fused multiply-adds,
//! in a fixed order and without approximate instructions: host and device give the same bits.
//!
//! Every function on a hot path is `#[inline(always)]`: a host caller compiled with `#[target_feature(enable = "fma")]`
//! gets the instruction, another caller gets the C library's `fma`, several times slower and equal to the last bit.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(core_intrinsics))]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

mod coefficients;
pub mod float;
pub mod philox;
pub mod special;
pub mod truncated_normal;

//! What the CPU and the GPU share, compiled for both from one source, and the kernels.
//!
//! Mathematics of both:
//! - [`float`]: the two operations `core` lacks, fused multiply-add and square root;
//! - [`special`]: `exp`, `ln`, sine and cosine, and the tail integrals of the normal distribution;
//! - [`truncated_normal`]: mean and variance of a normal variable known to lie in a cell, EP's only special function;
//! - [`philox`]: the counter-based random numbers behind noise, start values, matrices and measurements.
//!
//! All of it is made of IEEE additions, multiplications, divisions, square roots and *explicit* fused multiply-adds,
//! in a fixed order and without approximate instructions: host and device give the same bits.
//!
//! Every function on a hot path is `#[inline(always)]`: a host caller compiled with `#[target_feature(enable = "fma")]`
//! gets the instruction, another caller gets the C library's `fma`, several times slower and equal to the last bit.
//!
//! Kernels, one op per file, in [`network`], [`product`], [`likelihood`], [`sampler`] and [`turbo`]. A file holds the op's argument struct, which
//! the host fills in and the kernel takes by value; its *twin*, the same op in plain Rust, which says what the kernel
//! means and is what tests compare it with; and, for the device only, the kernel. [`launch`] and [`global`] are what
//! both sides know of a launch, [`divisor`] divides by what the host knows, `device` is what the kernels know of the hardware.
//!
//! [`PTX_SM_70`] and [`PTX_SM_80`] are the kernels as `build-ptx.sh` compiled them, [`CUBINS`] as `build-cubin.sh` assembled those.
#![no_std]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_ptx,
        abi_unadjusted,
        asm_experimental_arch,
        core_intrinsics,
        link_llvm_intrinsics,
        stdarch_nvptx
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

mod coefficients;
#[cfg(target_arch = "nvptx64")]
mod device;
pub mod divisor;
pub mod float;
pub mod global;
pub mod launch;
pub mod likelihood;
pub mod network;
pub mod philox;
pub mod product;
pub mod sampler;
pub mod special;
pub mod truncated_normal;
pub mod turbo;

/// The kernels for compute capability 7.0 (V100) and later.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_70: &str = include_str!("../ptx/qcs_sm_70.ptx");

/// The kernels for compute capability 8.0 (A100) and later.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_80: &str = include_str!("../ptx/qcs_sm_80.ptx");

/// The kernels as machine code: ELF files, packed by gzip, by compute capability times ten. None if the sources were changed
/// since they were assembled.
#[cfg(not(target_arch = "nvptx64"))]
pub const CUBINS: &[(u32, &[u8])] = include!(concat!(env!("OUT_DIR"), "/cubins.rs"));

//! Executes PTX on the CPU.
//!
//! As a library it loads PTX text and launches kernels on a [`Device`], checking every access. As a
//! shared library named `libcuda.so.1` it gives an unmodified CUDA driver-API program a device.
//!
//! ```
//! use qcs_emulator::{Device, LaunchConfig, Params};
//!
//! let ptx = "
//! .version 7.0
//! .target sm_80
//! .address_size 64
//! .visible .entry double(.param .u64 data) {
//!     .reg .b64 %rd<4>;
//!     .reg .b32 %r<3>;
//!     ld.param.u64 %rd1, [data];
//!     mov.u32 %r1, %tid.x;
//!     mul.wide.u32 %rd2, %r1, 4;
//!     add.s64 %rd3, %rd1, %rd2;
//!     ld.global.f32 %r2, [%rd3];
//!     add.rn.f32 %r2, %r2, %r2;
//!     st.global.f32 [%rd3], %r2;
//!     ret;
//! }";
//! let device = Device::default();
//! let module = device.load(ptx)?;
//! let data = device.buffer(&[1.0f32, 2.0, 3.0]);
//! device.launch(&module, "double", LaunchConfig::linear(1, 3), &Params::new().buffer(&data))?;
//! assert_eq!(data.read(), [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod device;
pub mod driver;
pub mod error;
pub mod exec;
pub mod ir;
pub mod json;
pub mod libraries;
pub mod number;
mod ptx;
pub mod stand_in;

pub use device::{Buffer, Device, LaunchConfig, LoadedModule, Params, Report};
pub use error::{Fault, FaultKind, LaunchError, LoadError};
pub use exec::Options;
pub use ir::Module;

//! Floating-point formats of PTX and exact arithmetic on them.

pub mod exact;
mod format;
pub mod half;

pub use format::{BF16, F16, F32, F64, Format, Rounding, TF32};

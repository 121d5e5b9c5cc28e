//! Products of A and U with a batch of vectors, in f64: as a matrix, or as the parts of an operator without one.
//!
//! Every sum has a fixed shape that depends on the matrix only, so a state's numbers do not depend on its batch.

pub mod along;
pub mod butterflies;
pub mod matrix_times;
pub mod pick;
pub mod signed;
pub mod transposed_times;

/// A matrix element or a vector element, widened to f64 for the products.
#[cfg(target_arch = "nvptx64")]
trait Element: crate::global::Word {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
}

#[cfg(target_arch = "nvptx64")]
impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

#[cfg(target_arch = "nvptx64")]
impl Element for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
}

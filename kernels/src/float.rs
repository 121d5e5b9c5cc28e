//! Fused multiply-add and square root, which `core` does not offer on stable Rust. Both are correctly rounded by IEEE
//! 754, so the C library, the CPU's instruction and the GPU's agree.

/// A floating-point type of the shared mathematics.
pub trait Float: Copy {
    /// `self * factor + term`, rounded once.
    fn fma(self, factor: Self, term: Self) -> Self;
    /// The square root, correctly rounded.
    fn root(self) -> Self;
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! implement {
    ($float:ty, $fma:ident, $root:ident) => {
        impl Float for $float {
            #[inline(always)]
            fn fma(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
        }
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! implement {
    ($float:ty, $fma:ident, $root:ident) => {
        impl Float for $float {
            #[inline(always)]
            fn fma(self, factor: Self, term: Self) -> Self {
                core::intrinsics::$fma(self, factor, term)
            }
            #[inline(always)]
            fn root(self) -> Self {
                core::intrinsics::$root(self)
            }
        }
    };
}

implement!(f32, fmaf32, sqrtf32);
implement!(f64, fmaf64, sqrtf64);

/// The polynomial with these coefficients, lowest power first, by Horner's rule.
///
/// A macro, not a loop, so that on the device the coefficients become immediate operands instead of loads.
macro_rules! horner {
    ($x:expr; $table:ident; $highest:literal $(, $power:literal)*) => {{
        let x = $x;
        let sum = $table[$highest];
        $( let sum = $crate::float::Float::fma(sum, x, $table[$power]); )*
        sum
    }};
}
pub(crate) use horner;

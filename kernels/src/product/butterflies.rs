//! The orthonormal Walsh–Hadamard transform along one axis, by butterflies: log2 of the length additions for each element
//! instead of the length.
//!
//! The array is `[outer, length, inner]`, length a power of two. A pass over it takes elements a stride apart; in one of radix
//! 16 a thread does four stages in registers, so that an axis of 65,536 (256×256 pixels, whose transform along both axes is
//! that along one) goes four times through memory. Sums are those of plain stages in any case: no bit depends on the radix.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// One pass. A thread takes R elements, a stride apart.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ButterfliesArgs<const R: usize> {
    /// Any number of whole arrays
    pub input: Global<f64>,
    /// May be the input
    pub output: Global<f64>,
    /// What every result is multiplied by: 1 but in the last pass.
    pub scale: f64,
    /// Of all elements, R of them.
    pub threads: u32,
    /// Between the elements of a thread.
    pub stride: u32,
}

macro_rules! variant {
    ($radix:literal, $name:literal) => {
        // SAFETY: repr(C), words of eight bytes and two of four.
        unsafe impl Arguments for ButterfliesArgs<$radix> {
            fn kernel(&self) -> &'static str {
                $name
            }
            fn launch(&self) -> Launch {
                Launch::over(self.threads)
            }
        }
    };
}
variant!(2, "butterflies_2");
variant!(16, "butterflies_16");

/// What the transform of this length multiplies by, for it to be orthonormal.
pub fn scale(length: usize) -> f64 {
    1.0 / (length as f64).root()
}

/// The twin: one state, in place.
#[inline(always)]
pub fn butterflies(length: usize, inner: usize, values: &mut [f64]) {
    let mut stride = inner;
    while stride < length * inner {
        for pair in values.chunks_exact_mut(2 * stride) {
            let (first, second) = pair.split_at_mut(stride);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        stride *= 2;
    }
    let scale = scale(length);
    values.iter_mut().for_each(|value| *value *= scale);
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[inline(always)]
    unsafe fn butterflies<const R: usize>(args: &ButterfliesArgs<R>) {
        let thread = global_thread();
        if thread >= args.threads {
            return;
        }
        let stride = args.stride as usize;
        // SAFETY: strides are not 0; the launch gives each thread R elements of its own.
        unsafe {
            let (group, within) = divide(thread, args.stride);
            let first = group as usize * R * stride + within as usize;
            let mut values: [f64; R] = core::array::from_fn(|r| args.input.load(first + r * stride));
            let mut half = 1;
            while half < R {
                let before = values;
                for r in 0..R {
                    values[r] = if r & half == 0 {
                        before[r] + before[r + half]
                    } else {
                        before[r - half] - before[r]
                    };
                }
                half *= 2;
            }
            for r in 0..R {
                args.output.store(first + r * stride, values[r] * args.scale);
            }
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn butterflies_2(args: ButterfliesArgs<2>) {
        // SAFETY: the launch covers the elements.
        unsafe { butterflies(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn butterflies_16(args: ButterfliesArgs<16>) {
        // SAFETY: the launch covers the elements.
        unsafe { butterflies(&args) }
    }
}

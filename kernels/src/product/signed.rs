//! Pixels with random signs, and from f32 to f64 or back: where a structured operator begins, and where its transpose ends.

use crate::global::Global;
use crate::launch::{Arguments, Launch, THREADS};

/// output = signs∘input. A thread takes an element.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SignedArgs<X, Y> {
    /// `[states, len]`
    pub input: Global<X>,
    /// `[len]`, 1 or −1; none where all are 1
    pub signs: Global<f32>,
    /// `[states, len]`
    pub output: Global<Y>,
    /// States of the batch.
    pub states: u32,
    /// Elements of a state.
    pub len: u32,
}

macro_rules! variant {
    ($x:ty, $y:ty, $name:literal) => {
        // SAFETY: repr(C), words of eight bytes and two of four.
        unsafe impl Arguments for SignedArgs<$x, $y> {
            fn kernel(&self) -> &'static str {
                $name
            }
            fn launch(&self) -> Launch {
                Launch::blocks(self.len.div_ceil(THREADS), self.states)
            }
        }
    };
}
variant!(f32, f64, "signed_f32_f64");
variant!(f64, f32, "signed_f64_f32");

/// The twin: one state, in f64.
pub fn signed(input: &[f64], signs: Option<&[f32]>, output: &mut [f64]) {
    output.copy_from_slice(input);
    for (output, &sign) in output.iter_mut().zip(signs.unwrap_or_default()) {
        *output *= f64::from(sign);
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{block_y, global_thread};
    use crate::product::Element;

    #[inline(always)]
    unsafe fn signed<X: Element, Y: Element>(args: &SignedArgs<X, Y>) {
        let (state, at) = (block_y() as usize, global_thread());
        if at >= args.len {
            return;
        }
        // SAFETY: the launch gives a state and an element to each thread.
        unsafe {
            let sign = if args.signs.is_some() {
                args.signs.read(at as usize)
            } else {
                1.0
            };
            let element = state * args.len as usize + at as usize;
            let value = args.input.read(element).wide() * f64::from(sign);
            args.output.store(element, Y::narrow(value));
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn signed_f32_f64(args: SignedArgs<f32, f64>) {
        // SAFETY: the launch covers the elements.
        unsafe { signed(&args) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn signed_f64_f32(args: SignedArgs<f64, f32>) {
        // SAFETY: the launch covers the elements.
        unsafe { signed(&args) }
    }
}

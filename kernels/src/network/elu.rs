//! elu(x) = x for x > 0, exp(x) − 1 elsewhere.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// ELU of a whole feature map.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EluArgs {
    /// `[len]`
    pub input: Global<f32>,
    /// `[len]`; may be the input
    pub output: Global<f32>,
    /// Elements, a multiple of 8.
    pub len: u64,
}

// SAFETY: repr(C), words of eight bytes.
unsafe impl Arguments for EluArgs {
    fn kernel(&self) -> &'static str {
        "elu"
    }
    fn launch(&self) -> Launch {
        Launch::over((self.len / 4) as u32)
    }
}

/// The twin, correctly rounded.
#[cfg(not(target_arch = "nvptx64"))]
pub fn elu(x: f32) -> f32 {
    if x > 0.0 { x } else { f64::from(x).exp_m1() as f32 }
}

/// On the device, with an absolute error below 4e-7: what f32 leaves of a value near 1, and the approximate 2ˣ adds.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn elu(x: f32) -> f32 {
    let negative = crate::device::exp2(x * core::f32::consts::LOG2_E) - 1.0;
    if x > 0.0 { x } else { negative }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::EluArgs;
    use crate::device::global_thread;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn elu(args: EluArgs) {
        let at = global_thread() as usize * 4;
        if at < args.len as usize {
            // SAFETY: the length is a multiple of four, and each thread has its own four elements.
            unsafe { args.output.store4(at, args.input.load4(at).map(super::elu)) }
        }
    }
}

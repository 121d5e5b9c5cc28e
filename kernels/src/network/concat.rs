//! Two feature maps of one size as one, the channels of the first in front.

use crate::global::Global;
use crate::launch::{Arguments, Launch};

/// Copies both maps of each image. A thread copies four numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConcatArgs {
    /// `[images, first_len]`
    pub first: Global<f32>,
    /// `[images, second_len]`
    pub second: Global<f32>,
    /// `[images, first_len + second_len]`
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Numbers of an image, a multiple of 8.
    pub first_len: u32,
    /// Numbers of an image, a multiple of 8.
    pub second_len: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for ConcatArgs {
    fn kernel(&self) -> &'static str {
        "concat"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.images * ((self.first_len + self.second_len) / 4))
    }
}

/// The twin: one image. The first map has whole blocks of channels.
pub fn concat(first: &[f32], second: &[f32], output: &mut [f32]) {
    let (front, back) = output.split_at_mut(first.len());
    front.copy_from_slice(first);
    back.copy_from_slice(second);
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn concat(args: ConcatArgs) {
        let (index, quads) = (global_thread(), (args.first_len + args.second_len) / 4);
        if index >= args.images * quads {
            return;
        }
        // SAFETY: there are numbers to copy, and each thread has its own four.
        unsafe {
            let (image, quad) = divide(index, quads);
            let at = quad * 4;
            let values = if at < args.first_len {
                args.first.read4(image as usize * args.first_len as usize + at as usize)
            } else {
                args.second
                    .read4(image as usize * args.second_len as usize + (at - args.first_len) as usize)
            };
            args.output.store4(index as usize * 4, values);
        }
    }
}

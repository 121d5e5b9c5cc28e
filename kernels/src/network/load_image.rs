//! 2x − 1, from a state `[channels, pixels]` to a feature map.

use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
use crate::network::padded;

/// Loads the states of a batch into the network. A thread writes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoadImageArgs {
    /// `[states, channels, pixels]`
    pub x: Global<f32>,
    /// Feature map; the padding channels become 0.
    pub output: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// Channels of an image.
    pub channels: u32,
    /// Height times width.
    pub pixels: u32,
    /// Nothing.
    pub unused: u32,
}

impl LoadImageArgs {
    fn halves(&self) -> u32 {
        self.states * padded(self.channels as usize) as u32 / 4 * self.pixels
    }
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for LoadImageArgs {
    fn kernel(&self) -> &'static str {
        "load_image"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.halves())
    }
}

/// The twin: one state.
pub fn load_image(x: &[f32], channels: usize, output: &mut [f32]) {
    let pixels = x.len() / channels;
    output.fill(0.0);
    for (c, x) in x.chunks_exact(pixels).enumerate() {
        let plane = &mut output[c / BLOCK * pixels * BLOCK..];
        for (pixel, x) in plane.chunks_exact_mut(BLOCK).zip(x) {
            pixel[c % BLOCK] = 2.0 * x - 1.0;
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::global_thread;
    use crate::network::feature_map::of_half_block;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn load_image(args: LoadImageArgs) {
        let half = global_thread();
        if half >= args.halves() {
            return;
        }
        // SAFETY: an image has channels and pixels.
        let (state, first, pixel) = unsafe { of_half_block(half, args.channels, args.pixels) };
        let value = |c: u32| {
            if first + c < args.channels {
                let at = (state * args.channels + first + c) * args.pixels + pixel;
                // SAFETY: the channel is there.
                2.0 * unsafe { args.x.read(at as usize) } - 1.0
            } else {
                0.0
            }
        };
        // SAFETY: each thread has its own half block of the output.
        unsafe {
            args.output
                .store4(half as usize * 4, [value(0), value(1), value(2), value(3)])
        }
    }
}

//! 2x − 1, scaled for the noise level, from a state `[channels, pixels]` to a feature map, whose last channel may say the level.

use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
use crate::network::padded;
use crate::network::precondition::{Parametrisation, Precondition};

/// Loads the states of a batch into the network. A thread writes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoadScaledArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
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
    /// The code of the [`Parametrisation`], plus [`TELLS`] where one more channel says the level.
    pub kind: u32,
}

/// Beside the code of the parametrisation.
pub const TELLS: u32 = 1 << 8;

impl LoadScaledArgs {
    /// Channels of the feature map.
    #[inline(always)]
    fn wide(&self) -> u32 {
        self.channels + self.kind / TELLS
    }

    #[inline(always)]
    fn halves(&self) -> u32 {
        self.states * padded(self.wide() as usize) as u32 / 4 * self.pixels
    }
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for LoadScaledArgs {
    fn kernel(&self) -> &'static str {
        "load_scaled"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.halves())
    }
}

/// The twin: one state.
pub fn load_scaled(
    kind: Parametrisation,
    x: &[f32],
    level: f64,
    channels: usize,
    tells_level: bool,
    output: &mut [f32],
) {
    let pixels = x.len() / channels;
    let precondition = Precondition::new(kind, level);
    output.fill(0.0);
    for c in 0..channels + usize::from(tells_level) {
        let plane = &mut output[c / BLOCK * pixels * BLOCK..];
        for (at, pixel) in plane.chunks_exact_mut(BLOCK).take(pixels).enumerate() {
            pixel[c % BLOCK] = match x.get(c * pixels + at) {
                Some(&x) => precondition.input(x),
                None => precondition.level,
            };
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::global_thread;
    use crate::network::feature_map::of_half_block;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn load_scaled(args: LoadScaledArgs) {
        let half = global_thread();
        if half >= args.halves() {
            return;
        }
        // SAFETY: an image has channels and pixels.
        let (state, first, pixel) = unsafe { of_half_block(half, args.wide(), args.pixels) };
        // SAFETY: the state is there.
        let precondition = Precondition::new(Parametrisation::of(args.kind % TELLS), unsafe {
            args.level.read(state as usize)
        });
        let value = |c: u32| {
            if first + c < args.channels {
                let at = (state * args.channels + first + c) * args.pixels + pixel;
                // SAFETY: the channel is there.
                precondition.input(unsafe { args.x.read(at as usize) })
            } else if first + c < args.wide() {
                precondition.level
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

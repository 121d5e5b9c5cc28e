//! The input of a tensor-core convolution: activated and rounded once, instead of at each of nine taps.
//!
//! At the speed of the tensor cores an ELU per tap would take as long as the products, and raw copies into shared memory
//! leave no room for it. In half precision a block of eight channels is 16 bytes, and their number is made even; TF32
//! keeps the layout of the feature map.

use super::rounding::Rounding;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
use crate::network::activation::Function;

/// Activates and rounds a feature map. A thread takes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvPrepareArgs {
    /// `[images, in_blocks, pixels, 8]`
    pub input: Global<f32>,
    /// Scales and shifts of the input, `[images, 2, 8·in_blocks]`, or none
    pub coefficients: Global<f32>,
    /// [`prepared_words`] words of four bytes
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of eight input channels.
    pub in_blocks: u32,
    /// Height times width.
    pub pixels: u32,
    /// The code of the [`Function`] that the input passes, after its norm if it has coefficients.
    pub activation: u32,
    /// The code of a [`Rounding`].
    pub precision: u32,
    /// Nothing.
    pub unused: u32,
}

impl ConvPrepareArgs {
    /// Blocks of the output, padded to whole units.
    fn out_blocks(&self) -> u32 {
        if self.precision == Rounding::F16.code() {
            self.in_blocks.next_multiple_of(2)
        } else {
            self.in_blocks
        }
    }
}

// SAFETY: repr(C), words of eight bytes and six of four.
unsafe impl Arguments for ConvPrepareArgs {
    fn kernel(&self) -> &'static str {
        if self.precision == Rounding::F16.code() {
            "conv_prepare_f16"
        } else {
            "conv_prepare_tf32"
        }
    }
    fn launch(&self) -> Launch {
        Launch::over(self.images * self.out_blocks() * self.pixels * 2)
    }
}

/// Words of four bytes of a prepared map.
pub const fn prepared_words(precision: Rounding, images: usize, channels: usize, pixels: usize) -> usize {
    images * precision.units(channels) * pixels * 8
}

/// Channels of a pixel, activated.
#[inline(always)]
fn activated<const N: usize>(values: [f32; N], coefficients: Option<[[f32; N]; 2]>, function: Function) -> [f32; N] {
    core::array::from_fn(|c| {
        let value = match coefficients {
            Some([scale, shift]) => values[c].fma(scale[c], shift[c]),
            None => values[c],
        };
        function.at(value)
    })
}

/// The twin: one image, with `[2, channels]` coefficients where there is a norm. The output holds the rounded values as
/// f32, in the layout of the feature map: what the twin of the convolution takes.
#[cfg(not(target_arch = "nvptx64"))]
pub fn conv_prepare(
    precision: Rounding,
    input: &[f32],
    coefficients: Option<&[f32]>,
    pixels: usize,
    function: Function,
    output: &mut [f32],
) {
    let channels = input.len() / pixels;
    let blocks = input
        .as_chunks::<BLOCK>()
        .0
        .iter()
        .zip(output.as_chunks_mut::<BLOCK>().0);
    for (at, (from, to)) in blocks.enumerate() {
        let first = at / pixels * BLOCK;
        let of_block = |row: usize, all: &[f32]| core::array::from_fn(|c| all[row * channels + first + c]);
        let coefficients = coefficients.map(|all| [of_block(0, all), of_block(1, all)]);
        *to = activated(*from, coefficients, function).map(|value| super::rounding::round(precision, value));
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread, half_pair};
    use crate::network::conv::rounding::tf32;

    /// The four activated channels of this thread, and their place among the half blocks of the output.
    #[inline(always)]
    unsafe fn load(args: &ConvPrepareArgs) -> Option<([f32; 4], usize)> {
        let index = global_thread();
        if index >= args.images * args.out_blocks() * args.pixels * 2 {
            return None;
        }
        // SAFETY: an image has blocks and pixels; padding blocks are not read.
        unsafe {
            let half = (index % 2) as usize * 4;
            let (plane, pixel) = divide(index / 2, args.pixels);
            let (image, block) = divide(plane, args.out_blocks());
            if block >= args.in_blocks {
                return Some(([0.0; 4], index as usize));
            }
            let at = ((image * args.in_blocks + block) * args.pixels + pixel) as usize * BLOCK;
            let values = args.input.read4(at + half);
            let coefficients = args.coefficients.is_some().then(|| {
                let wide = (args.in_blocks * BLOCK as u32) as usize;
                let at = image as usize * 2 * wide + block as usize * BLOCK + half;
                [args.coefficients.read4(at), args.coefficients.read4(at + wide)]
            });
            Some((
                activated(values, coefficients, Function::of(args.activation)),
                index as usize,
            ))
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_prepare_f16(args: ConvPrepareArgs) {
        // SAFETY: each thread has its own half block of a pixel.
        unsafe {
            if let Some(([a, b, c, d], at)) = load(&args) {
                args.output
                    .store2(at * 2, [half_pair(a, b), half_pair(c, d)].map(f32::from_bits));
            }
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_prepare_tf32(args: ConvPrepareArgs) {
        // SAFETY: each thread has its own half block of a pixel.
        unsafe {
            if let Some((values, at)) = load(&args) {
                args.output.store4(at * 4, values.map(tf32));
            }
        }
    }
}

//! A feature map through an activation, and from there to another resolution or to another cut of the same numbers.

use super::activation::Function;
use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// What becomes of the pixels; a kernel gets its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Resampling {
    /// The same pixels
    Keep = 0,
    /// The mean of 2×2
    Mean = 1,
    /// Each pixel four times
    Nearest = 2,
    /// Of 2×2 the first: of a convolution of stride 1 one of stride 2, padded on all sides
    First = 3,
    /// Of 2×2 the last: the same, padded below and to the right only
    Last = 4,
    /// 2×2 pixels become four times as many channels: those of the first pixel of each square, then those of its right neighbour, …
    Unfold = 5,
    /// The way back
    Fold = 6,
}

impl Resampling {
    /// That of a code; of an unknown one, the last.
    #[inline(always)]
    pub const fn of(code: u32) -> Self {
        match code {
            0 => Self::Keep,
            1 => Self::Mean,
            2 => Self::Nearest,
            3 => Self::First,
            4 => Self::Last,
            5 => Self::Unfold,
            _ => Self::Fold,
        }
    }

    /// Channels, height and width of what becomes of a map.
    pub const fn output(self, (channels, height, width): (usize, usize, usize)) -> (usize, usize, usize) {
        match self {
            Self::Keep => (channels, height, width),
            Self::Mean | Self::First | Self::Last => (channels, height / 2, width / 2),
            Self::Nearest => (channels, 2 * height, 2 * width),
            Self::Unfold => (4 * channels, height / 2, width / 2),
            Self::Fold => (channels / 4, 2 * height, 2 * width),
        }
    }
}

/// Resamples a batch. A thread writes half a block of a pixel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ResampleArgs {
    /// `[images, in_blocks, …, 8]`
    pub input: Global<f32>,
    /// Scales and shifts of the input, `[images, 2, 8·in_blocks]`, or none
    pub coefficients: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of the input.
    pub in_blocks: u32,
    /// Blocks of the output.
    pub out_blocks: u32,
    /// Rows of the output.
    pub height: u32,
    /// Columns of the output.
    pub width: u32,
    /// The code of a [`Resampling`].
    pub how: u32,
    /// The code of a [`Function`].
    pub activation: u32,
    /// Of every value of the output.
    pub factor: f32,
}

impl ResampleArgs {
    fn halves(&self) -> u32 {
        self.images * self.out_blocks * self.height * self.width * 2
    }
}

// SAFETY: repr(C), words of eight bytes and eight of four.
unsafe impl Arguments for ResampleArgs {
    fn kernel(&self) -> &'static str {
        "resample"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.halves())
    }
}

/// Where a block of a pixel of the output comes from: the block of the input, the first pixel's row and column, and whether it is the
/// mean of that and its three neighbours. `blocks` are those of the input and of the output.
#[inline(always)]
pub fn source(how: Resampling, blocks: (u32, u32), block: u32, y: u32, x: u32) -> (u32, u32, u32, bool) {
    match how {
        Resampling::Keep => (block, y, x, false),
        Resampling::Mean => (block, 2 * y, 2 * x, true),
        Resampling::Nearest => (block, y / 2, x / 2, false),
        Resampling::First => (block, 2 * y, 2 * x, false),
        Resampling::Last => (block, 2 * y + 1, 2 * x + 1, false),
        Resampling::Unfold => {
            // Less than four: no division, which would test for zero.
            let behind = |times: u32| u32::from(block >= times * blocks.0);
            let place = behind(1) + behind(2) + behind(3);
            (block - place * blocks.0, 2 * y + place / 2, 2 * x + place % 2, false)
        }
        Resampling::Fold => ((y % 2 * 2 + x % 2) * blocks.1 + block, y / 2, x / 2, false),
    }
}

/// A value behind its norm and its activation.
#[inline(always)]
fn activated(value: f32, scale: f32, shift: f32, function: Function) -> f32 {
    function.at(value.fma(scale, shift))
}

/// The twin: one image of `(height, width)`, with `[2, channels]` coefficients where there is a norm. Channels are whole blocks.
#[cfg(not(target_arch = "nvptx64"))]
pub fn resample(
    how: Resampling,
    function: Function,
    factor: f32,
    input: &[f32],
    (height, width): (usize, usize),
    coefficients: Option<&[f32]>,
    output: &mut [f32],
) {
    let channels = input.len() / (height * width);
    let (wide, rows, columns) = how.output((channels, height, width));
    let blocks = ((channels / BLOCK) as u32, (wide / BLOCK) as u32);
    for (at, value) in output.iter_mut().enumerate() {
        let (pixel, c) = (at / BLOCK, at % BLOCK);
        let (block, y, x) = (pixel / (rows * columns), pixel / columns % rows, pixel % columns);
        let (from, top, left, is_mean) = source(how, blocks, block as u32, y as u32, x as u32);
        let channel = from as usize * BLOCK + c;
        let (scale, shift) = coefficients.map_or((1.0, 0.0), |all| (all[channel], all[channels + channel]));
        let read = |dy: u32, dx: u32| {
            let place = (from as usize * height + (top + dy) as usize) * width + (left + dx) as usize;
            activated(input[place * BLOCK + c], scale, shift, function)
        };
        let sum = if is_mean {
            0.25 * ((read(0, 0) + read(0, 1)) + (read(1, 0) + read(1, 1)))
        } else {
            read(0, 0)
        };
        *value = factor * sum;
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};
    use core::array;

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn resample(args: ResampleArgs) {
        let index = global_thread();
        if index >= args.halves() {
            return;
        }
        let (how, function) = (Resampling::of(args.how), Function::of(args.activation));
        // SAFETY: maps have blocks, rows and columns; the source lies in the input, and each thread has its own half block.
        unsafe {
            let half = (index % 2 * 4) as usize;
            let (row, x) = divide(index / 2, args.width);
            let (plane, y) = divide(row, args.height);
            let (image, block) = divide(plane, args.out_blocks);
            let (from, top, left, is_mean) = source(how, (args.in_blocks, args.out_blocks), block, y, x);
            let (height, width) = match how {
                Resampling::Keep => (args.height, args.width),
                Resampling::Nearest | Resampling::Fold => (args.height / 2, args.width / 2),
                _ => (args.height * 2, args.width * 2),
            };
            let wide = args.in_blocks as usize * BLOCK;
            let (mut scale, mut shift) = ([1.0; 4], [0.0; 4]);
            if args.coefficients.is_some() {
                let at = image as usize * 2 * wide + from as usize * BLOCK + half;
                scale = args.coefficients.read4(at);
                shift = args.coefficients.read4(at + wide);
            }
            let first = ((image * args.in_blocks + from) * height + top) * width + left;
            let read = |offset: u32| -> [f32; 4] {
                let values = args.input.read4((first + offset) as usize * BLOCK + half);
                array::from_fn(|c| activated(values[c], scale[c], shift[c], function))
            };
            let mut values = read(0);
            if is_mean {
                let (b, c, d) = (read(1), read(width), read(width + 1));
                values = array::from_fn(|i| 0.25 * ((values[i] + b[i]) + (c[i] + d[i])));
            }
            args.output.store4(index as usize * 4, values.map(|v| args.factor * v));
        }
    }
}

//! Convolution, 3×3 (dilated or not) or 1×1, stride 1, zero padding that keeps the size, fused with what stands around
//! it: the input's norm and ELU, the bias, a residual, the statistics for the norm that follows.
//!
//! The kernels see it as a product of matrices that are never formed (implicit GEMM): a row per pixel of the batch, a
//! column per output channel, and a sum over *steps*, each one tap of one block of eight input channels. Zero padding is
//! applied after the activation.

#[cfg(target_arch = "nvptx64")]
mod fp32;
pub mod prepare;
pub mod rounding;
pub mod statistics;
pub mod tensor;
#[cfg(target_arch = "nvptx64")]
mod tensor_kernels;
pub mod winograd;

use self::statistics::{rows_per_image, statistics_len};
#[cfg(not(target_arch = "nvptx64"))]
use super::activation::Function;
use super::padded;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// output = conv(activation(input)) + bias + residual
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvArgs {
    /// `[images, in_blocks, height, width, 8]`
    pub input: Global<f32>,
    /// Scales and shifts of the input, `[images, 2, 8·in_blocks]`, or none
    pub coefficients: Global<f32>,
    /// As [`pack_weights`] gives them, or of each image its own, one after the other
    pub weights: Global<f32>,
    /// `[8·out_blocks]`, or none
    pub bias: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`, or none
    pub residual: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`
    pub output: Global<f32>,
    /// [`ConvArgs::statistics_len`] floats of [`statistics`] of the output, or none
    pub statistics: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of eight input channels; times the taps at most [`MOST_STEPS`].
    pub in_blocks: u32,
    /// Blocks of eight output channels.
    pub out_blocks: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// 9 for a 3×3 kernel, 1 for 1×1.
    pub taps: u32,
    /// Distance of the taps in pixels.
    pub dilation: u32,
    /// 1 if the input passes ELU, after its norm if it has coefficients; 0 if it is taken as it is.
    pub elu: u32,
    /// Of the GPU: they decide which tile is faster.
    pub multiprocessors: u32,
    /// Floats from the weights of an image to those of the next, without statistics; 0 if all images share them.
    pub weights_per_image: u32,
}

/// The pixels and output channels that one block of threads computes, and its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    pixels: u32,
    outputs: u32,
    threads: u32,
    cost: StepCost,
    /// Names of the kernels without activation, with ELU, with norm and ELU.
    kernels: [&'static str; 3],
}

/// For large layers: every loaded word is used in 128 sums.
const LARGE: Tile = Tile {
    pixels: 128,
    outputs: 128,
    threads: 256,
    cost: StepCost {
        cycles: 2220,
        resident: 2,
    },
    kernels: [
        "conv_f32_128x128_none",
        "conv_f32_128x128_elu",
        "conv_f32_128x128_norm_elu",
    ],
};

/// For layers that would not give every multiprocessor a large tile.
const SMALL: Tile = Tile {
    pixels: 64,
    outputs: 64,
    threads: 128,
    cost: StepCost {
        cycles: 579,
        resident: 5,
    },
    kernels: ["conv_f32_64x64_none", "conv_f32_64x64_elu", "conv_f32_64x64_norm_elu"],
};

/// For the last layer, which has as many outputs as an image has channels.
const NARROW: Tile = Tile {
    pixels: 128,
    outputs: 8,
    threads: 64,
    cost: StepCost {
        cycles: 160,
        resident: 7,
    },
    kernels: ["conv_f32_128x8_none", "conv_f32_128x8_elu", "conv_f32_128x8_norm_elu"],
};

/// Blocks of input channels times taps that a layer may have: the kernels keep a table of steps, of 9·64 + 1 entries.
pub const MOST_STEPS: u32 = 9 * 64;

/// What a step of the main loop costs a multiprocessor: in cycles for every block, and once for all blocks that it holds at a
/// time, [`WAITING`]. From a simulator of the V100: `benches/predict/src/model.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepCost {
    cycles: u32,
    /// Blocks that a multiprocessor holds
    resident: u32,
}

/// Cycles from barrier to barrier that no block uses alone.
const WAITING: u32 = 298;

impl StepCost {
    /// Cycles of the busiest multiprocessor.
    fn of(self, [x, y]: [u32; 2], multiprocessors: u32) -> u32 {
        let blocks = (x * y).div_ceil(multiprocessors.max(1));
        blocks * self.cycles + blocks.div_ceil(self.resident) * WAITING
    }
}

impl ConvArgs {
    /// Floats of the output's statistics.
    pub const fn statistics_len(&self) -> usize {
        statistics_len(self.images, self.out_blocks, self.height * self.width)
    }

    /// Rows of the product from one image to the next: whole tiles of so many pixels, where images have their own weights.
    #[inline(always)]
    fn rows_per_image(&self, tile_pixels: u32) -> u32 {
        let pixels = self.height * self.width;
        if self.weights_per_image != 0 {
            pixels.next_multiple_of(tile_pixels)
        } else {
            rows_per_image(pixels, self.statistics)
        }
    }

    /// Every output is summed in the same order by every tile, so the choice does not change any bit.
    fn tile(&self) -> Tile {
        let cost = |tile: Tile| tile.cost.of(self.grid(tile), self.multiprocessors);
        if self.out_blocks * BLOCK as u32 <= NARROW.outputs {
            NARROW
        } else if cost(LARGE) < cost(SMALL) {
            LARGE
        } else {
            SMALL
        }
    }

    /// Cycles that the main loop takes the busiest multiprocessor of a V100 of this size.
    pub fn effort(&self) -> u64 {
        let tile = self.tile();
        let steps = u64::from(self.in_blocks * self.taps);
        steps * u64::from(tile.cost.of(self.grid(tile), self.multiprocessors))
    }

    fn grid(&self, tile: Tile) -> [u32; 2] {
        let outputs = self.out_blocks * BLOCK as u32;
        [
            (self.images * self.rows_per_image(tile.pixels)).div_ceil(tile.pixels),
            outputs.div_ceil(tile.outputs),
        ]
    }
}

// SAFETY: repr(C), words of eight bytes and ten of four.
unsafe impl Arguments for ConvArgs {
    fn kernel(&self) -> &'static str {
        let [none, elu, norm_elu] = self.tile().kernels;
        match (self.elu, self.coefficients.is_some()) {
            (0, _) => none,
            (_, false) => elu,
            (_, true) => norm_elu,
        }
    }
    /// Panics if there are more than [`MOST_STEPS`].
    fn launch(&self) -> Launch {
        assert!(
            self.in_blocks * self.taps <= MOST_STEPS,
            "a convolution of more steps than its table holds"
        );
        let tile = self.tile();
        Launch {
            grid: self.grid(tile),
            threads: tile.threads,
        }
    }
}

/// Floats of packed weights: those of every step, and of one more, which the kernels load and do not use.
pub const fn packed_len(outputs: usize, inputs: usize, taps: usize) -> usize {
    (padded(inputs) * taps + BLOCK) * padded(outputs)
}

/// Weights `[outputs, inputs, taps]` in the order in which the kernels read them:
/// `[in block][tap][in channel of the block][outputs padded]`, zeros where a channel is padding.
///
/// # Panics
/// If `weight` or `packed` has another length than the shape gives.
pub fn pack_weights(weight: &[f32], outputs: usize, inputs: usize, taps: usize, packed: &mut [f32]) {
    assert_eq!(weight.len(), outputs * inputs * taps);
    assert_eq!(packed.len(), packed_len(outputs, inputs, taps));
    let wide = padded(outputs);
    packed.fill(0.0);
    for o in 0..outputs {
        for i in 0..inputs {
            for tap in 0..taps {
                let row = (i / BLOCK * taps + tap) * BLOCK + i % BLOCK;
                packed[row * wide + o] = weight[(o * inputs + i) * taps + tap];
            }
        }
    }
}

/// What the twin computes with, in the order of a checkpoint, without padding.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// `[outputs, inputs, taps]`
    pub weight: &'a [f32],
    /// `[outputs]`
    pub bias: Option<&'a [f32]>,
    /// Output channels.
    pub outputs: usize,
    /// Input channels.
    pub inputs: usize,
    /// 9 or 1.
    pub taps: usize,
    /// Distance of the taps in pixels.
    pub dilation: usize,
}

/// The twin, summed in f64: one image. The input is what the activation gives, both maps are `[channels / 8, h, w, 8]`;
/// padding channels of the output become 0.
#[cfg(not(target_arch = "nvptx64"))]
pub fn conv(
    layer: Layer<'_>,
    input: &[f32],
    height: usize,
    width: usize,
    residual: Option<&[f32]>,
    output: &mut [f32],
) {
    let pixels = height * width;
    let index = |c: usize, y: usize, x: usize| (c / BLOCK * pixels + y * width + x) * BLOCK + c % BLOCK;
    // The row or column that a tap looks at, if it is in the map.
    let shifted = |at: usize, tap: usize, size: usize| {
        let at = at + tap * layer.dilation;
        at.checked_sub(layer.dilation).filter(|&at| at < size)
    };
    output.fill(0.0);
    for o in 0..layer.outputs {
        for (y, x) in (0..pixels).map(|p| (p / width, p % width)) {
            let mut sum = layer.bias.map_or(0.0, |bias| f64::from(bias[o]));
            for tap in 0..layer.taps {
                let (row, column) = if layer.taps == 1 { (1, 1) } else { (tap / 3, tap % 3) };
                let (Some(y), Some(x)) = (shifted(y, row, height), shifted(x, column, width)) else {
                    continue;
                };
                for i in 0..layer.inputs {
                    let weight = layer.weight[(o * layer.inputs + i) * layer.taps + tap];
                    sum += f64::from(weight) * f64::from(input[index(i, y, x)]);
                }
            }
            let at = index(o, y, x);
            output[at] = (sum + residual.map_or(0.0, |r| f64::from(r[at]))) as f32;
        }
    }
}

/// The twin of the activation: one image, with `[2, channels]` coefficients where there is a norm.
#[cfg(not(target_arch = "nvptx64"))]
pub fn activate(input: &mut [f32], coefficients: Option<&[f32]>, pixels: usize, function: Function) {
    let channels = input.len() / pixels;
    for (at, value) in input.iter_mut().enumerate() {
        let channel = at / BLOCK / pixels * BLOCK + at % BLOCK;
        let (scale, shift) = coefficients.map_or((1.0, 0.0), |c| (c[channel], c[channels + channel]));
        let normed = f64::from(*value) * f64::from(scale) + f64::from(shift);
        *value = function.at(normed as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(images: u32, channels: u32, side: u32, multiprocessors: u32) -> ConvArgs {
        ConvArgs {
            input: Global::NONE,
            coefficients: Global::NONE,
            weights: Global::NONE,
            bias: Global::NONE,
            residual: Global::NONE,
            output: Global::NONE,
            statistics: Global::NONE,
            images,
            in_blocks: channels / 8,
            out_blocks: channels / 8,
            height: side,
            width: side,
            taps: 9,
            dilation: 1,
            elu: 0,
            multiprocessors,
            weights_per_image: 0,
        }
    }

    #[test]
    fn the_tile_is_the_one_that_the_simulator_of_a_v100_found_faster() {
        let small = layer(8, 128, 32, 80);
        assert_eq!(small.kernel(), "conv_f32_128x128_none", "237 µs, not 246");
        let deep = layer(8, 256, 16, 80);
        assert_eq!(deep.kernel(), "conv_f32_64x64_none", "32 large tiles are too few");
    }

    #[test]
    fn a_gpu_with_more_multiprocessors_needs_more_tiles() {
        assert_eq!(
            layer(8, 128, 32, 108).kernel(),
            "conv_f32_64x64_none",
            "64 large tiles for 108"
        );
        assert_eq!(layer(13, 128, 32, 108).kernel(), "conv_f32_128x128_none");
    }
}

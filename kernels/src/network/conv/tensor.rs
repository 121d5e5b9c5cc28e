//! The convolution on the tensor cores: what its kernels have in common.
//!
//! The same product of matrices as in fp32, cut along its depth into *units*: one tap of as many channels as a matrix
//! instruction takes, 16 in half precision or 8 in TF32. A unit is two *planes* of 16 bytes per pixel or output, and a
//! plane is what eight rows of a matrix fragment are read from without a bank conflict, in one piece. From barrier to barrier the
//! kernels compute two units: with one, waiting takes as long as the products.

use super::rounding::Rounding;
use super::statistics::{rows_per_image, statistics_len};
use super::{MOST_IN_BLOCKS, StepCost, padded};
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Units from barrier to barrier.
pub(super) const ROUND: u32 = 2;

/// Pixels and outputs of the large tile and of the small one, for layers that would not give every multiprocessor a large
/// one. A block has two threads per pixel.
const LARGE: u32 = 128;
const SMALL: u32 = 64;
/// Of a round.
const LARGE_COST: StepCost = StepCost {
    cycles: 1480,
    resident: 2,
};
const SMALL_COST: StepCost = StepCost {
    cycles: 500,
    resident: 4,
};

/// output = conv(prepared input) + bias + residual, products rounded to the input's precision, sums in f32
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TensorConvArgs {
    /// As [`ConvPrepareArgs`](super::prepare::ConvPrepareArgs) gives it
    pub input: Global<f32>,
    /// As [`pack_tensor_weights`] gives them
    pub weights: Global<f32>,
    /// `[8·out_blocks]`, or none
    pub bias: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`, or none
    pub residual: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`
    pub output: Global<f32>,
    /// [`TensorConvArgs::statistics_len`] floats of [`statistics`](super::statistics) of the output, or none
    pub statistics: Global<f32>,
    /// The output as [`ConvPrepareArgs`](super::prepare::ConvPrepareArgs) would give it to the convolution that follows, or none;
    /// only for whole units of outputs
    pub prepared: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Units of input channels.
    pub units: u32,
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
    /// The code of a [`Rounding`]; TF32 needs compute capability 8.0.
    pub precision: u32,
    /// Of the GPU: they decide which tile is faster.
    pub multiprocessors: u32,
    /// 1 if the prepared output passes ELU.
    pub prepared_elu: u32,
}

impl TensorConvArgs {
    /// Units behind the last one that the kernels load, and multiply with zeros or not at all: those that fill the last round, and
    /// a round more.
    pub(super) const UNITS_BEHIND: u32 = 2 * ROUND - 1;

    /// Floats of the output's statistics.
    pub const fn statistics_len(&self) -> usize {
        statistics_len(self.images, self.out_blocks, self.height * self.width)
    }

    #[inline(always)]
    pub(super) fn rows_per_image(&self) -> u32 {
        rows_per_image(self.height * self.width, self.statistics)
    }

    fn grid(&self, tile: u32) -> [u32; 2] {
        let rows = self.images * self.rows_per_image();
        [rows.div_ceil(tile), (self.out_blocks * BLOCK as u32).div_ceil(tile)]
    }

    /// Both tiles add in the same order, so the choice does not change any bit.
    fn tile(&self) -> u32 {
        let large = LARGE_COST.of(self.grid(LARGE), self.multiprocessors);
        let small = SMALL_COST.of(self.grid(SMALL), self.multiprocessors);
        if large < small { LARGE } else { SMALL }
    }
}

// SAFETY: repr(C), words of eight bytes and ten of four.
unsafe impl Arguments for TensorConvArgs {
    fn kernel(&self) -> &'static str {
        match (self.precision == Rounding::F16.code(), self.tile()) {
            (true, LARGE) => "conv_f16_128x128",
            (true, _) => "conv_f16_64x64",
            (false, LARGE) => "conv_tf32_128x128",
            (false, _) => "conv_tf32_64x64",
        }
    }
    /// Panics if there are more than [`MOST_IN_BLOCKS`] units, or 4 GiB of input.
    fn launch(&self) -> Launch {
        assert!(self.units <= MOST_IN_BLOCKS, "a convolution of too many input channels");
        let pixels = u64::from(self.images) * u64::from(self.height * self.width);
        let bytes = pixels * u64::from(self.units) * 32;
        assert!(
            bytes <= u64::from(u32::MAX),
            "the kernels address a prepared map with 32 bits"
        );
        Launch {
            grid: self.grid(self.tile()),
            threads: 2 * self.tile(),
        }
    }
}

/// Words of four bytes of packed weights, with zeros for the units behind the last one.
pub const fn packed_tensor_words(precision: Rounding, outputs: usize, inputs: usize, taps: usize) -> usize {
    (precision.units(inputs) * taps + TensorConvArgs::UNITS_BEHIND as usize) * padded(outputs) * 8
}

/// Weights `[outputs, inputs, taps]` as `[unit][tap][plane][outputs padded][16 bytes]`, rounded; zeros where a channel is
/// padding. A word is one TF32 number or two halves, the first one low.
///
/// # Panics
/// If `weight` or `packed` has another length than the shape gives.
#[cfg(not(target_arch = "nvptx64"))]
pub fn pack_tensor_weights(
    precision: Rounding,
    weight: &[f32],
    outputs: usize,
    inputs: usize,
    taps: usize,
    packed: &mut [u32],
) {
    use super::rounding::{f16_bits, tf32};
    assert_eq!(weight.len(), outputs * inputs * taps);
    assert_eq!(packed.len(), packed_tensor_words(precision, outputs, inputs, taps));
    let (wide, unit) = (padded(outputs), precision.unit());
    packed.fill(0);
    for o in 0..outputs {
        for i in 0..inputs {
            for tap in 0..taps {
                let value = weight[(o * inputs + i) * taps + tap];
                let plane = (i / unit * taps + tap) * 2 + i % unit / (unit / 2);
                let row = (plane * wide + o) * 4;
                let within = i % (unit / 2);
                match precision {
                    Rounding::Tf32 => packed[row + within] = tf32(value).to_bits(),
                    Rounding::F16 => packed[row + within / 2] |= u32::from(f16_bits(value)) << (within % 2 * 16),
                }
            }
        }
    }
}

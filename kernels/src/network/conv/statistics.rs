//! What the norm behind a convolution needs of its output, summed up while the output is still in registers.
//!
//! A *strip* is sixteen neighbouring pixels of one image, counted from the image's first one; the last may be shorter. Of
//! each strip and channel a convolution leaves two sums: of the deviations from the strip's first pixel, which stands in
//! the output, and of the squared deviations from the strip's mean. Neither cancels where the mean is large.
//! [`NormMergeArgs`](crate::network::norm_coefficients::NormMergeArgs) merges the strips of an image.
//!
//! The bits must not depend on where in which batch an image stands, though tiles run on from image to image. So each
//! image then begins at a multiple of sixteen rows of the product: every strip is sixteen rows of one warp, in any tile.
//! Rows between the end of an image and the next are computed in vain: none for 28², 32², 16² or 64² pixels, 6 % for 14².

use crate::global::Global;
use crate::launch::BLOCK;

/// Pixels of a strip.
pub const STRIP: u32 = 16;

/// Floats of the statistics of an output: `[images, out_blocks, strips, 2, 8]`, an eighth of the output.
pub const fn statistics_len(images: u32, out_blocks: u32, pixels: u32) -> usize {
    images as usize * out_blocks as usize * pixels.div_ceil(STRIP) as usize * 2 * BLOCK
}

/// Whether leaving statistics is cheaper than reading the output once more: if no row is computed in vain. In fp32, a V100
/// reads ninety pixels while it computes one of a 3×3 layer of 256 channels (13 operations per byte).
///
/// Coefficients from statistics may differ in the last bit from those from the map, so the choice must not depend on the
/// batch.
pub const fn statistics_pay(pixels: u32) -> bool {
    pixels.is_multiple_of(STRIP)
}

/// Rows of the product from one image to the next.
#[inline(always)]
pub(super) const fn rows_per_image(pixels: u32, statistics: Global<f32>) -> u32 {
    if statistics.is_some() {
        pixels.next_multiple_of(STRIP)
    } else {
        pixels
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{WARP, shuffle, shuffle_xor, thread};
    use crate::float::Float;

    /// The strip of an output that a warp holds, and how.
    #[derive(Clone, Copy)]
    pub struct Strip {
        /// Its image, and its first pixel in it.
        pub image: u32,
        pub first: u32,
        /// Pixels and blocks of channels of an image of the output.
        pub pixels: u32,
        pub blocks: u32,
    }

    impl Strip {
        /// The two sums of `C` channels, in every lane. Lanes that differ in `bits` hold `P` pixels each of the same
        /// channels: `values`, of which `of_strip` are the numbers in the strip; 0 comes first in the lane without these
        /// bits.
        ///
        /// # Safety
        /// Every lane of the warp comes here.
        #[inline(always)]
        pub unsafe fn sums<const P: usize, const C: usize, const L: usize>(
            self,
            values: [[f32; C]; P],
            of_strip: [u32; P],
            bits: [u32; L],
        ) -> [[f32; C]; 2] {
            let count = (self.pixels - self.first).min(STRIP);
            let share = 1.0 / count as f32;
            let first_lane = thread() % WARP & !bits.iter().fold(0, |all, bit| all | bit);
            // SAFETY: the caller's promise.
            let over_lanes = |sum: f32| {
                bits.iter()
                    .fold(sum, |sum, &bit| sum + unsafe { shuffle_xor(sum, bit) })
            };
            let sums: [[f32; 2]; C] = core::array::from_fn(|c| {
                // SAFETY: the caller's promise.
                let origin = unsafe { shuffle(values[0][c], first_lane) };
                let inside = |p: usize, value: f32| if of_strip[p] < count { value } else { 0.0 };
                let deviations: [f32; P] = core::array::from_fn(|p| inside(p, values[p][c] - origin));
                let sum = over_lanes(deviations.iter().fold(0.0, |sum, d| sum + d));
                let mean = sum * share;
                let squares = (0..P).fold(0.0, |squares: f32, p| {
                    let d = inside(p, deviations[p] - mean);
                    d.fma(d, squares)
                });
                [sum, over_lanes(squares)]
            });
            [sums.map(|[sum, _]| sum), sums.map(|[_, squares]| squares)]
        }

        /// Where the sums of deviations begin for channel `column`; those of squares are a block further.
        #[inline(always)]
        pub fn place(self, column: u32) -> usize {
            let plane = self.image * self.blocks + column / BLOCK as u32;
            let strip = plane * self.pixels.div_ceil(STRIP) + self.first / STRIP;
            (strip * 2 * BLOCK as u32 + column % BLOCK as u32) as usize
        }
    }
}
#[cfg(target_arch = "nvptx64")]
pub(super) use kernel::Strip;

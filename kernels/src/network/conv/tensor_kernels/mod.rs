//! The convolution on the tensor cores: what both generations of them have in common.
//!
//! Eight warps share a tile of 128 × 128, each with 64 pixels × 32 outputs in registers; or four a tile of 64 × 64, each
//! with 32 × 32.

#[cfg(target_feature = "sm_80")]
mod ampere;
#[cfg(not(target_feature = "sm_80"))]
mod volta;

use super::rounding::{Rounding, tf32};
use super::statistics::Strip;
use super::tensor::{ROUND, TensorConvArgs};
use crate::device::{
    Shared, WARP, barrier, block, block_threads, block_y, divide, half_pair, launch_bounds, shared_memory, thread,
};
use crate::launch::BLOCK;
use crate::network::elu::elu;

/// Bytes of 16 per row: a row of a plane.
const ROW: u32 = 16;
/// From one plane to the next. The skew lets eight lanes that store four pixels of two planes touch every bank once.
const fn plane(tile: u32) -> u32 {
    tile * ROW + 64
}

/// The two planes of the input or of the weights.
const fn operand(tile: u32) -> u32 {
    2 * plane(tile)
}

/// Both operands of a unit.
const fn stage(tile: u32) -> u32 {
    2 * operand(tile)
}

/// What a thread copies at each unit: 16 bytes of one pixel and 16 bytes of the weights of one output.
struct Source {
    /// The pixel's centre tap in the first unit, and how far a unit of weights is from the next, in bytes.
    centre: u32,
    weights_step: u32,
    /// Bit t is set if tap t of this pixel lies in the image.
    inside: u32,
    /// The weights of the first unit.
    weights: u64,
    /// Places in a stage.
    input_place: u32,
    weights_place: u32,
}

impl Source {
    /// `PIXEL` is how many bytes of a unit lie together: 16 if its planes are planes in memory too, 32 if not.
    #[inline(always)]
    unsafe fn new<const PIXEL: u32, const TILE: u32>(args: &TensorConvArgs) -> Self {
        let (of_unit, in_tile) = if PIXEL == 16 {
            (thread() / TILE, thread() % TILE)
        } else {
            (thread() % 2, thread() / 2)
        };
        let pixels = args.height * args.width;
        // SAFETY: an image has rows and columns.
        let ((image, of_image), y, x) = unsafe {
            let (image, of_image) = divide(block() * TILE + in_tile, args.rows_per_image());
            let (y, x) = divide(of_image, args.width);
            ((image, of_image), y as i32, x as i32)
        };
        let mut inside = 0;
        let mut tap = 0;
        while tap < args.taps {
            let (dy, dx) = offset(tap, args);
            let (y, x) = (y + dy, x + dx);
            if y >= 0 && y < args.height as i32 && x >= 0 && x < args.width as i32 {
                inside |= 1 << tap;
            }
            tap += 1;
        }
        let (weights_plane, output) = (thread() / TILE, thread() % TILE);
        let (column, wide) = (block_y() * TILE + output, args.out_blocks * BLOCK as u32);
        // Columns past the end get weights that are there; their sums are not stored.
        let column = if column < wide { column } else { column % BLOCK as u32 };
        let plane_in_memory = if PIXEL == 16 { pixels * ROW } else { ROW };
        Self {
            centre: image * args.units * pixels * 2 * ROW + of_unit * plane_in_memory + of_image * PIXEL,
            weights_step: 2 * wide * ROW,
            inside: if image < args.images && of_image < pixels {
                inside
            } else {
                0
            },
            weights: args.weights.address() + u64::from((weights_plane * wide + column) * ROW),
            input_place: of_unit * plane(TILE) + in_tile * ROW,
            weights_place: operand(TILE) + weights_plane * plane(TILE) + output * ROW,
        }
    }

    /// Where the pixel's 16 bytes of a unit are, if they are in the image.
    #[inline(always)]
    fn input(&self, args: &TensorConvArgs, entry: [u32; 2]) -> Option<u64> {
        let [shift, bit] = entry;
        (self.inside & bit != 0).then(|| args.input.address() + u64::from(self.centre.wrapping_add(shift)))
    }
}

/// Rows and columns from the centre to a tap.
#[inline(always)]
fn offset(tap: u32, args: &TensorConvArgs) -> (i32, i32) {
    if args.taps == 1 {
        return (0, 0);
    }
    let (row, dilation) = (tap / 3, args.dilation as i32);
    ((row as i32 - 1) * dilation, ((tap - 3 * row) as i32 - 1) * dilation)
}

/// Fills the table of units: how far the input is from the centre tap of the first unit, in bytes, and the bit of its tap; 0
/// for what follows the last one.
#[inline(always)]
unsafe fn fill_table<const PIXEL: u32>(args: &TensorConvArgs, table: Shared) {
    let (pixels, units) = (args.height * args.width, args.units * args.taps);
    let mut unit = thread();
    while unit < units + TensorConvArgs::UNITS_BEHIND {
        // SAFETY: a kernel has taps, and the table an entry for each unit.
        unsafe {
            let (channels, tap) = divide(unit, args.taps);
            let (dy, dx) = offset(tap, args);
            let shift = (dy * args.width as i32 + dx) * PIXEL as i32;
            let bit = if unit < units { 1 << tap } else { 0 };
            table
                .at(unit * 8)
                .store2_u32([(shift as u32).wrapping_add(channels * pixels * 2 * ROW), bit]);
        }
        unit += block_threads();
    }
}

/// Adds bias and residual to two neighbouring outputs of a row of the product, stores them if it is a pixel, and gives
/// them.
#[inline(always)]
unsafe fn finish_pair(args: &TensorConvArgs, row: u32, column: u32, sums: [f32; 2]) -> [f32; 2] {
    let pixels = args.height * args.width;
    // SAFETY: an image has pixels; image, pixel and column are checked.
    unsafe {
        let (image, of_image) = divide(row, args.rows_per_image());
        if image >= args.images || of_image >= pixels || column >= args.out_blocks * BLOCK as u32 {
            return sums;
        }
        let plane = image * args.out_blocks + column / BLOCK as u32;
        let at = ((plane * pixels + of_image) * BLOCK as u32 + column % BLOCK as u32) as usize;
        let [mut a, mut b] = sums;
        if args.bias.is_some() {
            let [c, d] = args.bias.read2(column as usize);
            (a, b) = (a + c, b + d);
        }
        if args.residual.is_some() {
            let [c, d] = args.residual.read2(at);
            (a, b) = (a + c, b + d);
        }
        args.output.store2(at, [a, b]);
        if args.prepared.is_some() {
            store_prepared(args, at, [a, b]);
        }
        [a, b]
    }
}

/// Stores two outputs at an even place of the map as the next convolution takes them.
#[inline(always)]
unsafe fn store_prepared(args: &TensorConvArgs, at: usize, values: [f32; 2]) {
    let [a, b] = if args.prepared_elu != 0 {
        values.map(elu)
    } else {
        values
    };
    // SAFETY: a prepared map has a word for two halves, or for one TF32 number.
    unsafe {
        if args.precision == Rounding::F16.code() {
            args.prepared.store(at / 2, f32::from_bits(half_pair(a, b)));
        } else {
            args.prepared.store2(at, [tf32(a), tf32(b)]);
        }
    }
}

/// The statistics of the strip that begins at a row of the product, in two channels. This lane holds the pixels `of_strip`,
/// those that differ from it in `bits` the others.
#[inline(always)]
unsafe fn sum_up(
    args: &TensorConvArgs,
    row: u32,
    column: u32,
    values: [[f32; 2]; 2],
    of_strip: [u32; 2],
    bits: [u32; 3],
) {
    // SAFETY: an image has pixels; all lanes come here; image and column are checked.
    unsafe {
        let (image, first) = divide(row, args.rows_per_image());
        let strip = Strip {
            image,
            first,
            pixels: args.height * args.width,
            blocks: args.out_blocks,
        };
        let [sums, squares] = strip.sums(values, of_strip, bits);
        if of_strip[0] == 0 && image < args.images && column < args.out_blocks * BLOCK as u32 {
            args.statistics.store2(strip.place(column), sums);
            args.statistics.store2(strip.place(column) + BLOCK, squares);
        }
    }
}

/// This warp's first pixel and first output in the tile: it has half of the pixels, and 32 outputs.
#[inline(always)]
fn warp_place<const TILE: u32>() -> (u32, u32) {
    let warp = thread() / WARP;
    (warp % 2 * (TILE / 2), warp / 2 * 32)
}

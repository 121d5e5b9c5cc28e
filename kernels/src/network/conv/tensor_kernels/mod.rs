//! The convolution on the tensor cores: what both generations of them have in common.
//!
//! Four warps share a tile, and each has sums for all of it: of every fourth unit. So no warp needs what another one loads,
//! operands come straight into the registers that the matrix instructions read, while those before are multiplied, and
//! the main loop has no barrier. In the end the warps add up their sums, always in the same order.

#[cfg(target_feature = "sm_80")]
mod ampere;
#[cfg(not(target_feature = "sm_80"))]
mod volta;

use super::rounding::{Rounding, tf32};
use super::statistics::Strip;
use super::tensor::{TensorConvArgs, WARPS, wide};
use crate::device::{Shared, WARP, barrier, block, divide, half_pair, launch_bounds, shared_memory, thread};
use crate::global::Global;
use crate::launch::BLOCK;
use crate::network::elu::elu;

// A square of every warp for each of four warps, and the same twice.
shared_memory!(one_pass, "QCS_CONV_TENSOR_ONE_PASS", 20480);
shared_memory!(two_passes, "QCS_CONV_TENSOR_TWO_PASSES", 40960);

/// Bytes of a row of a plane.
const ROW: u32 = 16;

/// Pixels and outputs of a square, of which a lane holds eight sums.
const SQUARE: u32 = 16;
/// Bytes of a square's pixel in shared memory: lanes that store neighbouring outputs of every other pixel touch every bank once,
/// and so do those that load 32 bytes of every other pixel.
const SQUARE_ROW: u32 = 80;

/// A pixel whose operands a lane loads.
#[derive(Clone, Copy)]
struct Pixel {
    /// The lane's part of its centre tap in the first unit, in bytes.
    centre: u32,
    /// Bit t is set if tap t lies in the image.
    inside: u32,
}

impl Pixel {
    /// The pixel of a row of the product. `PIXEL` is how many bytes of a unit lie together: 16 if its planes are planes in
    /// memory too, 32 if not; `part` is the lane's place in a unit, in bytes.
    #[inline(always)]
    unsafe fn new<const PIXEL: u32>(args: &TensorConvArgs, row: u32, part: u32) -> Self {
        let pixels = args.height * args.width;
        // SAFETY: an image has rows and columns.
        let (image, of_image, y, x) = unsafe {
            let (image, of_image) = divide(row, args.rows_per_image());
            let (y, x) = divide(of_image, args.width);
            (image, of_image, y, x)
        };
        // Of the tap before, this one and the one behind, bits 0 to 2.
        let inside =
            |at: u32, size: u32| u32::from(at >= args.dilation) | 2 | u32::from(at + args.dilation < size) << 2;
        let (rows, columns) = (inside(y, args.height), inside(x, args.width));
        let inside = if args.taps == 1 {
            1
        } else {
            columns * (rows & 1) | columns << 3 | (columns * (rows >> 2)) << 6
        };
        let part = if PIXEL == ROW {
            part / ROW * pixels * ROW + part % ROW
        } else {
            part
        };
        Self {
            centre: image * args.units * pixels * 2 * ROW + of_image * PIXEL + part,
            inside: if image < args.images && of_image < pixels {
                inside
            } else {
                0
            },
        }
    }

    /// Where the lane's part of a unit is, if it is in the image.
    #[inline(always)]
    fn at(self, args: &TensorConvArgs, unit: &Unit) -> Option<u64> {
        (self.inside & unit.bit != 0).then(|| args.input.address() + u64::from(self.centre.wrapping_add(unit.shift)))
    }
}

/// The tile of this block among those of pixels and those of outputs, which are `16·N` wide. Neighbouring blocks have neighbouring
/// outputs of the same pixels: those that come to one multiprocessor, a round of all of them apart, then share weights.
#[inline(always)]
unsafe fn tile<const N: usize>(args: &TensorConvArgs) -> (u32, u32) {
    // SAFETY: there are outputs.
    unsafe { divide(block(), (args.out_blocks * BLOCK as u32).div_ceil(SQUARE * N as u32)) }
}

/// Rows and columns from the centre to a tap.
#[inline(always)]
fn offset(tap: u32, args: &TensorConvArgs) -> (i32, i32) {
    // A single tap is tap 0 of kernels without extent: by a select, because a branch would part the main loop.
    let dilation = if args.taps == 1 { 0 } else { args.dilation as i32 };
    let row = tap / 3;
    ((row as i32 - 1) * dilation, ((tap - 3 * row) as i32 - 1) * dilation)
}

/// One of a warp's units.
struct Unit {
    number: u32,
    channels: u32,
    tap: u32,
    /// How far its input is from the centre tap of the first unit, in bytes, and the bit of its tap; 0 behind the last unit.
    shift: u32,
    bit: u32,
}

impl Unit {
    /// The first one of this warp.
    #[inline(always)]
    unsafe fn first<const PIXEL: u32>(args: &TensorConvArgs) -> Self {
        let number = thread() / WARP;
        // SAFETY: a kernel has taps.
        let (channels, tap) = unsafe { divide(number, args.taps) };
        Self::new::<PIXEL>(args, number, channels, tap)
    }

    /// The one that follows.
    #[inline(always)]
    fn next<const PIXEL: u32>(&self, args: &TensorConvArgs) -> Self {
        // Of nine taps, four further is over the end once at most; of one, always. No loop and no branch: loads and products
        // find each other across it.
        let (number, tap) = (self.number + WARPS, self.tap + WARPS);
        let (single, over) = (args.taps == 1, u32::from(tap >= args.taps));
        let channels = if single { number } else { self.channels + over };
        let tap = if single { 0 } else { tap - over * args.taps };
        Self::new::<PIXEL>(args, number, channels, tap)
    }

    #[inline(always)]
    fn new<const PIXEL: u32>(args: &TensorConvArgs, number: u32, channels: u32, tap: u32) -> Self {
        let (dy, dx) = offset(tap, args);
        let shift = (dy * args.width as i32 + dx) * PIXEL as i32;
        Self {
            number,
            channels,
            tap,
            shift: (shift as u32).wrapping_add(channels * args.height * args.width * 2 * ROW),
            bit: if number < args.units * args.taps { 1 << tap } else { 0 },
        }
    }

    /// Where its weights begin.
    #[inline(always)]
    fn weights(&self, args: &TensorConvArgs) -> u64 {
        args.weights.address() + u64::from(self.number * 2 * ROW * wide(args.out_blocks * BLOCK as u32))
    }
}

/// Adds up what the warps have summed, four squares of the tile at a time, of which each warp finishes one. So many lie
/// `side_by_side`; `place` gives the pixel and the output of a lane's sum.
#[inline(always)]
unsafe fn add_up<const S: usize>(
    args: &TensorConvArgs,
    (of_pixels, of_outputs): (u32, u32),
    side_by_side: u32,
    sums: &[[f32; 8]; S],
    place: impl Fn(u32) -> (u32, u32),
) {
    let warp = thread() / WARP;
    let squares = if S > WARPS as usize { two_passes() } else { one_pass() };
    let square = |pass: u32, of_warp: u32, square: u32| {
        squares.at(((pass % 2 * WARPS + of_warp) * WARPS + square) * SQUARE * SQUARE_ROW)
    };
    let (first_row, first_output) = (of_pixels * (S as u32 / side_by_side), of_outputs * side_by_side);
    // SAFETY: all threads take every barrier; a square is written again after a barrier behind which it has been read.
    unsafe {
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! pass {
            ($($pass:literal: $($of_pass:literal)*;)*) => { $(
                if S > $pass * WARPS as usize {
                    $( if let Some(sums) = sums.get($pass * WARPS as usize + $of_pass) {
                        for i in 0..8 {
                            let (pixel, output) = place(i as u32);
                            square($pass, warp, $of_pass).at(pixel * SQUARE_ROW + output * 4).store(sums[i]);
                        }
                    } )*
                    barrier();
                    let [a, b, c, d] = core::array::from_fn(|w| load_mine(square($pass, w as u32, warp)));
                    let (row, column) = (($pass * WARPS + warp) / side_by_side, ($pass * WARPS + warp) % side_by_side);
                    let total = |half: usize| core::array::from_fn(|i| (a[half][i] + b[half][i]) + (c[half][i] + d[half][i]));
                    let (row, block) = ((first_row + row) * SQUARE, (first_output + column) * (SQUARE / BLOCK as u32));
                    finish(args, row, block, total(0));
                    finish(args, row, block + 1, total(1));
                }
            )* };
        }
        pass!(0: 0 1 2 3; 1: 0 1 2 3; 2: 0 1 2 3; 3: 0 1 2 3;);
    }
}

/// What of a square this lane finishes: a pixel, and four outputs of each of its two blocks, from this one on.
#[inline(always)]
fn mine() -> (u32, u32) {
    let lane = thread() % WARP;
    (lane / 2 % 4 * 2 + lane / 8 % 2 + lane / 16 * 8, lane % 2 * 4)
}

#[inline(always)]
unsafe fn load_mine(square: Shared) -> [[f32; 4]; 2] {
    let (pixel, output) = mine();
    let place = square.at(pixel * SQUARE_ROW + output * 4);
    // SAFETY: the caller's promise.
    unsafe { [place.load4(), place.at(BLOCK as u32 * 4).load4()] }
}

/// Adds bias and residual to four sums of a pixel, of the square that begins at this row of the product, and stores what comes of
/// it.
#[inline(always)]
unsafe fn finish(args: &TensorConvArgs, row: u32, block: u32, sums: [f32; 4]) {
    let (pixels, (of_strip, channel)) = (args.height * args.width, mine());
    let mut values = sums;
    // SAFETY: an image has pixels; image, pixel and block are checked; all lanes come to the statistics.
    unsafe {
        let (image, first) = divide(row, args.rows_per_image());
        let (of_row, of_image) = divide(row + of_strip, args.rows_per_image());
        if of_row < args.images && of_image < pixels && block < args.out_blocks {
            let at = (((of_row * args.out_blocks + block) * pixels + of_image) * BLOCK as u32 + channel) as usize;
            let add = |values: [f32; 4], more: [f32; 4]| core::array::from_fn(|i| values[i] + more[i]);
            if args.bias.is_some() {
                values = add(values, args.bias.read4((block * BLOCK as u32 + channel) as usize));
            }
            if args.residual.is_some() {
                values = add(values, args.residual.read4(at));
            }
            args.output.store4(at, values);
            if args.prepared.is_some() {
                store_prepared(args, at, values);
            }
        }
        if args.statistics.is_some() {
            let strip = Strip {
                image,
                first,
                pixels,
                blocks: args.out_blocks,
            };
            let [sums, squares] = strip.sums([values], [of_strip], [2, 4, 8, 16]);
            if of_strip == 0 && image < args.images && block < args.out_blocks {
                let place = strip.place(block * BLOCK as u32 + channel);
                args.statistics.store4(place, sums);
                args.statistics.store4(place + BLOCK, squares);
            }
        }
    }
}

/// Stores four outputs as the next convolution takes them.
#[inline(always)]
unsafe fn store_prepared(args: &TensorConvArgs, at: usize, values: [f32; 4]) {
    let values = if args.prepared_elu != 0 {
        values.map(elu)
    } else {
        values
    };
    // SAFETY: a prepared map has a word for two halves, or for one TF32 number.
    unsafe {
        if args.precision == Rounding::F16.code() {
            let [a, b, c, d] = values;
            let halves = [half_pair(a, b), half_pair(c, d)].map(f32::from_bits);
            args.prepared.store2(at / 2, halves);
        } else {
            args.prepared.store4(at, values.map(tf32));
        }
    }
}

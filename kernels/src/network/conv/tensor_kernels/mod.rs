//! The convolution on the tensor cores: what both generations of them have in common.
//!
//! Four warps share a tile, and each has sums for all of it: of every fourth unit. So no warp needs what another one loads,
//! operands come straight into the registers that the matrix instructions read, while those before are multiplied, and
//! the main loop has no barrier. In the end the warps add up their sums, always in the same order.

#[cfg(target_feature = "sm_80")]
mod ampere;
#[cfg(not(target_feature = "sm_80"))]
mod volta;

use super::rounding::tf32;
use super::statistics::Strip;
use super::tensor::{TensorConvArgs, WARPS, wide};
use crate::device::{Shared, WARP, barrier, block, half_pair, launch_bounds, shared_memory, thread};
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
    fn new<const PIXEL: u32>(args: &TensorConvArgs, row: u32, part: u32) -> Self {
        let pixels = args.height * args.width;
        let (image, of_image) = args.rows.divide(row);
        let (y, x) = args.columns.divide(of_image);
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

/// The tile of this block among those of pixels and those of outputs. Neighbouring blocks have neighbouring
/// outputs of the same pixels: those that come to one multiprocessor, a round of all of them apart, then share weights.
#[inline(always)]
fn tile(args: &TensorConvArgs) -> (u32, u32) {
    args.tiles.divide(block())
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
    fn first<const PIXEL: u32>(args: &TensorConvArgs) -> Self {
        // Taps are nine, or one.
        let number = thread() / WARP;
        let (channels, tap) = if args.taps == 1 { (number, 0) } else { (0, number) };
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

/// Adds up what the warps have summed, four squares of the tile at a time, of which each warp finishes one. `N` lie side by side;
/// `place` gives the pixel and the output of a lane's sum. What memory gives is asked for ahead: the bias, which all squares of a warp
/// share, before the first barrier, and the residual of a square before the sums of the one before are loaded.
#[expect(unused_assignments, reason = "no square follows the last")]
#[inline(always)]
unsafe fn add_up<const PIXEL: u32, const N: usize, const S: usize>(
    args: &TensorConvArgs,
    (of_pixels, of_outputs): (u32, u32),
    sums: &[[f32; 8]; S],
    place: impl Fn(u32) -> (u32, u32),
) {
    let warp = thread() / WARP;
    let squares = if S > WARPS as usize { two_passes() } else { one_pass() };
    let square = |pass: u32, of_warp: u32, square: u32| {
        squares.at(((pass % 2 * WARPS + of_warp) * WARPS + square) * SQUARE * SQUARE_ROW)
    };
    let (first_row, column) = (of_pixels * (S / N) as u32, of_outputs * N as u32 + warp % N as u32);
    let block = column * (SQUARE / BLOCK as u32);
    // SAFETY: all threads take every barrier; a square is written again after a barrier behind which it has been read.
    unsafe {
        let bias = load_bias(args, block);
        let begin = |pass: u32| Square::begin(args, (first_row + (pass * WARPS + warp) / N as u32) * SQUARE, block);
        let mut next = begin(0);
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
                    let mine = next;
                    if S > ($pass + 1) * WARPS as usize {
                        next = begin($pass + 1);
                    }
                    barrier();
                    let [a, b, c, d] = core::array::from_fn(|w| load_mine(square($pass, w as u32, warp)));
                    let total = |half: usize| core::array::from_fn(|i| (a[half][i] + b[half][i]) + (c[half][i] + d[half][i]));
                    let [[first, second], residual] = [bias, mine.residual];
                    mine.finish::<PIXEL>(args, (block, 0), first, residual[0], total(0));
                    mine.finish::<PIXEL>(args, (block, 1), second, residual[1], total(1));
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

/// The bias of this lane's outputs in two blocks, if there is one.
#[inline(always)]
unsafe fn load_bias(args: &TensorConvArgs, block: u32) -> [[f32; 4]; 2] {
    let (_, channel) = mine();
    core::array::from_fn(|half| {
        let block = block + half as u32;
        if args.bias.is_some() && block < args.out_blocks {
            // SAFETY: the block is one of the output's.
            unsafe { args.bias.read4((block * BLOCK as u32 + channel) as usize) }
        } else {
            [0.0; 4]
        }
    })
}

/// A square that this warp finishes: a strip of pixels and two blocks of outputs.
#[derive(Clone, Copy)]
struct Square {
    /// Image of the strip, and its first pixel.
    image: u32,
    first: u32,
    /// Where this lane's outputs of the first block are, and how many of the two blocks are the output's: none where the pixel is not.
    at: u32,
    blocks: u32,
    residual: [[f32; 4]; 2],
}

impl Square {
    /// The one that begins at this row of the product.
    #[inline(always)]
    unsafe fn begin(args: &TensorConvArgs, row: u32, block: u32) -> Self {
        let (pixels, (of_strip, channel)) = (args.height * args.width, mine());
        let ((image, first), (of_row, of_image)) = (args.rows.divide(row), args.rows.divide(row + of_strip));
        let inside = of_row < args.images && of_image < pixels && block < args.out_blocks;
        let blocks = if inside { (args.out_blocks - block).min(2) } else { 0 };
        let at = ((of_row * args.out_blocks + block) * pixels + of_image) * BLOCK as u32 + channel;
        let residual = core::array::from_fn(|half| {
            if args.residual.is_some() && (half as u32) < blocks {
                // SAFETY: pixel and block are the output's.
                unsafe { args.residual.read4((at + half as u32 * pixels * BLOCK as u32) as usize) }
            } else {
                [0.0; 4]
            }
        });
        Self {
            image,
            first,
            at,
            blocks,
            residual,
        }
    }

    /// Adds bias and residual to this lane's sums of the first or the second block, and stores what comes of it.
    #[inline(always)]
    unsafe fn finish<const PIXEL: u32>(
        self,
        args: &TensorConvArgs,
        (block, half): (u32, u32),
        bias: [f32; 4],
        residual: [f32; 4],
        sums: [f32; 4],
    ) {
        let (pixels, (of_strip, channel)) = (args.height * args.width, mine());
        let (mut values, block) = (sums, block + half);
        let add = |values: [f32; 4], more: [f32; 4]| core::array::from_fn(|i| values[i] + more[i]);
        if args.bias.is_some() {
            values = add(values, bias);
        }
        if args.residual.is_some() {
            values = add(values, residual);
        }
        // SAFETY: pixel and block are the output's; all lanes come to the statistics.
        unsafe {
            if half < self.blocks {
                let at = (self.at + half * pixels * BLOCK as u32) as usize;
                args.output.store4(at, values);
                if args.prepared.is_some() {
                    store_prepared::<PIXEL>(args, at, values);
                }
            }
            if args.statistics.is_some() {
                let strip = Strip {
                    image: self.image,
                    first: self.first,
                    pixels,
                    blocks: args.out_blocks,
                };
                let [sums, squares] = strip.sums([values], [of_strip], [2, 4, 8, 16]);
                if of_strip == 0 && self.image < args.images && block < args.out_blocks {
                    let place = strip.place(block * BLOCK as u32 + channel);
                    args.statistics.store4(place, sums);
                    args.statistics.store4(place + BLOCK, squares);
                }
            }
        }
    }
}

/// Stores four outputs as the next convolution takes them.
#[inline(always)]
unsafe fn store_prepared<const PIXEL: u32>(args: &TensorConvArgs, at: usize, values: [f32; 4]) {
    let values = if args.prepared_elu != 0 {
        values.map(elu)
    } else {
        values
    };
    // SAFETY: a prepared map has a word for two halves, or for one TF32 number.
    unsafe {
        if PIXEL == ROW {
            let [a, b, c, d] = values;
            let halves = [half_pair(a, b), half_pair(c, d)].map(f32::from_bits);
            args.prepared.store2(at / 2, halves);
        } else {
            args.prepared.store4(at, values.map(tf32));
        }
    }
}

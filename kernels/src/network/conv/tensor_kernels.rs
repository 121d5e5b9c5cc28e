//! The convolution on the tensor cores, for each generation of them.
//!
//! Eight warps share a tile of 128 × 128: each sums 64 pixels × 32 outputs in registers. From compute capability 8.0 on,
//! copies into shared memory run on their own, three units ahead, and `ldmatrix` brings fragments into registers: 6 of
//! them for 16 matrix instructions. Volta has neither: there a unit is loaded into registers while the one before is
//! computed, and fragments are read 16 bytes per lane, 12 reads for 32 matrix instructions.

use super::tensor::{OUTPUTS, PIXELS, THREADS, TensorConvArgs};
use crate::device::{Shared, WARP, barrier, block, block_y, divide, launch_bounds, shared_memory, thread};
use crate::launch::BLOCK;

/// Bytes of 16 per row: a row of a plane.
const ROW: u32 = 16;
/// From one plane to the next. The skew lets eight lanes that store four pixels of two planes touch every bank once.
const PLANE: u32 = PIXELS * ROW + 64;
/// The two planes of the input or of the weights.
const OPERAND: u32 = 2 * PLANE;
/// Both operands of a unit.
const STAGE: u32 = 2 * OPERAND;

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
    unsafe fn new<const PIXEL: u32>(args: &TensorConvArgs) -> Self {
        let (plane, in_tile) = if PIXEL == 16 {
            (thread() / PIXELS, thread() % PIXELS)
        } else {
            (thread() % 2, thread() / 2)
        };
        let pixels = args.height * args.width;
        // SAFETY: an image has rows and columns.
        let ((image, of_image), y, x) = unsafe {
            let (image, of_image) = divide(block() * PIXELS + in_tile, pixels);
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
        let (weights_plane, output) = (thread() / OUTPUTS, thread() % OUTPUTS);
        let (column, wide) = (block_y() * OUTPUTS + output, args.out_blocks * BLOCK as u32);
        // Columns past the end get weights that are there; their sums are not stored.
        let column = if column < wide { column } else { column % BLOCK as u32 };
        let plane_in_memory = if PIXEL == 16 { pixels * ROW } else { ROW };
        Self {
            centre: image * args.units * pixels * 2 * ROW + plane * plane_in_memory + of_image * PIXEL,
            weights_step: 2 * wide * ROW,
            inside: if image < args.images { inside } else { 0 },
            weights: args.weights.address() + u64::from((weights_plane * wide + column) * ROW),
            input_place: plane * PLANE + in_tile * ROW,
            weights_place: OPERAND + weights_plane * PLANE + output * ROW,
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

/// Fills the table of units: how far the input is from the centre tap of the first unit, in bytes, and the bit of its tap.
#[inline(always)]
unsafe fn fill_table<const PIXEL: u32>(args: &TensorConvArgs, table: Shared) {
    let pixels = args.height * args.width;
    let mut unit = thread();
    while unit < args.units * args.taps {
        // SAFETY: a kernel has taps, and the table an entry for each unit.
        unsafe {
            let (channels, tap) = divide(unit, args.taps);
            let (dy, dx) = offset(tap, args);
            let shift = (dy * args.width as i32 + dx) * PIXEL as i32;
            table
                .at(unit * 8)
                .store2_u32([(shift as u32).wrapping_add(channels * pixels * 2 * ROW), 1 << tap]);
        }
        unit += THREADS;
    }
}

/// Adds bias and residual to two neighbouring outputs of a pixel of the batch, and stores them.
#[inline(always)]
unsafe fn finish_pair(args: &TensorConvArgs, pixel: u32, column: u32, sums: [f32; 2]) {
    let pixels = args.height * args.width;
    // SAFETY: an image has pixels; image and column are checked.
    unsafe {
        let (image, of_image) = divide(pixel, pixels);
        if image >= args.images || column >= args.out_blocks * BLOCK as u32 {
            return;
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
    }
}

/// This warp's first pixel and first output in the tile: two rows of four warps.
#[inline(always)]
fn warp_place() -> (u32, u32) {
    let warp = thread() / WARP;
    (warp % 2 * 64, warp / 2 * 32)
}

#[cfg(target_feature = "sm_80")]
mod ampere {
    use super::*;
    use crate::device::{copy16, end_copies, multiply_f16, multiply_tf32, wait_for_copies};

    /// Units that are on their way or being computed.
    const STAGES: u32 = 4;

    // Four stages, and a table of up to 64 · 9 units.
    shared_memory!(stages, "QCS_CONV_TENSOR", 38400);

    /// Starts the copies of a unit, or of none, as a group of its own.
    #[inline(always)]
    unsafe fn copy(args: &TensorConvArgs, source: &Source, unit: u32) {
        if unit < args.units * args.taps {
            // SAFETY: stage and table are there, and so is the source: the first pixel stands in for one outside.
            unsafe {
                let stage = stages().at(unit % STAGES * STAGE);
                let input = source.input(args, stages().at(STAGES * STAGE + unit * 8).load2_u32());
                copy16(
                    stage.at(source.input_place),
                    input.unwrap_or(args.input.address()),
                    input.is_none(),
                );
                copy16(
                    stage.at(source.weights_place),
                    source.weights + u64::from(unit * source.weights_step),
                    false,
                );
            }
        }
        end_copies();
    }

    #[inline(always)]
    unsafe fn conv<const PIXEL: u32>(args: &TensorConvArgs, multiply: unsafe fn(&mut [f32; 4], [u32; 4], [u32; 2])) {
        // SAFETY: all threads take every barrier. A stage is filled again after the barrier behind which all warps have
        // read it.
        unsafe {
            let source = Source::new::<PIXEL>(args);
            fill_table::<PIXEL>(args, stages().at(STAGES * STAGE));
            barrier();
            let (first_pixel, first_output) = warp_place();
            let lane = thread() % WARP;
            // Rows of the four matrices that a lane names: pixels 0 to 7, 8 to 15 of one plane, then of the other...
            let input_row = lane / 16 * PLANE + (first_pixel + lane % 16) * ROW;
            // ...and outputs 0 to 7 of both planes, then 8 to 15.
            let weights_row = lane / 8 % 2 * PLANE + (first_output + lane / 16 * 8 + lane % 8) * ROW;
            let mut sums = [[[0.0; 4]; 4]; 4];
            copy(args, &source, 0);
            copy(args, &source, 1);
            copy(args, &source, 2);
            let mut unit = 0;
            while unit < args.units * args.taps {
                wait_for_copies::<{ STAGES - 2 }>();
                barrier();
                copy(args, &source, unit + STAGES - 1);
                let stage = stages().at(unit % STAGES * STAGE);
                let weights: [[u32; 4]; 2] =
                    core::array::from_fn(|n| stage.at(OPERAND + weights_row + n as u32 * 16 * ROW).load_matrices());
                for m in 0..4 {
                    let input = stage.at(input_row + m as u32 * 16 * ROW).load_matrices();
                    for n in 0..2 {
                        let [a, b, c, d] = weights[n];
                        multiply(&mut sums[m][2 * n], input, [a, b]);
                        multiply(&mut sums[m][2 * n + 1], input, [c, d]);
                    }
                }
                unit += 1;
            }
            // A lane holds outputs 2·(lane % 4) and the next of pixels lane / 4 and 8 further.
            let pixel = block() * PIXELS + first_pixel + lane / 4;
            let column = block_y() * OUTPUTS + first_output + lane % 4 * 2;
            macro_rules! finish {
                ($($m:literal $n:literal)*) => { $(
                    let [a, b, c, d] = sums[$m][$n];
                    finish_pair(args, pixel + $m * 16, column + $n * 8, [a, b]);
                    finish_pair(args, pixel + $m * 16 + 8, column + $n * 8, [c, d]);
                )* };
            }
            finish!(0 0  0 1  0 2  0 3  1 0  1 1  1 2  1 3  2 0  2 1  2 2  2 3  3 0  3 1  3 2  3 3);
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_f16_128x128(args: TensorConvArgs) {
        launch_bounds::<THREADS, 2>();
        // SAFETY: the launch covers pixels and outputs.
        unsafe { conv::<16>(&args, multiply_f16) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_tf32_128x128(args: TensorConvArgs) {
        launch_bounds::<THREADS, 2>();
        // SAFETY: the launch covers pixels and outputs.
        unsafe { conv::<32>(&args, multiply_tf32) }
    }
}

#[cfg(not(target_feature = "sm_80"))]
mod volta {
    use super::*;
    use crate::device::multiply_8x8x4;
    use crate::global::Global;

    // Two stages, and a table of up to 64 · 9 units and one more.
    shared_memory!(stages, "QCS_CONV_TENSOR", 21520);
    const TABLE: u32 = 2 * STAGE;

    /// 16 bytes of input and of weights on their way.
    #[derive(Clone, Copy)]
    struct Operands {
        input: [f32; 4],
        weights: [f32; 4],
    }

    #[inline(always)]
    unsafe fn load(args: &TensorConvArgs, source: &Source, unit: u32) -> Operands {
        // SAFETY: the unit is there; the input is loaded where it is in the image.
        unsafe {
            let input = source.input(args, stages().at(TABLE + unit * 8).load2_u32());
            Operands {
                input: match input {
                    Some(address) => Global::new(address).read4(0),
                    None => [0.0; 4],
                },
                weights: Global::new(source.weights + u64::from(unit * source.weights_step)).read4(0),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(source: &Source, stage: u32, operands: Operands) {
        // SAFETY: the places lie in the stage.
        unsafe {
            stages().at(stage * STAGE + source.input_place).store4(operands.input);
            stages()
                .at(stage * STAGE + source.weights_place)
                .store4(operands.weights);
        }
    }

    /// Sixteen bytes of a plane: two matrix instructions of four halves each.
    #[inline(always)]
    unsafe fn fragment(place: Shared) -> [[u32; 2]; 2] {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { place.load4() }.map(f32::to_bits);
        [[a, b], [c, d]]
    }

    /// Which rows and columns are a lane's. Lanes 4q to 4q + 3 and 16 further form quad pair q, which multiplies 8 × 8;
    /// the four pairs form a square. The columns of two neighbouring pairs interlock, 4 by 4: so eight neighbouring lanes
    /// read 128 neighbouring bytes of weights, and two pairs share their rows of input.
    struct Lane {
        input_row: u32,
        weights_row: u32,
    }

    impl Lane {
        #[inline(always)]
        fn new() -> Self {
            let lane = thread() % WARP;
            let (pair, upper) = (lane / 4 % 4, lane / 16);
            Self {
                input_row: pair / 2 * 8 + lane % 4 + upper * 4,
                weights_row: pair % 2 * 4 + lane % 4 + upper * 8,
            }
        }

        /// Row and first column of sums i and i + 1, in a square of 16 × 16.
        #[inline(always)]
        fn of_sum(i: u32) -> (u32, u32) {
            let lane = thread() % WARP;
            let (pair, upper) = (lane / 4 % 4, lane / 16);
            (
                pair / 2 * 8 + lane % 2 + (i & 2) + upper * 4,
                pair % 2 * 4 + (lane & 2) + (i & 4) * 2,
            )
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_f16_128x128(args: TensorConvArgs) {
        launch_bounds::<THREADS, 2>();
        // SAFETY: the launch covers pixels and outputs; all threads take every barrier, and a stage is filled while the
        // other one is read.
        unsafe {
            let source = Source::new::<16>(&args);
            fill_table::<16>(&args, stages().at(TABLE));
            barrier();
            let (first_pixel, first_output) = warp_place();
            let lane = Lane::new();
            let input_row = (first_pixel + lane.input_row) * ROW;
            let weights_row = OPERAND + (first_output + lane.weights_row) * ROW;
            let mut sums = [[[0.0; 8]; 2]; 4];
            store(&source, 0, load(&args, &source, 0));
            barrier();
            let units = args.units * args.taps;
            let mut unit = 0;
            while unit < units {
                // In the last round the last unit is loaded once more, and not used.
                let next = if unit + 1 < units { unit + 1 } else { unit };
                let operands = load(&args, &source, next);
                let stage = stages().at(unit % 2 * STAGE);
                for plane in 0..2 {
                    let place = stage.at(plane * PLANE);
                    let weights: [[[u32; 2]; 2]; 2] =
                        core::array::from_fn(|n| fragment(place.at(weights_row + n as u32 * 16 * ROW)));
                    for m in 0..4 {
                        let input = fragment(place.at(input_row + m as u32 * 16 * ROW));
                        for n in 0..2 {
                            multiply_8x8x4(&mut sums[m][n], input[0], weights[n][0]);
                            multiply_8x8x4(&mut sums[m][n], input[1], weights[n][1]);
                        }
                    }
                }
                unit += 1;
                store(&source, unit % 2, operands);
                barrier();
            }
            let (pixel, column) = (block() * PIXELS + first_pixel, block_y() * OUTPUTS + first_output);
            macro_rules! finish {
                ($($m:literal $n:literal)*) => { $(
                    let [a, b, c, d, e, f, g, h] = sums[$m][$n];
                    let pair = |i: u32, sums: [f32; 2]| {
                        let (row, of_pair) = Lane::of_sum(i);
                        finish_pair(&args, pixel + $m * 16 + row, column + $n * 16 + of_pair, sums);
                    };
                    pair(0, [a, b]);
                    pair(2, [c, d]);
                    pair(4, [e, f]);
                    pair(6, [g, h]);
                )* };
            }
            finish!(0 0  0 1  1 0  1 1  2 0  2 1  3 0  3 1);
        }
    }
}

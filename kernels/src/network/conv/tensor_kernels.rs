//! The convolution on the tensor cores, for each generation of them.
//!
//! Eight warps share a tile of 128 × 128, each with 64 pixels × 32 outputs in registers; or four a tile of 64 × 64, each
//! with 32 × 32. From compute capability 8.0 on, copies into shared memory run on their own, three units ahead, and
//! `ldmatrix` brings fragments into registers: 6 of them for 16 matrix instructions, 4 for 8 in the small tile. Volta has
//! neither: there a unit is loaded into registers while the one before is computed, and fragments are read 16 bytes per
//! lane, 12 reads for 32 matrix instructions, or 8 for 16.

use super::tensor::TensorConvArgs;
use crate::device::{
    Shared, WARP, barrier, block, block_threads, block_y, divide, launch_bounds, shared_memory, thread,
};
use crate::launch::BLOCK;

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
            let (image, of_image) = divide(block() * TILE + in_tile, pixels);
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
            inside: if image < args.images { inside } else { 0 },
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
        unit += block_threads();
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

/// This warp's first pixel and first output in the tile: it has half of the pixels, and 32 outputs.
#[inline(always)]
fn warp_place<const TILE: u32>() -> (u32, u32) {
    let warp = thread() / WARP;
    (warp % 2 * (TILE / 2), warp / 2 * 32)
}

#[cfg(target_feature = "sm_80")]
mod ampere {
    use super::*;
    use crate::device::{copy16, end_copies, multiply_f16, multiply_tf32, wait_for_copies};

    /// Units that are on their way or being computed.
    const STAGES: u32 = 4;

    // Four stages, and a table of up to 64 · 9 units.
    shared_memory!(large, "QCS_CONV_TENSOR_128", 38400);
    shared_memory!(small, "QCS_CONV_TENSOR_64", 22016);

    /// Starts the copies of a unit, or of none, as a group of its own.
    #[inline(always)]
    unsafe fn copy<const TILE: u32>(args: &TensorConvArgs, source: &Source, stages: Shared, unit: u32) {
        if unit < args.units * args.taps {
            // SAFETY: stage and table are there, and so is the source: the first pixel stands in for one outside.
            unsafe {
                let to = stages.at(unit % STAGES * stage(TILE));
                let input = source.input(args, stages.at(STAGES * stage(TILE) + unit * 8).load2_u32());
                copy16(
                    to.at(source.input_place),
                    input.unwrap_or(args.input.address()),
                    input.is_none(),
                );
                copy16(
                    to.at(source.weights_place),
                    source.weights + u64::from(unit * source.weights_step),
                    false,
                );
            }
        }
        end_copies();
    }

    /// `PIXEL` as for [`Source::new`]; `M` times 16 pixels are a warp's.
    #[inline(always)]
    unsafe fn conv<const PIXEL: u32, const TILE: u32, const M: usize>(
        args: &TensorConvArgs,
        stages: Shared,
        multiply: unsafe fn(&mut [f32; 4], [u32; 4], [u32; 2]),
    ) {
        // SAFETY: all threads take every barrier. A stage is filled again after the barrier behind which all warps have
        // read it.
        unsafe {
            let source = Source::new::<PIXEL, TILE>(args);
            fill_table::<PIXEL>(args, stages.at(STAGES * stage(TILE)));
            barrier();
            let (first_pixel, first_output) = warp_place::<TILE>();
            let lane = thread() % WARP;
            // Rows of the four matrices that a lane names: pixels 0 to 7, 8 to 15 of one plane, then of the other...
            let input_row = lane / 16 * plane(TILE) + (first_pixel + lane % 16) * ROW;
            // ...and outputs 0 to 7 of both planes, then 8 to 15.
            let weights_row = lane / 8 % 2 * plane(TILE) + (first_output + lane / 16 * 8 + lane % 8) * ROW;
            let mut sums = [[[0.0; 4]; 4]; M];
            copy::<TILE>(args, &source, stages, 0);
            copy::<TILE>(args, &source, stages, 1);
            copy::<TILE>(args, &source, stages, 2);
            let mut unit = 0;
            while unit < args.units * args.taps {
                wait_for_copies::<{ STAGES - 2 }>();
                barrier();
                copy::<TILE>(args, &source, stages, unit + STAGES - 1);
                let from = stages.at(unit % STAGES * stage(TILE));
                let weights: [[u32; 4]; 2] = core::array::from_fn(|n| {
                    from.at(operand(TILE) + weights_row + n as u32 * 16 * ROW)
                        .load_matrices()
                });
                for m in 0..M {
                    let input = from.at(input_row + m as u32 * 16 * ROW).load_matrices();
                    for n in 0..2 {
                        let [a, b, c, d] = weights[n];
                        multiply(&mut sums[m][2 * n], input, [a, b]);
                        multiply(&mut sums[m][2 * n + 1], input, [c, d]);
                    }
                }
                unit += 1;
            }
            // A lane holds outputs 2·(lane % 4) and the next of pixels lane / 4 and 8 further.
            let pixel = block() * TILE + first_pixel + lane / 4;
            let column = block_y() * TILE + first_output + lane % 4 * 2;
            // Unrolled by hand: a loop would keep the sums in memory.
            macro_rules! finish {
                ($($m:literal $n:literal)*) => { $(
                    if let Some(sums) = sums.get($m) {
                        let [a, b, c, d] = sums[$n];
                        finish_pair(args, pixel + $m * 16, column + $n * 8, [a, b]);
                        finish_pair(args, pixel + $m * 16 + 8, column + $n * 8, [c, d]);
                    }
                )* };
            }
            finish!(0 0  0 1  0 2  0 3  1 0  1 1  1 2  1 3  2 0  2 1  2 2  2 3  3 0  3 1  3 2  3 3);
        }
    }

    macro_rules! kernels {
        ($($name:ident: $pixel:literal, $tile:literal, $m:literal, $shared:ident, $multiply:ident, $blocks:literal;)*) => { $(
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: TensorConvArgs) {
                launch_bounds::<{ 2 * $tile }, $blocks>();
                // SAFETY: the launch covers pixels and outputs with tiles of this size.
                unsafe { conv::<$pixel, $tile, $m>(&args, $shared(), $multiply) }
            }
        )* };
    }

    kernels! {
        conv_f16_128x128: 16, 128, 4, large, multiply_f16, 2;
        conv_f16_64x64: 16, 64, 2, small, multiply_f16, 4;
        conv_tf32_128x128: 32, 128, 4, large, multiply_tf32, 2;
        conv_tf32_64x64: 32, 64, 2, small, multiply_tf32, 4;
    }
}

#[cfg(not(target_feature = "sm_80"))]
mod volta {
    use super::*;
    use crate::device::multiply_8x8x4;
    use crate::global::Global;

    // Two stages, and a table of up to 64 · 9 units and one more.
    shared_memory!(large, "QCS_CONV_TENSOR_128", 21520);
    shared_memory!(small, "QCS_CONV_TENSOR_64", 13328);

    /// 16 bytes of input and of weights on their way.
    #[derive(Clone, Copy)]
    struct Operands {
        input: [f32; 4],
        weights: [f32; 4],
    }

    #[inline(always)]
    unsafe fn load(args: &TensorConvArgs, source: &Source, table: Shared, unit: u32) -> Operands {
        // SAFETY: the unit is there; the input is loaded where it is in the image.
        unsafe {
            let input = source.input(args, table.at(unit * 8).load2_u32());
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
    unsafe fn store(source: &Source, to: Shared, operands: Operands) {
        // SAFETY: the places lie in a stage.
        unsafe {
            to.at(source.input_place).store4(operands.input);
            to.at(source.weights_place).store4(operands.weights);
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

    /// `M` times 16 pixels are a warp's.
    #[inline(always)]
    unsafe fn conv<const TILE: u32, const M: usize>(args: &TensorConvArgs, stages: Shared) {
        // SAFETY: all threads take every barrier, and a stage is filled while the other one is read.
        unsafe {
            let table = stages.at(2 * stage(TILE));
            let source = Source::new::<16, TILE>(args);
            fill_table::<16>(args, table);
            barrier();
            let (first_pixel, first_output) = warp_place::<TILE>();
            let lane = Lane::new();
            let input_row = (first_pixel + lane.input_row) * ROW;
            let weights_row = operand(TILE) + (first_output + lane.weights_row) * ROW;
            let mut sums = [[[0.0; 8]; 2]; M];
            store(&source, stages, load(args, &source, table, 0));
            barrier();
            let units = args.units * args.taps;
            let mut unit = 0;
            while unit < units {
                // In the last round the last unit is loaded once more, and not used.
                let next = if unit + 1 < units { unit + 1 } else { unit };
                let operands = load(args, &source, table, next);
                let from = stages.at(unit % 2 * stage(TILE));
                for of_unit in 0..2 {
                    let from = from.at(of_unit * plane(TILE));
                    let weights: [[[u32; 2]; 2]; 2] =
                        core::array::from_fn(|n| fragment(from.at(weights_row + n as u32 * 16 * ROW)));
                    for m in 0..M {
                        let input = fragment(from.at(input_row + m as u32 * 16 * ROW));
                        for n in 0..2 {
                            multiply_8x8x4(&mut sums[m][n], input[0], weights[n][0]);
                            multiply_8x8x4(&mut sums[m][n], input[1], weights[n][1]);
                        }
                    }
                }
                unit += 1;
                store(&source, stages.at(unit % 2 * stage(TILE)), operands);
                barrier();
            }
            let (pixel, column) = (block() * TILE + first_pixel, block_y() * TILE + first_output);
            // Unrolled by hand: a loop would keep the sums in memory.
            macro_rules! finish {
                ($($m:literal $n:literal)*) => { $(
                    if let Some(sums) = sums.get($m) {
                        let [a, b, c, d, e, f, g, h] = sums[$n];
                        let pair = |i: u32, sums: [f32; 2]| {
                            let (row, of_pair) = Lane::of_sum(i);
                            finish_pair(args, pixel + $m * 16 + row, column + $n * 16 + of_pair, sums);
                        };
                        pair(0, [a, b]);
                        pair(2, [c, d]);
                        pair(4, [e, f]);
                        pair(6, [g, h]);
                    }
                )* };
            }
            finish!(0 0  0 1  1 0  1 1  2 0  2 1  3 0  3 1);
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_f16_128x128(args: TensorConvArgs) {
        launch_bounds::<256, 2>();
        // SAFETY: the launch covers pixels and outputs with tiles of this size.
        unsafe { conv::<128, 4>(&args, large()) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn conv_f16_64x64(args: TensorConvArgs) {
        launch_bounds::<128, 4>();
        // SAFETY: the launch covers pixels and outputs with tiles of this size.
        unsafe { conv::<64, 2>(&args, small()) }
    }
}

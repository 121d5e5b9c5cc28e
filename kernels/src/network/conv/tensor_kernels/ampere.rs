//! From compute capability 8.0 on, copies into shared memory run on their own, three units ahead, and `ldmatrix` brings
//! fragments into registers: 6 of them for 16 matrix instructions, 4 for 8 in the small tile.

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
        let (row, of_strip) = (block() * TILE + first_pixel, lane / 4);
        let column = block_y() * TILE + first_output + lane % 4 * 2;
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! finish {
            ($($m:literal $n:literal)*) => { $(
                if let Some(sums) = sums.get($m) {
                    let [a, b, c, d] = sums[$n];
                    let (row, column) = (row + $m * 16, column + $n * 8);
                    let values = [
                        finish_pair(args, row + of_strip, column, [a, b]),
                        finish_pair(args, row + of_strip + 8, column, [c, d]),
                    ];
                    if args.statistics.is_some() {
                        sum_up(args, row, column, values, [of_strip, of_strip + 8], [4, 8, 16]);
                    }
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

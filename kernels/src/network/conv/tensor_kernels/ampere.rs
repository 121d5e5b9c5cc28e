//! From compute capability 8.0 on, copies into shared memory run on their own, a round ahead, or two with the small tile, and
//! `ldmatrix` brings fragments into registers: 6 of them for 16 matrix instructions, 4 for 8 in the small tile.

use super::*;
use crate::device::{copy16, end_copies, multiply_f16, multiply_tf32, wait_for_copies};

// Two rounds of two units, or three, and a table of up to 64 · 9 units and three more.
shared_memory!(large, "QCS_CONV_TENSOR_128", 38432);
shared_memory!(small, "QCS_CONV_TENSOR_64", 30752);

/// Starts the copies of a round that begins with `unit`, or of none, as a group of its own.
#[inline(always)]
unsafe fn copy<const TILE: u32>(args: &TensorConvArgs, source: &Source, table: Shared, to: Shared, unit: u32) {
    if unit < args.units * args.taps {
        for of_round in 0..ROUND {
            let (unit, to) = (unit + of_round, to.at(of_round * stage(TILE)));
            // SAFETY: stages and table are there, and so is the source: the first pixel stands in for one outside.
            unsafe {
                let input = source.input(args, table.at(unit * 8).load2_u32());
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
    }
    end_copies();
}

/// `PIXEL` as for [`Source::new`]; `M` times 16 pixels are a warp's; of `ROUNDS` one is computed while the others are on their way,
/// `LATER` of them after the next.
#[inline(always)]
unsafe fn conv<const PIXEL: u32, const TILE: u32, const M: usize, const ROUNDS: u32, const LATER: u32>(
    args: &TensorConvArgs,
    stages: Shared,
    multiply: unsafe fn(&mut [f32; 4], [u32; 4], [u32; 2]),
) {
    // SAFETY: all threads take every barrier. A round is filled again after the barrier behind which all warps have
    // read it.
    unsafe {
        let round = ROUND * stage(TILE);
        let table = stages.at(ROUNDS * round);
        let source = Source::new::<PIXEL, TILE>(args);
        fill_table::<PIXEL>(args, table);
        barrier();
        let (first_pixel, first_output) = warp_place::<TILE>();
        let lane = thread() % WARP;
        // Rows of the four matrices that a lane names: pixels 0 to 7, 8 to 15 of one plane, then of the other...
        let input_row = lane / 16 * plane(TILE) + (first_pixel + lane % 16) * ROW;
        // ...and outputs 0 to 7 of both planes, then 8 to 15.
        let weights_row = lane / 8 % 2 * plane(TILE) + (first_output + lane / 16 * 8 + lane % 8) * ROW;
        let mut sums = [[[0.0; 4]; 4]; M];
        for ahead in 0..=LATER {
            copy::<TILE>(args, &source, table, stages.at(ahead * round), ahead * ROUND);
        }
        let next = |place: u32| {
            if place == (ROUNDS - 1) * round {
                0
            } else {
                place + round
            }
        };
        let (mut unit, mut from, mut to) = (0, 0, (LATER + 1) * round);
        while unit < args.units * args.taps {
            wait_for_copies::<LATER>();
            barrier();
            copy::<TILE>(args, &source, table, stages.at(to), unit + (LATER + 1) * ROUND);
            for of_round in 0..ROUND {
                let from = stages.at(from + of_round * stage(TILE));
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
            }
            (from, to) = (next(from), next(to));
            unit += ROUND;
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
    ($($name:ident: $pixel:literal, $tile:literal, $m:literal, $later:literal, $shared:ident, $multiply:ident, $blocks:literal;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: TensorConvArgs) {
            launch_bounds::<{ 2 * $tile }, $blocks>();
            // SAFETY: the launch covers pixels and outputs with tiles of this size.
            unsafe { conv::<$pixel, $tile, $m, { $later + 2 }, $later>(&args, $shared(), $multiply) }
        }
    )* };
}

kernels! {
    conv_f16_128x128: 16, 128, 4, 0, large, multiply_f16, 2;
    conv_f16_64x64: 16, 64, 2, 1, small, multiply_f16, 4;
    conv_tf32_128x128: 32, 128, 4, 0, large, multiply_tf32, 2;
    conv_tf32_64x64: 32, 64, 2, 1, small, multiply_tf32, 4;
}

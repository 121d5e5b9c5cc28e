//! Volta has neither asynchronous copies nor `ldmatrix`: a unit is loaded into registers while the one before is computed,
//! and fragments are read 16 bytes per lane, 12 reads for 32 matrix instructions, or 8 for 16 in the small tile.

use super::*;
use crate::device::multiply_8x8x4;
use crate::global::Global;

// Two rounds of two units, and a table of up to 64 · 9 units and three more.
shared_memory!(large, "QCS_CONV_TENSOR_128", 38432);
shared_memory!(small, "QCS_CONV_TENSOR_64", 22048);

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
    // SAFETY: all threads take every barrier, and the stages of a round are filled while those of the other one are read.
    unsafe {
        let round = ROUND * stage(TILE);
        let table = stages.at(2 * round);
        let source = Source::new::<16, TILE>(args);
        fill_table::<16>(args, table);
        barrier();
        let (first_pixel, first_output) = warp_place::<TILE>();
        let lane = Lane::new();
        let input_row = (first_pixel + lane.input_row) * ROW;
        let weights_row = operand(TILE) + (first_output + lane.weights_row) * ROW;
        let mut sums = [[[0.0; 8]; 2]; M];
        for of_round in 0..ROUND {
            let operands = load(args, &source, table, of_round);
            store(&source, stages.at(of_round * stage(TILE)), operands);
        }
        barrier();
        let units = args.units * args.taps;
        let (mut unit, mut from, mut to) = (0, stages, stages.at(round));
        while unit < units {
            unit += ROUND;
            for of_round in 0..ROUND {
                // Behind the last unit zeros are loaded, and not used.
                let operands = load(args, &source, table, unit + of_round);
                let from = from.at(of_round * stage(TILE));
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
                store(&source, to.at(of_round * stage(TILE)), operands);
            }
            (from, to) = (to, from);
            barrier();
        }
        let (row, column) = (block() * TILE + first_pixel, block_y() * TILE + first_output);
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! finish {
            ($($m:literal $n:literal)*) => { $(
                if let Some(sums) = sums.get($m) {
                    let [a, b, c, d, e, f, g, h] = sums[$n];
                    let pairs = |i: u32, sums: [[f32; 2]; 2]| {
                        let (row, [(first, of_pair), (second, _)]) = (row + $m * 16, [i, i + 2].map(Lane::of_sum));
                        let column = column + $n * 16 + of_pair;
                        let values = [
                            finish_pair(args, row + first, column, sums[0]),
                            finish_pair(args, row + second, column, sums[1]),
                        ];
                        if args.statistics.is_some() {
                            sum_up(args, row, column, values, [first, second], [1, 16, 8]);
                        }
                    };
                    pairs(0, [[a, b], [c, d]]);
                    pairs(4, [[e, f], [g, h]]);
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

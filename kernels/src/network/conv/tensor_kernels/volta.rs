//! Volta multiplies four channels at a time: 16 bytes, half of a pixel's or an output's unit, are the operands of two matrix
//! instructions.

use super::*;
use crate::device::multiply_8x8x4;

/// Strips of pixels of a tile.
const M: usize = 4;

/// A plane of a tile with `N` times 16 outputs.
#[derive(Clone, Copy)]
struct Operands<const N: usize> {
    input: [[u32; 4]; M],
    weights: [[u32; 4]; N],
}

/// `of_unit` is the plane.
#[inline(always)]
unsafe fn load<const N: usize>(
    args: &TensorConvArgs,
    pixels: &[Pixel; M],
    of_weights: u32,
    unit: &Unit,
    of_unit: u32,
) -> Operands<N> {
    let plane = of_unit * ROW * wide(args.out_blocks * BLOCK as u32);
    let weights = Global::<f32>::new(unit.weights(args) + u64::from(of_weights + plane));
    let of_input = (of_unit * args.height * args.width * ROW / 4) as usize;
    // SAFETY: the input is loaded where it is in the image; behind the last unit there are weights.
    unsafe {
        Operands {
            input: pixels.map(|pixel| match pixel.at(args, unit) {
                Some(address) => Global::<f32>::new(address).read4(of_input).map(f32::to_bits),
                None => [0; 4],
            }),
            weights: core::array::from_fn(|n| weights.read4(n * (SQUARE * ROW / 4) as usize).map(f32::to_bits)),
        }
    }
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

    /// Pixel and output of sum i in a square.
    #[inline(always)]
    fn of_sum(i: u32) -> (u32, u32) {
        let lane = thread() % WARP;
        let (pair, upper) = (lane / 4 % 4, lane / 16);
        (
            pair / 2 * 8 + lane % 2 + (i & 2) + upper * 4,
            pair % 2 * 4 + (lane & 2) + (i & 4) * 2 + i % 2,
        )
    }
}

/// A tile has `N` times 16 outputs, and so `S` squares.
#[inline(always)]
unsafe fn conv<const N: usize, const S: usize>(args: &TensorConvArgs) {
    // SAFETY: all threads come to the end.
    unsafe {
        let (lane, (of_pixels, of_outputs)) = (Lane::new(), tile(args));
        let pixels: [Pixel; M] = core::array::from_fn(|m| {
            let row = (of_pixels * M as u32 + m as u32) * SQUARE + lane.input_row;
            Pixel::new::<ROW>(args, row, 0)
        });
        let of_weights = (of_outputs * N as u32 * SQUARE + lane.weights_row) * ROW;
        let mut sums = [[[0.0; 8]; N]; M];
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! add {
            ($operands:ident: $($m:literal)*) => { $(
                let [a, b, c, d] = $operands.input[$m];
                // First the first halves of all squares: the two products of one square depend on each other, and would wait.
                for n in 0..N {
                    let [e, f, _, _] = $operands.weights[n];
                    multiply_8x8x4(&mut sums[$m][n], [a, b], [e, f]);
                }
                for n in 0..N {
                    let [_, _, g, h] = $operands.weights[n];
                    multiply_8x8x4(&mut sums[$m][n], [c, d], [g, h]);
                }
            )* };
        }
        let mut unit = Unit::first::<ROW>(args);
        let mut first = load::<N>(args, &pixels, of_weights, &unit, 0);
        while unit.number < args.units * args.taps {
            let second = load::<N>(args, &pixels, of_weights, &unit, 1);
            // In front of the products, among which its arithmetic then finds room.
            let next = unit.next::<ROW>(args);
            add!(first: 0 1 2 3);
            first = load(args, &pixels, of_weights, &next, 0);
            add!(second: 0 1 2 3);
            unit = next;
        }
        let squares: [[f32; 8]; S] = core::array::from_fn(|s| sums[s / N][s % N]);
        add_up::<ROW, N, S>(args, (of_pixels, of_outputs), &squares, Lane::of_sum);
    }
}

macro_rules! kernels {
    ($($name:ident: $n:literal, $blocks:literal;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: TensorConvArgs) {
            launch_bounds::<{ WARPS * WARP }, $blocks>();
            // SAFETY: the launch covers pixels and outputs with tiles of this size.
            unsafe { conv::<$n, { 4 * $n }>(&args) }
        }
    )* };
}

kernels! {
    conv_f16_64x64: 4, 2;
    conv_f16_64x32: 2, 2;
    conv_f16_64x16: 1, 4;
}

//! From compute capability 8.0 on, a matrix instruction takes a whole unit, 16 outputs and eight pixels.
//!
//! Which channel stands where in its depth does not matter as long as both operands agree. So lane 4r + c has eight bytes of a
//! pixel that lie together, part c of a unit; and of outputs r and r + 8 the same, in the order of the registers:
//! weights are packed so.

use super::*;
use crate::device::{multiply_f16, multiply_tf32};

/// Times eight pixels, a tile's.
const P: usize = 8;

/// A unit of a tile with `N` times 16 outputs.
#[derive(Clone, Copy)]
struct Operands<const N: usize> {
    input: [[u32; 2]; P],
    weights: [[u32; 4]; N],
}

/// `of_weights` is where the lane's part of a unit's weights begins.
#[inline(always)]
unsafe fn load<const N: usize>(
    args: &TensorConvArgs,
    pixels: &[Pixel; P],
    of_weights: u32,
    unit: &Unit,
) -> Operands<N> {
    let weights = Global::<f32>::new(unit.weights(args) + u64::from(of_weights));
    // SAFETY: the input is loaded where it is in the image; behind the last unit there are weights.
    unsafe {
        Operands {
            input: pixels.map(|pixel| match pixel.at(args, unit) {
                Some(address) => Global::<f32>::new(address).read2(0).map(f32::to_bits),
                None => [0; 2],
            }),
            weights: core::array::from_fn(|n| weights.read4(n * 4 * WARP as usize).map(f32::to_bits)),
        }
    }
}

/// `PIXEL` as for [`Pixel::new`]; a tile has `N` times 16 outputs, and so `S` squares.
#[inline(always)]
unsafe fn conv<const PIXEL: u32, const N: usize, const S: usize>(
    args: &TensorConvArgs,
    multiply: unsafe fn(&mut [f32; 4], [u32; 4], [u32; 2]),
) {
    // SAFETY: all threads come to the end.
    unsafe {
        let (lane, (of_pixels, of_outputs)) = (thread() % WARP, tile(args));
        let pixels: [Pixel; P] = core::array::from_fn(|p| {
            let row = (of_pixels * P as u32 + p as u32) * 8 + lane / 4;
            Pixel::new::<PIXEL>(args, row, lane % 4 * 8)
        });
        let of_weights = (of_outputs * N as u32 * WARP + lane) * ROW;
        let mut sums = [[[0.0; 4]; N]; P];
        // Unrolled by hand: a loop would keep the sums in memory.
        macro_rules! add {
            ($operands:ident: $($p:literal)*) => { $(
                for n in 0..N {
                    multiply(&mut sums[$p][n], $operands.weights[n], $operands.input[$p]);
                }
            )* };
        }
        let mut unit = Unit::first::<PIXEL>(args);
        // The unit to be loaded is known a pass before: its loads need not wait for its arithmetic.
        let mut next = unit.next::<PIXEL>(args);
        let mut even = load::<N>(args, &pixels, of_weights, &unit);
        while unit.number < args.units * args.taps {
            let odd = load::<N>(args, &pixels, of_weights, &next);
            unit = next.next::<PIXEL>(args);
            add!(even: 0 1 2 3 4 5 6 7);
            even = load(args, &pixels, of_weights, &unit);
            next = unit.next::<PIXEL>(args);
            add!(odd: 0 1 2 3 4 5 6 7);
        }
        let squares: [[f32; 8]; S] = core::array::from_fn(|s| {
            let (p, n) = (s / N * 2, s % N);
            let ([a, b, c, d], [e, f, g, h]) = (sums[p][n], sums[p + 1][n]);
            [a, b, c, d, e, f, g, h]
        });
        // Of eight pixels, a lane has 2·(lane % 4) and the next of output lane / 4, and of the output 8 further.
        let place = |i: u32| (i / 4 * 8 + lane % 4 * 2 + i % 2, i / 2 % 2 * 8 + lane / 4);
        add_up::<PIXEL, N, S>(args, (of_pixels, of_outputs), &squares, place);
    }
}

macro_rules! kernels {
    ($($name:ident: $pixel:literal, $n:literal, $multiply:ident, $blocks:literal;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name(args: TensorConvArgs) {
            launch_bounds::<{ WARPS * WARP }, $blocks>();
            // SAFETY: the launch covers pixels and outputs with tiles of this size.
            unsafe { conv::<$pixel, $n, { 4 * $n }>(&args, $multiply) }
        }
    )* };
}

kernels! {
    conv_f16_64x64: 16, 4, multiply_f16, 2;
    conv_f16_64x32: 16, 2, multiply_f16, 3;
    conv_f16_64x16: 16, 1, multiply_f16, 4;
    conv_tf32_64x64: 32, 4, multiply_tf32, 2;
    conv_tf32_64x32: 32, 2, multiply_tf32, 3;
    conv_tf32_64x16: 32, 1, multiply_tf32, 4;
}

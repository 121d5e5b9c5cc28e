//! The convolution on the tensor cores: what its kernels have in common.
//!
//! The same product of matrices as in fp32, cut along its depth into *units*: one tap of as many channels as a matrix
//! instruction takes, 16 in half precision or 8 in TF32. A unit is two *planes* of 16 bytes per pixel or output. The four warps of
//! a block deal the units among them and add up their sums in the end: so every output is summed in the same order in
//! tiles of any size.

use super::MOST_STEPS;
use super::rounding::Rounding;
use super::statistics::{rows_per_image, statistics_len};
use crate::divisor::Divisor;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Warps of a block.
pub(super) const WARPS: u32 = 4;

/// Pixels of a tile. The more they are, the fewer blocks read all weights; of the input, blocks that share it read a ninth.
const PIXELS: u32 = 64;

/// Outputs of a tile, and what it costs a multiprocessor.
#[derive(Clone, Copy, Debug)]
struct Tile {
    outputs: u32,
    /// Cycles of a pass of the main loop and of all outside of it, with one, two and more blocks at a time, in half precision: as
    /// `RESOURCES.md` reads them in the machine code.
    volta: &'static [(u32, u32)],
    ampere: &'static [(u32, u32)],
    /// Names of the kernels in half precision and in TF32.
    kernels: [&'static str; 2],
}

/// Narrow ones are for layers of few outputs, and for those whose wide tiles would leave multiprocessors without work.
const TILES: [Tile; 3] = [
    Tile {
        outputs: 64,
        volta: &[(862, 3478), (1161, 4270)],
        ampere: &[(833, 3735), (1184, 4566)],
        kernels: ["conv_f16_64x64", "conv_tf32_64x64"],
    },
    Tile {
        outputs: 32,
        volta: &[(621, 2225), (710, 2781)],
        ampere: &[(570, 2521), (602, 3250), (1008, 3734)],
        kernels: ["conv_f16_64x32", "conv_tf32_64x32"],
    },
    Tile {
        outputs: 16,
        volta: &[(656, 1613), (716, 2015), (748, 2376), (916, 2647)],
        ampere: &[(532, 1892), (572, 2359), (637, 3573), (911, 3874)],
        kernels: ["conv_f16_64x16", "conv_tf32_64x16"],
    },
];

/// Outputs as the kernels see them: whole tiles.
#[inline(always)]
pub(super) const fn wide(outputs: u32) -> u32 {
    outputs.next_multiple_of(64)
}

/// output = conv(prepared input) + bias + residual, products rounded to the input's precision, sums in f32
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TensorConvArgs {
    /// As [`ConvPrepareArgs`](super::prepare::ConvPrepareArgs) gives it
    pub input: Global<f32>,
    /// As [`pack_tensor_weights`] gives them
    pub weights: Global<f32>,
    /// `[8·out_blocks]`, or none
    pub bias: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`, or none
    pub residual: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`
    pub output: Global<f32>,
    /// [`TensorConvArgs::statistics_len`] floats of [`statistics`](super::statistics) of the output, or none
    pub statistics: Global<f32>,
    /// The output as [`ConvPrepareArgs`](super::prepare::ConvPrepareArgs) would give it to the convolution that follows, or none;
    /// only for whole units of outputs
    pub prepared: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Units of input channels.
    pub units: u32,
    /// Blocks of eight output channels.
    pub out_blocks: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// 9 for a 3×3 kernel, 1 for 1×1.
    pub taps: u32,
    /// Distance of the taps in pixels.
    pub dilation: u32,
    /// The code of a [`Rounding`]; TF32 needs compute capability 8.0.
    pub precision: u32,
    /// Which of the tiles; [`tiled`](Self::tiled) sets it and the divisors.
    pub tile: u32,
    /// 1 if the prepared output passes ELU.
    pub prepared_elu: u32,
    /// Rows of the product from one image to the next, columns of an image, and tiles side by side.
    pub rows: Divisor,
    /// As `width`.
    pub columns: Divisor,
    /// Of outputs.
    pub tiles: Divisor,
}

impl TensorConvArgs {
    /// Units behind the last one whose weights the kernels load, and multiply with zeros or not at all: two of each warp.
    const UNITS_BEHIND: u32 = 2 * WARPS;

    /// Floats of the output's statistics.
    pub const fn statistics_len(&self) -> usize {
        statistics_len(self.images, self.out_blocks, self.height * self.width)
    }

    fn rows_per_image(&self) -> u32 {
        rows_per_image(self.height * self.width, self.statistics)
    }

    /// With the tile that is the fastest on such a GPU, and the divisors that follow from the rest.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn tiled(self, generation: Generation, multiprocessors: u32) -> Self {
        let rows = self.images * self.rows_per_image();
        let tile = best_tile(
            rows,
            self.units * self.taps,
            self.out_blocks,
            generation,
            multiprocessors,
        );
        let [_, tiles] = self.grid(TILES[tile]);
        Self {
            tile: tile as u32,
            rows: Divisor::of(self.rows_per_image()),
            columns: Divisor::of(self.width),
            tiles: Divisor::of(tiles),
            ..self
        }
    }

    fn grid(&self, tile: Tile) -> [u32; 2] {
        grid(tile, self.images * self.rows_per_image(), self.out_blocks)
    }

    fn tile(&self) -> Tile {
        TILES[self.tile as usize]
    }
}

fn grid(tile: Tile, rows: u32, out_blocks: u32) -> [u32; 2] {
    [
        rows.div_ceil(PIXELS),
        (out_blocks * BLOCK as u32).div_ceil(tile.outputs),
    ]
}

/// Cycles of the busiest multiprocessor: rounds of as many blocks as it holds, and of those that are left.
#[cfg(not(target_arch = "nvptx64"))]
fn cycles(tile: Tile, rows: u32, units: u32, out_blocks: u32, generation: Generation, multiprocessors: u32) -> u64 {
    let [x, y] = grid(tile, rows, out_blocks);
    let (of_held, of_pass) = match generation {
        Generation::Volta => (tile.volta, WARPS),
        // A pass of Ampere's is two units of each warp.
        Generation::Ampere => (tile.ampere, 2 * WARPS),
    };
    let round = |blocks: usize| match blocks {
        0 => 0,
        n => u64::from(units.div_ceil(of_pass)) * u64::from(of_held[n - 1].0) + u64::from(of_held[n - 1].1),
    };
    let given = (x * y).div_ceil(multiprocessors.max(1)) as usize;
    (given / of_held.len()) as u64 * round(of_held.len()) + round(given % of_held.len())
}

/// The tile with which the busiest multiprocessor is done first, of equals the widest.
#[cfg(not(target_arch = "nvptx64"))]
fn best_tile(rows: u32, units: u32, out_blocks: u32, generation: Generation, multiprocessors: u32) -> usize {
    let cost = |tile: &usize| cycles(TILES[*tile], rows, units, out_blocks, generation, multiprocessors);
    (0..TILES.len()).min_by_key(cost).unwrap_or(0)
}

/// Cycles, roughly, that a product of so many pixels and units takes the busiest multiprocessor.
#[cfg(not(target_arch = "nvptx64"))]
pub fn tensor_effort(pixels: u32, units: u32, out_blocks: u32, generation: Generation, multiprocessors: u32) -> u64 {
    let tile = best_tile(pixels, units, out_blocks, generation, multiprocessors);
    cycles(TILES[tile], pixels, units, out_blocks, generation, multiprocessors)
}

// SAFETY: repr(C), words of eight bytes and sixteen of four.
unsafe impl Arguments for TensorConvArgs {
    fn kernel(&self) -> &'static str {
        let [half, tf32] = self.tile().kernels;
        if self.precision == Rounding::F16.code() {
            half
        } else {
            tf32
        }
    }
    /// Panics if there are more than [`MOST_STEPS`] of them, or 4 GiB of input.
    fn launch(&self) -> Launch {
        assert!(self.units <= MOST_STEPS, "a convolution of too many input channels");
        let pixels = u64::from(self.images) * u64::from(self.height * self.width);
        let bytes = pixels * u64::from(self.units) * 32;
        assert!(
            bytes <= u64::from(u32::MAX),
            "the kernels address a prepared map with 32 bits"
        );
        let [pixels, outputs] = self.grid(self.tile());
        assert_eq!(self.tiles.by, outputs, "the divisors are not set");
        Launch {
            grid: [pixels * outputs, 1],
            threads: WARPS * 32,
        }
    }
}

/// Words of four bytes of packed weights, with zeros for the units behind the last one.
pub const fn packed_tensor_words(precision: Rounding, outputs: usize, inputs: usize, taps: usize) -> usize {
    (precision.units(inputs) * taps + TensorConvArgs::UNITS_BEHIND as usize) * wide(outputs as u32) as usize * 8
}

/// Matrix instructions of a kind: they decide in which order weights are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Compute capability 7
    Volta,
    /// 8 and later
    Ampere,
}

impl Generation {
    /// Of a GPU with this compute capability, 70 for 7.0.
    pub const fn of(capability: u32) -> Self {
        if capability < 80 { Self::Volta } else { Self::Ampere }
    }

    /// Where one of the eight words of an output stands in a unit, in words.
    #[cfg(not(target_arch = "nvptx64"))]
    const fn place(self, wide: usize, output: usize, word: usize) -> usize {
        match self {
            // [plane][output][4]
            Self::Volta => (word / 4 * wide + output) * 4 + word % 4,
            // [16 outputs][output % 8][part of two words][word of the part][output / 8]
            Self::Ampere => {
                let lane = output % 8 * 4 + word / 2;
                (output / 16 * 32 + lane) * 4 + word % 2 * 2 + output / 8 % 2
            }
        }
    }
}

/// Weights `[outputs, inputs, taps]` as `[unit][tap]` and then in the order of the generation, rounded; zeros where a channel
/// is padding. A word is one TF32 number or two halves, the first one low.
///
/// # Panics
/// If `weight` or `packed` has another length than the shape gives.
#[cfg(not(target_arch = "nvptx64"))]
pub fn pack_tensor_weights(
    generation: Generation,
    precision: Rounding,
    weight: &[f32],
    outputs: usize,
    inputs: usize,
    taps: usize,
    packed: &mut [u32],
) {
    use super::rounding::{f16_bits, tf32};
    assert_eq!(weight.len(), outputs * inputs * taps);
    assert_eq!(packed.len(), packed_tensor_words(precision, outputs, inputs, taps));
    let (wide, unit) = (wide(outputs as u32) as usize, precision.unit());
    packed.fill(0);
    for o in 0..outputs {
        for i in 0..inputs {
            for tap in 0..taps {
                let value = weight[(o * inputs + i) * taps + tap];
                let within = i % unit;
                let first = (i / unit * taps + tap) * wide * 8;
                match precision {
                    Rounding::Tf32 => packed[first + generation.place(wide, o, within)] = tf32(value).to_bits(),
                    Rounding::F16 => {
                        packed[first + generation.place(wide, o, within / 2)] |=
                            u32::from(f16_bits(value)) << (within % 2 * 16);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(images: u32, channels: u32, side: u32, generation: Generation) -> &'static str {
        let args = TensorConvArgs {
            input: Global::NONE,
            weights: Global::NONE,
            bias: Global::NONE,
            residual: Global::NONE,
            output: Global::NONE,
            statistics: Global::NONE,
            prepared: Global::NONE,
            images,
            units: channels.div_ceil(16),
            out_blocks: channels / 8,
            height: side,
            width: side,
            taps: 9,
            dilation: 1,
            precision: Rounding::F16.code(),
            tile: 0,
            prepared_elu: 0,
            rows: Divisor::NONE,
            columns: Divisor::NONE,
            tiles: Divisor::NONE,
        };
        let multiprocessors = match generation {
            Generation::Volta => 80,
            Generation::Ampere => 108,
        };
        let args = args.tiled(generation, multiprocessors);
        let [width, tiles] = args.grid(args.tile());
        assert_eq!((args.tiles.by, args.launch().grid[0]), (tiles, width * tiles));
        args.kernel()
    }

    #[test]
    fn the_tile_is_the_one_that_keeps_more_multiprocessors_busy() {
        use Generation::{Ampere, Volta};
        assert_eq!(kernel(8, 256, 16, Volta), "conv_f16_64x64", "two of 128 tiles");
        assert_eq!(
            kernel(8, 256, 16, Ampere),
            "conv_f16_64x32",
            "three of 256, not two of twice the size"
        );
        assert_eq!(kernel(1, 256, 16, Ampere), "conv_f16_64x16", "one of 64");
        assert_eq!(kernel(64, 256, 16, Ampere), "conv_f16_64x64");
    }

    #[test]
    fn a_tile_is_not_wider_than_the_layer() {
        assert_eq!(kernel(100, 32, 16, Generation::Volta), "conv_f16_64x32");
        assert_eq!(kernel(100, 8, 16, Generation::Volta), "conv_f16_64x16");
    }

    #[test]
    fn tiles_cost_what_the_machine_code_says() {
        let text = include_str!("../../../RESOURCES.md");
        for (architecture, generation) in [("## sm_70", Generation::Volta), ("## sm_80", Generation::Ampere)] {
            let table = text.split_once(architecture).unwrap().1;
            for tile in TILES {
                let row = table.lines().find(|line| line.contains(tile.kernels[0])).unwrap();
                let (pass, rest) = row.split_once("; pass ").unwrap().1.split_once(", rest ").unwrap();
                let numbers = |list: &str| -> std::vec::Vec<u32> {
                    list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
                };
                let read: std::vec::Vec<(u32, u32)> = numbers(pass).into_iter().zip(numbers(rest)).collect();
                let known = match generation {
                    Generation::Volta => tile.volta,
                    Generation::Ampere => tile.ampere,
                };
                assert_eq!(known, read, "{} of {architecture}", tile.kernels[0]);
            }
        }
    }

    #[test]
    fn every_generation_packs_every_weight_once() {
        let (outputs, inputs, taps) = (24, 20, 9);
        for precision in [Rounding::F16, Rounding::Tf32] {
            // Numbers that both roundings keep.
            let weight: std::vec::Vec<f32> = (0..outputs * inputs * taps).map(|n| (1 + n % 2047) as f32).collect();
            let packed = [Generation::Volta, Generation::Ampere].map(|generation| {
                let mut packed = std::vec![0; packed_tensor_words(precision, outputs, inputs, taps)];
                pack_tensor_weights(generation, precision, &weight, outputs, inputs, taps, &mut packed);
                packed.sort_unstable();
                packed
            });
            assert_eq!(packed[0], packed[1]);
            let per_word = precision.unit() / 8;
            let words = packed[0].iter().filter(|&&word| word != 0).count();
            assert_eq!(words, outputs * inputs.div_ceil(per_word) * taps);
        }
    }
}

//! Winograd's F(4×4, 3×3): sixteen outputs of a 3×3 filter from 36 products instead of 144.
//!
//! A tile of 6×6 inputs d becomes Bᵀ·d·B, the filter g becomes G·g·Gᵀ (once, when weights are packed), their elementwise
//! products are summed over the input channels, and Aᵀ·m·A gives 4×4 outputs. A filter of dilation d is d² ordinary ones on
//! interleaved lattices. The points are 0, ±1, ±2, ∞, which costs about one digit in f32.
//!
//! On the GPU these are three launches: [`WinogradInputArgs`](input::WinogradInputArgs) with norm and ELU,
//! [`ConvArgs`] for the sums, which are 36 matrix products, a 1×1 convolution with weights of its own for each
//! of the 36 *frequencies*, and [`WinogradOutputArgs`](output::WinogradOutputArgs) with bias, residual and statistics.

pub mod input;
pub mod output;

use super::super::padded;
use super::ConvArgs;
use crate::global::Global;
use crate::launch::BLOCK;

/// Frequencies of a tile.
pub const FREQUENCIES: usize = IN * IN;
/// Outputs per side of a tile.
pub const OUT: usize = 4;
/// Inputs per side of a tile.
pub const IN: usize = 6;

/// Threads of a block of the transforms: few, so that a small batch has blocks for every multiprocessor.
const THREADS: u32 = 128;

/// Bytes that the transforms of one launch may fill: more images are computed one part after the other.
pub const SCRATCH_BYTES: usize = 128 << 20;

/// How the maps of a layer are cut into tiles.
///
/// Tiles of different lattices alternate, so that those that stand side by side cover neighbouring pixels: four of them a
/// strip of 16, if the dilation divides 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tiling {
    /// Of the map.
    pub height: u32,
    /// Of the map.
    pub width: u32,
    /// Distance of the taps in pixels.
    pub dilation: u32,
    /// Tiles below each other, of all lattices.
    pub rows: u32,
    /// Tiles side by side, of all lattices.
    pub columns: u32,
}

impl Tiling {
    /// Of a map of this size.
    pub const fn new(height: u32, width: u32, dilation: u32) -> Self {
        Self {
            height,
            width,
            dilation,
            rows: dilation * height.div_ceil(dilation).div_ceil(OUT as u32),
            columns: dilation * width.div_ceil(dilation).div_ceil(OUT as u32),
        }
    }

    /// Tiles of an image.
    #[inline(always)]
    pub const fn per_image(&self) -> u32 {
        self.rows * self.columns
    }

    /// Whether Winograd's algorithm is faster than a direct sum. The choice is one of the layer's shape alone: bits must
    /// depend neither on the batch nor on the GPU.
    ///
    /// Of a tile, 36 products of `in_blocks × out_blocks` replace 144; what the transforms move through memory costs a V100 as
    /// much as twelve more blocks on either side, by `benches/predict`. From 64 channels on that pays for whole tiles, from 96
    /// for maps of 14×14, whose tiles stand out.
    pub const fn pays(&self, in_blocks: u32, out_blocks: u32) -> bool {
        let products = in_blocks as u64 * out_blocks as u64;
        let moves = 12 * (in_blocks as u64 + out_blocks as u64);
        36 * self.per_image() as u64 * (products + moves) < 9 * self.height as u64 * self.width as u64 * products
    }

    /// Whether the output's statistics can be summed up on the way: strips must be whole, and in one warp.
    pub const fn fills_strips(&self) -> bool {
        self.width.is_multiple_of(super::statistics::STRIP) && (OUT as u32).is_multiple_of(self.dilation)
    }

    /// Bytes of the transformed inputs and the sums of an image.
    const fn bytes_per_image(&self, in_blocks: u32, out_blocks: u32) -> usize {
        4 * FREQUENCIES * self.per_image() as usize * (in_blocks + out_blocks) as usize * BLOCK
    }

    /// Images that are computed at a time in so many bytes of scratch memory.
    pub const fn images_at_a_time(&self, scratch_bytes: usize, in_blocks: u32, out_blocks: u32) -> u32 {
        (scratch_bytes / self.bytes_per_image(in_blocks, out_blocks)) as u32
    }

    /// Bytes of the scratch memory of a layer, `most` of them or what one image needs: parts of the batch are as equal as can be.
    pub const fn scratch_bytes(&self, most: usize, images: u32, in_blocks: u32, out_blocks: u32) -> usize {
        let most = self.images_at_a_time(most, in_blocks, out_blocks);
        let parts = images.div_ceil(if most == 0 { 1 } else { most });
        images.div_ceil(parts) as usize * self.bytes_per_image(in_blocks, out_blocks)
    }
}

/// Floats of the 36 maps that `images` of `blocks` channels become.
pub const fn transformed_len(tiling: &Tiling, images: u32, blocks: u32) -> usize {
    FREQUENCIES * (images * tiling.per_image() * blocks) as usize * BLOCK
}

/// The sums over the input channels: `sums[f] = transformed[f]·weights[f]` for every frequency f.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// `[36, in_blocks, tiles, 8]`
    pub transformed: Global<f32>,
    /// As [`pack_winograd_weights`] gives them
    pub weights: Global<f32>,
    /// `[36, out_blocks, tiles, 8]`
    pub sums: Global<f32>,
    /// Of all images.
    pub tiles: u32,
    /// Blocks of eight input channels.
    pub in_blocks: u32,
    /// Blocks of eight output channels.
    pub out_blocks: u32,
    /// Of the GPU.
    pub multiprocessors: u32,
}

impl Product {
    /// As a 1×1 convolution of 36 "images", each with weights of its own.
    pub const fn args(&self) -> ConvArgs {
        ConvArgs {
            input: self.transformed,
            coefficients: Global::NONE,
            weights: self.weights,
            bias: Global::NONE,
            residual: Global::NONE,
            output: self.sums,
            statistics: Global::NONE,
            images: FREQUENCIES as u32,
            in_blocks: self.in_blocks,
            out_blocks: self.out_blocks,
            height: 1,
            width: self.tiles,
            taps: 1,
            dilation: 1,
            elu: 0,
            multiprocessors: self.multiprocessors,
            weights_per_image: self.in_blocks * self.out_blocks * (BLOCK * BLOCK) as u32,
        }
    }
}

/// G of F(4×4, 3×3).
const G: [[f64; 3]; IN] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

/// G·g·Gᵀ of one 3×3 filter, rounded once.
pub fn transform_filter(g: &[f32; 9]) -> [f32; FREQUENCIES] {
    core::array::from_fn(|f| {
        let (row, column) = (f / IN, f % IN);
        let mut sum = 0.0;
        for (i, a) in G[row].iter().enumerate() {
            for (j, b) in G[column].iter().enumerate() {
                sum += a * f64::from(g[3 * i + j]) * b;
            }
        }
        sum as f32
    })
}

/// Floats of packed weights, with a step more, which the kernels load and do not use.
pub const fn packed_winograd_len(outputs: usize, inputs: usize) -> usize {
    (FREQUENCIES * padded(inputs) + BLOCK) * padded(outputs)
}

/// Weights `[outputs, inputs, 3, 3]` as `[frequency][inputs padded][outputs padded]`, zeros where a channel is padding.
///
/// # Panics
/// If `weight` or `packed` has another length than the shape gives.
pub fn pack_winograd_weights(weight: &[f32], outputs: usize, inputs: usize, packed: &mut [f32]) {
    assert_eq!(weight.len(), outputs * inputs * 9);
    assert_eq!(packed.len(), packed_winograd_len(outputs, inputs));
    let wide = padded(outputs);
    packed.fill(0.0);
    for (at, filter) in weight.as_chunks().0.iter().enumerate() {
        let (o, i) = (at / inputs, at % inputs);
        for (f, value) in transform_filter(filter).into_iter().enumerate() {
            packed[(f * padded(inputs) + i) * wide + o] = value;
        }
    }
}

/// Bᵀ·d, for numbers of which `fma(a, b, c)` makes a·b + c.
#[inline(always)]
pub fn transform_inputs<T: Copy>(d: [T; IN], fma: impl Fn(f32, T, T) -> T) -> [T; IN] {
    let (even1, odd1) = (fma(-4.0, d[2], d[4]), fma(-4.0, d[1], d[3]));
    let (even2, odd2) = (fma(-1.0, d[2], d[4]), fma(-1.0, d[1], d[3]));
    [
        fma(4.0, d[0], fma(-5.0, d[2], d[4])),
        fma(1.0, odd1, even1),
        fma(-1.0, odd1, even1),
        fma(2.0, odd2, even2),
        fma(-2.0, odd2, even2),
        fma(4.0, d[1], fma(-5.0, d[3], d[5])),
    ]
}

/// Aᵀ·m, likewise.
#[inline(always)]
pub fn transform_sums<T: Copy>(m: [T; IN], fma: impl Fn(f32, T, T) -> T) -> [T; OUT] {
    let (plus1, minus1) = (fma(1.0, m[2], m[1]), fma(-1.0, m[2], m[1]));
    let (plus2, minus2) = (fma(1.0, m[4], m[3]), fma(-1.0, m[4], m[3]));
    [
        fma(1.0, plus2, fma(1.0, plus1, m[0])),
        fma(2.0, minus2, minus1),
        fma(4.0, plus2, plus1),
        fma(1.0, m[5], fma(8.0, minus2, minus1)),
    ]
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};
    use crate::float::Float;

    /// The tile and the channel of a thread: eight channels of a tile are neighbours, then tiles, then blocks of channels.
    pub struct Place {
        /// Its number among all threads, which is its place in each of the 36 maps.
        pub index: u32,
        pub image: u32,
        /// Block of channels, and channel in it.
        pub block: u32,
        pub channel: u32,
        /// Row and column of the tile's first output; those of the same lattice are a dilation apart.
        pub row: u32,
        pub column: u32,
    }

    impl Tiling {
        /// The thread's place, if there are as many; and how many there are.
        #[inline(always)]
        pub unsafe fn place(&self, images: u32, blocks: u32) -> Option<(Place, u32)> {
            let (index, wide) = (global_thread(), BLOCK as u32);
            let tiles = images * self.per_image();
            let count = tiles * blocks * wide;
            if index >= count {
                return None;
            }
            // SAFETY: there are tiles, and a dilation.
            let place = unsafe {
                let (block, tile) = divide(index / wide, tiles);
                let (image, tile) = divide(tile, self.per_image());
                let (row, column) = divide(tile, self.columns);
                let first = |of_all: u32| {
                    let (tile, lattice) = divide(of_all, self.dilation);
                    tile * OUT as u32 * self.dilation + lattice
                };
                Place {
                    index,
                    image,
                    block,
                    channel: index % wide,
                    row: first(row),
                    column: first(column),
                }
            };
            Some((place, count))
        }
    }

    /// Written out: a loop would keep what it fills in memory.
    #[inline(always)]
    pub fn four<T>(of: impl Fn(usize) -> T) -> [T; OUT] {
        [of(0), of(1), of(2), of(3)]
    }

    #[inline(always)]
    pub fn six<T>(of: impl Fn(usize) -> T) -> [T; IN] {
        [of(0), of(1), of(2), of(3), of(4), of(5)]
    }

    #[inline(always)]
    pub fn fma(a: f32, b: f32, c: f32) -> f32 {
        b.fma(a, c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transforms_give_the_outputs_of_a_filter() {
        let fma = |a: f32, b: f64, c: f64| f64::from(a) * b + c;
        let d: [[f64; IN]; IN] =
            core::array::from_fn(|i| core::array::from_fn(|j| ((7 * i + 11 * j * j) % 13) as f64 / 6.0 - 1.0));
        let g: [f32; 9] = core::array::from_fn(|k| (k * k % 7) as f32 / 3.0 - 1.0);
        let filter = transform_filter(&g);
        let transposed = |rows: [[f64; IN]; IN]| core::array::from_fn(|j| core::array::from_fn(|i| rows[i][j]));
        let rows: [[f64; IN]; IN] = transposed(d.map(|row| transform_inputs(row, fma)));
        let columns = rows.map(|column| transform_inputs(column, fma));
        // columns[j][i] is frequency 6·i + j.
        let sums: [[f64; IN]; IN] =
            core::array::from_fn(|j| core::array::from_fn(|i| columns[j][i] * f64::from(filter[IN * i + j])));
        let halves: [[f64; OUT]; IN] = sums.map(|column| transform_sums(column, fma));
        for i in 0..OUT {
            let row = transform_sums(core::array::from_fn(|j| halves[j][i]), fma);
            for (j, value) in row.into_iter().enumerate() {
                let direct: f64 = (0..9).map(|k| f64::from(g[k]) * d[i + k / 3][j + k % 3]).sum();
                assert!((value - direct).abs() < 1e-5, "{i} {j}: {value} {direct}");
            }
        }
    }

    #[test]
    fn tiles_cover_every_pixel_once() {
        for (height, width, dilation) in [(7, 14, 1), (28, 5, 1), (16, 14, 2), (9, 1, 2), (14, 16, 4), (3, 2, 4)] {
            let tiling = Tiling::new(height, width, dilation);
            let firsts = |count: u32| {
                let first = |of_all: u32| of_all / dilation * 4 * dilation + of_all % dilation;
                (0..count).flat_map(move |at| (0..4).map(move |k| first(at) + k * dilation))
            };
            for (count, size) in [(tiling.rows, height), (tiling.columns, width)] {
                for pixel in 0..size {
                    assert_eq!(firsts(count).filter(|&at| at == pixel).count(), 1, "{pixel} of {size}");
                }
            }
        }
    }

    #[test]
    fn a_layer_is_computed_so_if_it_has_channels_and_its_tiles_lie_in_the_map() {
        let pays = |side, dilation, channels: u32| Tiling::new(side, side, dilation).pays(channels / 8, channels / 8);
        for (side, dilation) in [(32, 1), (16, 1), (16, 2), (16, 4), (64, 1), (32, 4)] {
            assert!(
                pays(side, dilation, 128) && pays(side, dilation, 256),
                "{side} {dilation}"
            );
            assert!(!pays(side, dilation, 64), "{side} {dilation}");
        }
        assert!(pays(28, 1, 72) && pays(14, 1, 96) && pays(14, 4, 128) && pays(7, 1, 96));
        assert!(!pays(5, 1, 128) && !pays(1, 1, 256));
        assert!(!Tiling::new(32, 32, 1).pays(16, 1), "the last layer");
        assert!(!Tiling::new(32, 32, 1).pays(1, 16), "the first layer");
    }

    #[test]
    fn large_batches_are_computed_in_equal_parts_that_fit() {
        let at_a_time = |tiling: Tiling, images| {
            let bytes = tiling.scratch_bytes(SCRATCH_BYTES, images, 16, 16);
            tiling.images_at_a_time(bytes, 16, 16)
        };
        let tiling = Tiling::new(32, 32, 1);
        assert_eq!([8, 64, 65].map(|images| at_a_time(tiling, images)), [8, 32, 33]);
        assert!(tiling.scratch_bytes(SCRATCH_BYTES, 1000, 16, 16) <= SCRATCH_BYTES);
        assert_eq!(at_a_time(Tiling::new(4096, 4096, 1), 3), 1);
    }
}

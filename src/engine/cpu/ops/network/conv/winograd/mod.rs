//! Winograd's F(4×4, 3×3): sixteen outputs of a 3×3 filter from 36 products instead of 144.
//!
//! The algorithm and its transforms are those of [`qcs_kernels::network::conv::winograd`]. The sums are 36 matrix products, one for
//! each of the 36 frequencies, and their inner loop is that of a direct 1×1 convolution over tiles. The network stays within
//! 1e-5 of float64. A tile's sums do not depend on the tiles it is grouped with.
//!
//! Filters are transformed where they are used, a chunk at a time, and stay in the cache: transformed they take four times the room,
//! and a step of a network whose filters leave the cache would wait for memory. It costs about 3/T of the products of a task of T tiles.

#![allow(clippy::needless_range_loop)] // with iterators the compiler keeps arrays of vectors in memory

mod filters;
mod product;

pub use qcs_kernels::network::conv::winograd::FREQUENCIES;
use qcs_kernels::network::conv::winograd::{IN, OUT, transform_inputs, transform_sums};

use super::{BLOCK, ConvShape};
use crate::engine::cpu::memory::Parts;
use crate::engine::cpu::simd::{F32x8, F32x16, F64x4, Floats, Isa, dispatch_bf16, dispatch_wide};
use crate::engine::cpu::threads::Threads;
use filters::{CHUNK, Group, TAPS, load_all, transform_filters};
pub use filters::{Packed, packed_len};
use product::{Bf16, Form, Product, Whole};

/// Output channels of a vector.
const WIDE: usize = 2 * BLOCK;
/// The most tiles of any task: more leave the cache with their transformed inputs, fewer are not worth the filters' transform.
const MOST_TILES: usize = 48;
/// A dilation for which nothing was compiled specially.
const ANY: usize = 0;

/// Floats between the maps of two frequencies of so many floats: a cache line more, since a tile's 36 values would otherwise fall into few
/// sets of the cache where a map has a round size.
const fn apart(map: usize) -> usize {
    map.next_multiple_of(WIDE) + WIDE
}

/// Image, row and column of a tile.
type Place = (usize, usize, usize);

/// How a map is cut into tiles.
#[derive(Clone, Copy)]
pub struct Tiling {
    shape: ConvShape,
    /// Tiles along the height and the width of one lattice.
    rows: usize,
    columns: usize,
}

impl Tiling {
    pub fn new(shape: ConvShape) -> Self {
        Self {
            shape,
            rows: shape.height.div_ceil(shape.dilation).div_ceil(OUT),
            columns: shape.width.div_ceil(shape.dilation).div_ceil(OUT),
        }
    }

    /// Height and width of a padded plane in which every tile of every lattice is whole.
    pub fn padded(&self) -> (usize, usize) {
        let side = |tiles: usize| self.shape.dilation * (OUT * tiles + IN - OUT);
        (side(self.rows), side(self.columns))
    }

    fn per_image(&self) -> usize {
        self.shape.dilation * self.shape.dilation * self.rows * self.columns
    }

    /// As few images as give each thread eight tasks.
    pub fn images_at_a_time(&self, threads: usize) -> usize {
        let images = (8 * threads * MOST_TILES).div_ceil(self.per_image());
        images.min(self.shape.batch)
    }

    /// Floats that one task needs: transformed inputs, the transformed filters of a chunk, and the sums of one group.
    pub fn task_scratch(&self) -> usize {
        let (widest, tiles, blocks) = (3 * WIDE, MOST_TILES, self.shape.in_blocks);
        let filters = CHUNK.min(blocks) * BLOCK * widest;
        FREQUENCIES * (apart(tiles * blocks * BLOCK) + apart(filters) + apart(tiles * widest))
    }

    /// The cut that takes the least time, by what products and transforms cost relative to each other.
    fn split(&self, threads: usize, groups: usize) -> Split {
        let tiles = self.shape.batch * self.per_image();
        let least = tiles.div_ceil(MOST_TILES);
        let outputs = self.shape.out_blocks.div_ceil(2) as f64;
        let time = |&Split { parts, channels, .. }: &Split| {
            let (tiles, groups) = (
                tiles.div_ceil(parts) as f64,
                groups.div_ceil(channels) as f64 / groups as f64,
            );
            let (product, filter, input) = (18.0, 60.0, 9.0); // cycles for an input channel with 16 lanes
            let task = (product * tiles + filter) * groups * outputs + input * tiles;
            task * (parts * channels).div_ceil(threads) as f64
        };
        let splits = (1..=groups.min(threads)).map(|channels| {
            let parts = threads.div_ceil(channels) * least.div_ceil(threads.div_ceil(channels));
            Split {
                tiles,
                parts: parts.min(tiles),
                channels,
            }
        });
        splits
            .min_by(|a, b| time(a).total_cmp(&time(b)))
            .expect("a layer has a group")
    }

    /// Image, and row and column of the first output of a tile; also of its first input in the padded plane.
    fn place(&self, tile: usize) -> Place {
        let d = self.shape.dilation;
        let (image, tile) = (tile / self.per_image(), tile % self.per_image());
        let (lattice, tile) = (tile / (self.rows * self.columns), tile % (self.rows * self.columns));
        let row = lattice / d + d * OUT * (tile / self.columns);
        let column = lattice % d + d * OUT * (tile % self.columns);
        (image, row, column)
    }
}

/// How a layer's work is cut into tasks, equally for all threads: tiles into parts, and output channels. A cut changes no
/// sum.
#[derive(Clone, Copy, Debug)]
struct Split {
    tiles: usize,
    parts: usize,
    channels: usize,
}

/// output = conv(input) + bias + residual, for a zero-padded input of [`Tiling::padded`] size.
#[allow(clippy::too_many_arguments)] // the operands of a convolution
pub fn conv(
    threads: &mut Threads,
    isa: Isa,
    bf16: bool,
    tiling: Tiling,
    packed: &Packed,
    input: &[f32],
    residual: Option<&[f32]>,
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let Split { tiles, parts, channels } = tiling.split(threads.count(), packed.groups.len());
    let per_thread = tiling.task_scratch();
    let (output, scratch) = (Parts::new(output), Parts::new(scratch));
    threads.run_on(parts * channels, &|thread, task| {
        // SAFETY: each thread has its own piece, and runs one task at a time.
        let scratch = unsafe { scratch.part(thread * per_thread..(thread + 1) * per_thread) };
        let (part, channel) = (task / channels, task % channels);
        let groups = packed.groups.len();
        let (first, end) = (part * tiles / parts, (part + 1) * tiles / parts);
        let work = Work {
            tiling,
            packed,
            groups: &packed.groups[channel * groups / channels..(channel + 1) * groups / channels],
            first,
            count: end - first,
            input,
            residual,
            output,
        };
        let work = &work;
        if bf16 {
            dispatch_bf16!(isa, tiles_of_task_in_bf16(work: &Work<'_>, scratch: &mut [f32]));
        } else {
            dispatch_wide!(isa, tiles_of_task_in_f32(work: &Work<'_>, scratch: &mut [f32]));
        }
    });
}

/// One task: some tiles, all output channels or some.
struct Work<'a> {
    tiling: Tiling,
    packed: &'a Packed,
    groups: &'a [Group],
    first: usize,
    count: usize,
    input: &'a [f32],
    residual: Option<&'a [f32]>,
    output: Parts<f32>,
}

#[inline(always)]
fn tiles_of_task_in_f32<F: F32x8, D: F64x4>(work: &Work<'_>, scratch: &mut [f32]) {
    tiles_of_task::<F, Whole>(work, scratch);
}

#[inline(always)]
fn tiles_of_task_in_bf16<F: F32x8, D: F64x4>(work: &Work<'_>, scratch: &mut [f32]) {
    tiles_of_task::<F, Bf16>(work, scratch);
}

#[inline(always)]
fn tiles_of_task<F: F32x8, B: Form>(work: &Work<'_>, scratch: &mut [f32]) {
    let in_blocks = work.tiling.shape.in_blocks;
    let mut places = [(0, 0, 0); MOST_TILES];
    let places = &mut places[..work.count];
    for (tile, place) in places.iter_mut().enumerate() {
        *place = work.tiling.place(work.first + tile);
    }
    // [frequency][in block][tile][8]
    let (inputs, scratch) = scratch.split_at_mut(FREQUENCIES * apart(work.count * in_blocks * B::FLOATS));
    match work.tiling.shape.dilation {
        1 => work.transform_inputs::<F::Pair, B, 1>(places, inputs),
        2 => work.transform_inputs::<F::Pair, B, 2>(places, inputs),
        4 => work.transform_inputs::<F::Pair, B, 4>(places, inputs),
        _ => work.transform_inputs::<F::Pair, B, ANY>(places, inputs),
    }
    for &group in work.groups {
        match group.vectors {
            1 => work.outputs_of_group::<F::Pair, B, 1>(group, places, inputs, scratch),
            2 => work.outputs_of_group::<F::Pair, B, 2>(group, places, inputs, scratch),
            _ => work.outputs_of_group::<F::Pair, B, 3>(group, places, inputs, scratch),
        }
    }
}

impl Work<'_> {
    /// Bᵀ·d·B of all tiles and blocks of channels, two blocks at a time. `D` is the dilation, known when this is compiled, or [`ANY`].
    #[inline(always)]
    fn transform_inputs<V: F32x16, B: Form, const D: usize>(&self, places: &[Place], transformed: &mut [f32]) {
        let shape = self.tiling.shape;
        let dilation = if D == ANY { shape.dilation } else { D };
        let (height, width) = self.tiling.padded();
        let plane = height * width * BLOCK;
        let stride = apart(shape.in_blocks * self.count * B::FLOATS);
        for block in (0..shape.in_blocks).step_by(2) {
            // The last of an odd number is computed twice, and stored once.
            let second = (block + 1).min(shape.in_blocks - 1);
            for (tile, &(image, row, column)) in places.iter().enumerate() {
                let planes =
                    [block, second].map(|block| &self.input[(image * shape.in_blocks + block) * plane..][..plane]);
                let mut rows = [[V::splat(0.0); IN]; IN];
                for (i, row_of_tile) in rows.iter_mut().enumerate() {
                    let start = ((row + i * dilation) * width + column) * BLOCK;
                    let [low, high] = planes.map(|plane| &plane[start..][..(5 * dilation + 1) * BLOCK]);
                    let mut d = [V::splat(0.0); IN];
                    for (j, d) in d.iter_mut().enumerate() {
                        let at = j * dilation * BLOCK;
                        *d = V::of_halves([V::Half::load(&low[at..]), V::Half::load(&high[at..])]);
                    }
                    *row_of_tile = transform_inputs(d, fma);
                }
                let to = [block, second].map(|block| (block * self.count + tile) * B::FLOATS);
                assert!(transformed.len() >= to[1] + (FREQUENCIES - 1) * stride + B::FLOATS);
                for (j, column) in transposed(rows).into_iter().enumerate() {
                    let column = transform_inputs(column, fma);
                    for i in 0..IN {
                        let at = to.map(|to| to + (i * IN + j) * stride);
                        if B::FLOATS == BLOCK {
                            let [low, high] = column[i].halves();
                            // SAFETY: the last of the 36 was found to lie inside, of both.
                            low.store(unsafe { transformed.get_unchecked_mut(at[0]..at[0] + BLOCK) });
                            high.store(unsafe { transformed.get_unchecked_mut(at[1]..at[1] + BLOCK) });
                        } else {
                            for (half, at) in column[i].to_bf16().iter().zip(at) {
                                transformed[at..at + half.len()].copy_from_slice(half);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The sums of one group of output channels over the input channels, and from them its outputs.
    #[inline(always)]
    fn outputs_of_group<V: F32x16, B: Form, const W: usize>(
        &self,
        group: Group,
        places: &[Place],
        inputs: &[f32],
        scratch: &mut [f32],
    ) {
        let in_blocks = self.tiling.shape.in_blocks;
        let chunk = CHUNK.min(in_blocks);
        // [frequency][in channel][out channel], [frequency][tile][out channel]
        let (filters, sums) = scratch.split_at_mut(FREQUENCIES * apart(chunk * B::FLOATS * W * WIDE));
        let per_frequency = self.count * W * WIDE;
        let (of_inputs, of_sums) = (apart(in_blocks * self.count * B::FLOATS), apart(per_frequency));
        let pieces = self.count.div_ceil(V::SUMS / W);
        for first in (0..in_blocks).step_by(chunk) {
            let blocks = chunk.min(in_blocks - first);
            let packed = &self.packed.weights[group.weights + first * BLOCK * TAPS * W * WIDE..];
            transform_filters::<V, B, W>(&packed[..blocks * BLOCK * TAPS * W * WIDE], filters);
            for f in 0..FREQUENCIES {
                let operands = Product {
                    filters: &filters[f * apart(blocks * B::FLOATS * W * WIDE)..][..blocks * B::FLOATS * W * WIDE],
                    inputs: &inputs[f * of_inputs + first * self.count * B::FLOATS..]
                        [..blocks * self.count * B::FLOATS],
                    count: self.count,
                    begins: first == 0,
                };
                let sums = &mut sums[f * of_sums..][..per_frequency];
                for piece in 0..pieces {
                    let (from, to) = (piece * self.count / pieces, (piece + 1) * self.count / pieces);
                    match to - from {
                        24 => operands.sum::<V, B, W, 24>(from, sums),
                        23 => operands.sum::<V, B, W, 23>(from, sums),
                        22 => operands.sum::<V, B, W, 22>(from, sums),
                        21 => operands.sum::<V, B, W, 21>(from, sums),
                        20 => operands.sum::<V, B, W, 20>(from, sums),
                        19 => operands.sum::<V, B, W, 19>(from, sums),
                        18 => operands.sum::<V, B, W, 18>(from, sums),
                        17 => operands.sum::<V, B, W, 17>(from, sums),
                        16 => operands.sum::<V, B, W, 16>(from, sums),
                        15 => operands.sum::<V, B, W, 15>(from, sums),
                        14 => operands.sum::<V, B, W, 14>(from, sums),
                        13 => operands.sum::<V, B, W, 13>(from, sums),
                        12 => operands.sum::<V, B, W, 12>(from, sums),
                        11 => operands.sum::<V, B, W, 11>(from, sums),
                        10 => operands.sum::<V, B, W, 10>(from, sums),
                        9 => operands.sum::<V, B, W, 9>(from, sums),
                        8 => operands.sum::<V, B, W, 8>(from, sums),
                        7 => operands.sum::<V, B, W, 7>(from, sums),
                        6 => operands.sum::<V, B, W, 6>(from, sums),
                        5 => operands.sum::<V, B, W, 5>(from, sums),
                        4 => operands.sum::<V, B, W, 4>(from, sums),
                        3 => operands.sum::<V, B, W, 3>(from, sums),
                        2 => operands.sum::<V, B, W, 2>(from, sums),
                        _ => operands.sum::<V, B, W, 1>(from, sums),
                    }
                }
            }
        }
        for (tile, &place) in places.iter().enumerate() {
            for vector in 0..W {
                self.transform_output::<V>(
                    group.first + vector,
                    place,
                    of_sums,
                    &sums[(tile * W + vector) * WIDE..],
                );
            }
        }
    }

    /// Aᵀ·m·A of one tile and vector of channels, plus bias and residual, where the tile lies inside the map.
    #[inline(always)]
    fn transform_output<V: F32x16>(&self, vector: usize, place: Place, stride: usize, sums: &[f32]) {
        let shape = self.tiling.shape;
        let (image, row, column) = place;
        let mut rows = [[V::splat(0.0); OUT]; IN];
        for (i, row_of_tile) in rows.iter_mut().enumerate() {
            *row_of_tile = transform_sums(load_all::<V, IN>(&sums[i * IN * stride..], stride), fma);
        }
        let bias = V::load(&self.packed.bias[vector * WIDE..]);
        let plane = shape.height * shape.width * BLOCK;
        let first = (image * shape.out_blocks + 2 * vector) * plane + (row * shape.width + column) * BLOCK;
        // The second half of the last vector may be no channels at all.
        let planes = (shape.out_blocks - 2 * vector).min(2);
        // A map smaller than the dilation has lattices without a pixel.
        let inside = |from: usize, length: usize| length.saturating_sub(from).div_ceil(shape.dilation);
        let (height, width) = (inside(row, shape.height), inside(column, shape.width));
        for (j, sums) in transposed(rows).into_iter().enumerate() {
            let column = transform_sums(sums, fma);
            for i in 0..OUT {
                if i < height && j < width {
                    let at = first + (i * shape.width + j) * shape.dilation * BLOCK;
                    let [low, high] = column[i].add(bias).halves();
                    self.leave(low, at);
                    if planes == 2 {
                        self.leave(high, at + plane);
                    }
                }
            }
        }
    }

    /// Eight channels of a pixel, with the residual.
    #[inline(always)]
    fn leave<F: F32x8>(&self, mut value: F, at: usize) {
        if let Some(residual) = self.residual {
            value = value.add(F::load(&residual[at..]));
        }
        // SAFETY: every pixel of every block belongs to one tile, and so to one task.
        value.store(unsafe { self.output.part(at..at + BLOCK) });
    }
}

#[inline(always)]
fn transposed<F: Floats, const R: usize, const C: usize>(rows: [[F; C]; R]) -> [[F; R]; C] {
    let mut columns = [[rows[0][0]; R]; C];
    for j in 0..C {
        for i in 0..R {
            columns[j][i] = rows[i][j];
        }
    }
    columns
}

/// a·b + c. Most factors are 1 or −1, known when this is compiled.
#[inline(always)]
fn fma<F: Floats>(a: f32, b: F, c: F) -> F {
    if a == 1.0 {
        c.add(b)
    } else if a == -1.0 {
        c.sub(b)
    } else {
        b.mul_add(F::splat(a), c)
    }
}

//! Winograd's F(4×4, 3×3): sixteen outputs of a 3×3 filter from 36 products instead of 144.
//!
//! The algorithm and its transforms are those of [`qcs_kernels::network::conv::winograd`]. The sums are 36 matrix products, one for
//! each of the 36 frequencies, and their inner loop is that of a direct 1×1 convolution over tiles. The network stays within
//! 1e-5 of float64. A tile's sums do not depend on the tiles it is grouped with.

pub use qcs_kernels::network::conv::winograd::FREQUENCIES;
use qcs_kernels::network::conv::winograd::{IN, OUT, transform_filter, transform_inputs, transform_sums};

use super::{BLOCK, ConvShape, Group, groups};
use crate::engine::cpu::memory::Parts;
use crate::engine::cpu::simd::{F32x8, F32x16, F64x4, Isa, dispatch_wide};
use crate::engine::cpu::threads::Threads;

/// Filters in the order in which the inner loop reads them: `[group][frequency][in block][in channel][block of group][8]`.
pub struct Packed {
    weights: Vec<f32>,
    bias: Vec<f32>,
    groups: Vec<Group>,
}

impl Packed {
    /// From `[out, in, 3, 3]` and `[out]`.
    pub fn new(weight: &[f32], bias: Vec<f32>, outputs: usize, inputs: usize) -> Self {
        let (in_blocks, out_blocks) = (inputs.div_ceil(BLOCK), outputs.div_ceil(BLOCK));
        let mut weights = vec![0.0; FREQUENCIES * in_blocks * out_blocks * BLOCK * BLOCK];
        let mut groups = groups(out_blocks);
        let mut start = 0;
        let (filters, _) = weight.as_chunks();
        for group in &mut groups {
            group.weights = start;
            let width = group.blocks * BLOCK;
            for o in group.first * BLOCK..((group.first + group.blocks) * BLOCK).min(outputs) {
                for i in 0..inputs {
                    let frequencies = transform_filter(&filters[o * inputs + i]);
                    for (f, value) in frequencies.into_iter().enumerate() {
                        weights[start + (f * in_blocks * BLOCK + i) * width + o - group.first * BLOCK] = value;
                    }
                }
            }
            start += FREQUENCIES * in_blocks * BLOCK * width;
        }
        Self { weights, bias, groups }
    }
}

/// The most tiles of any task.
const MOST_TILES: usize = 64;
/// A dilation for which nothing was compiled specially.
const ANY: usize = 0;

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

    /// The most tiles that one task works on: about as many as leave their transformed inputs in the L2 cache.
    fn most_tiles(&self) -> usize {
        match self.shape.in_blocks {
            ..=4 => MOST_TILES,
            5..=8 => 24,
            _ => 16,
        }
    }

    /// As few images as give each thread eight tasks.
    pub fn images_at_a_time(&self, threads: usize) -> usize {
        let images = (8 * threads * self.most_tiles()).div_ceil(self.per_image());
        images.min(self.shape.batch)
    }

    /// Floats that one task needs: transformed inputs, and the sums of one group of output blocks.
    pub fn task_scratch(&self) -> usize {
        FREQUENCIES * self.most_tiles() * (self.shape.in_blocks + 3) * BLOCK
    }

    fn split(&self, threads: usize, groups: usize) -> Split {
        let (tiles, most) = (self.shape.batch * self.per_image(), self.most_tiles());
        // Where a task could hold all tiles and the weights are large, each thread reads only its part of them.
        if tiles <= most && self.shape.in_blocks > 8 && groups.is_multiple_of(threads) {
            return Split {
                tiles,
                parts: 1,
                channels: threads,
            };
        }
        let parts = threads * tiles.div_ceil(threads * most);
        Split {
            tiles,
            parts: parts.min(tiles),
            channels: 1,
        }
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
        dispatch_wide!(isa, tiles_of_task(work: &Work<'_>, scratch: &mut [f32]));
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
fn tiles_of_task<F: F32x8, D: F64x4>(work: &Work<'_>, scratch: &mut [f32]) {
    let in_blocks = work.tiling.shape.in_blocks;
    let mut places = [(0, 0, 0); MOST_TILES];
    let places = &mut places[..work.count];
    for (tile, place) in places.iter_mut().enumerate() {
        *place = work.tiling.place(work.first + tile);
    }
    // [frequency][in block][tile][8]
    let (transformed, sums) = scratch.split_at_mut(FREQUENCIES * work.count * in_blocks * BLOCK);
    match work.tiling.shape.dilation {
        1 => work.transform_inputs::<F, 1>(places, transformed),
        2 => work.transform_inputs::<F, 2>(places, transformed),
        4 => work.transform_inputs::<F, 4>(places, transformed),
        _ => work.transform_inputs::<F, ANY>(places, transformed),
    }
    for &group in work.groups {
        match group.blocks {
            1 => work.outputs_of_group::<F, 1>(group, places, transformed, sums),
            2 => work.outputs_of_group::<F, 2>(group, places, transformed, sums),
            _ => work.outputs_of_group::<F, 3>(group, places, transformed, sums),
        }
    }
}

impl Work<'_> {
    /// Bᵀ·d·B of all tiles and blocks of channels. `D` is the dilation, known when this is compiled, or [`ANY`].
    #[inline(always)]
    fn transform_inputs<F: F32x8, const D: usize>(&self, places: &[Place], transformed: &mut [f32]) {
        let shape = self.tiling.shape;
        let dilation = if D == ANY { shape.dilation } else { D };
        let (height, width) = self.tiling.padded();
        let stride = shape.in_blocks * self.count * BLOCK;
        for block in 0..shape.in_blocks {
            for (tile, &(image, row, column)) in places.iter().enumerate() {
                let plane = (image * shape.in_blocks + block) * height;
                let mut rows = [[F::splat(0.0); IN]; IN];
                for (i, row_of_tile) in rows.iter_mut().enumerate() {
                    let start = ((plane + row + i * dilation) * width + column) * BLOCK;
                    let pixels = &self.input[start..][..(5 * dilation + 1) * BLOCK];
                    let d = std::array::from_fn(|j| F::load(&pixels[j * dilation * BLOCK..]));
                    *row_of_tile = transform_inputs(d, fma);
                }
                let to = &mut transformed[(block * self.count + tile) * BLOCK..];
                assert!(to.len() >= (FREQUENCIES - 1) * stride + BLOCK);
                for (j, column) in transposed(rows).into_iter().enumerate() {
                    for (i, value) in transform_inputs(column, fma).into_iter().enumerate() {
                        let at = (i * IN + j) * stride;
                        // SAFETY: the last of the 36 was found to lie inside.
                        value.store(unsafe { to.get_unchecked_mut(at..at + BLOCK) });
                    }
                }
            }
        }
    }

    /// The sums of one group of output blocks over the input channels, and from them its outputs.
    #[inline(always)]
    fn outputs_of_group<F: F32x8, const NB: usize>(
        &self,
        group: Group,
        places: &[Place],
        transformed: &[f32],
        sums: &mut [f32],
    ) {
        let in_blocks = self.tiling.shape.in_blocks;
        let per_frequency = in_blocks * BLOCK * NB * BLOCK;
        let widest = if NB == 2 { F::Pair::SUMS } else { 12 / NB };
        let pieces = self.count.div_ceil(widest);
        for f in 0..FREQUENCIES {
            let weights = &self.packed.weights[group.weights + f * per_frequency..][..per_frequency];
            let inputs = &transformed[f * in_blocks * self.count * BLOCK..][..in_blocks * self.count * BLOCK];
            let sums = &mut sums[f * self.count * NB * BLOCK..][..self.count * NB * BLOCK];
            for piece in 0..pieces {
                let (from, to) = (piece * self.count / pieces, (piece + 1) * self.count / pieces);
                match to - from {
                    12 => product::<F, NB, 12>(weights, inputs, self.count, from, sums),
                    11 => product::<F, NB, 11>(weights, inputs, self.count, from, sums),
                    10 => product::<F, NB, 10>(weights, inputs, self.count, from, sums),
                    9 => product::<F, NB, 9>(weights, inputs, self.count, from, sums),
                    8 => product::<F, NB, 8>(weights, inputs, self.count, from, sums),
                    7 => product::<F, NB, 7>(weights, inputs, self.count, from, sums),
                    6 => product::<F, NB, 6>(weights, inputs, self.count, from, sums),
                    5 => product::<F, NB, 5>(weights, inputs, self.count, from, sums),
                    4 => product::<F, NB, 4>(weights, inputs, self.count, from, sums),
                    3 => product::<F, NB, 3>(weights, inputs, self.count, from, sums),
                    2 => product::<F, NB, 2>(weights, inputs, self.count, from, sums),
                    _ => product::<F, NB, 1>(weights, inputs, self.count, from, sums),
                }
            }
        }
        for (tile, &place) in places.iter().enumerate() {
            for n in 0..NB {
                self.transform_output::<F, NB>(group.first + n, place, &sums[(tile * NB + n) * BLOCK..]);
            }
        }
    }

    /// Aᵀ·m·A of one tile and block of channels, plus bias and residual, where the tile lies inside the map.
    #[inline(always)]
    fn transform_output<F: F32x8, const NB: usize>(&self, block: usize, place: Place, sums: &[f32]) {
        let shape = self.tiling.shape;
        let (image, row, column) = place;
        let stride = self.count * NB * BLOCK;
        assert!(sums.len() >= (FREQUENCIES - 1) * stride + BLOCK);
        let mut rows = [[F::splat(0.0); OUT]; IN];
        for (i, row_of_tile) in rows.iter_mut().enumerate() {
            let row: [F; IN] = std::array::from_fn(|j| {
                let at = (i * IN + j) * stride;
                // SAFETY: the last of the 36 was found to lie inside.
                F::load(unsafe { sums.get_unchecked(at..at + BLOCK) })
            });
            *row_of_tile = transform_sums(row, fma);
        }
        let bias = F::load(&self.packed.bias[block * BLOCK..]);
        let first = (((image * shape.out_blocks + block) * shape.height + row) * shape.width + column) * BLOCK;
        // A map smaller than the dilation has lattices without a pixel.
        let inside = |from: usize, length: usize| length.saturating_sub(from).div_ceil(shape.dilation);
        let (height, width) = (inside(row, shape.height), inside(column, shape.width));
        for (j, sums) in transposed(rows).into_iter().enumerate() {
            for (i, value) in transform_sums(sums, fma).into_iter().enumerate() {
                if i < height && j < width {
                    let at = first + (i * shape.width + j) * shape.dilation * BLOCK;
                    let value = value.add(bias);
                    let value = self.residual.map_or(value, |r| value.add(F::load(&r[at..])));
                    // SAFETY: every pixel of every block belongs to one tile, and so to one task.
                    value.store(unsafe { self.output.part(at..at + BLOCK) });
                }
            }
        }
    }
}

/// P tiles from `first`, NB blocks of output channels, summed over all input channels, at one frequency.
#[inline(always)]
fn product<F: F32x8, const NB: usize, const P: usize>(
    weights: &[f32],
    inputs: &[f32],
    count: usize,
    first: usize,
    sums: &mut [f32],
) {
    if NB == 2 {
        return product_of_pairs::<F::Pair, P>(weights, inputs, count, first, sums);
    }
    if NB * P > 12 {
        return; // never called: the tile would not fit the registers, and need not be compiled
    }
    let mut acc = [[F::splat(0.0); P]; NB];
    let blocks = inputs.chunks_exact(count * BLOCK);
    for (weights, inputs) in weights.chunks_exact(BLOCK * NB * BLOCK).zip(blocks) {
        let inputs = &inputs[first * BLOCK..][..P * BLOCK];
        for c in 0..BLOCK {
            let w: [F; NB] = std::array::from_fn(|n| F::load(&weights[(c * NB + n) * BLOCK..][..BLOCK]));
            for p in 0..P {
                let value = F::splat(inputs[p * BLOCK + c]);
                for n in 0..NB {
                    acc[n][p] = w[n].mul_add(value, acc[n][p]);
                }
            }
        }
    }
    let sums = &mut sums[first * NB * BLOCK..][..P * NB * BLOCK];
    for p in 0..P {
        for n in 0..NB {
            acc[n][p].store(&mut sums[(p * NB + n) * BLOCK..]);
        }
    }
}

/// The same for two blocks of output channels as one vector.
#[inline(always)]
fn product_of_pairs<V: F32x16, const P: usize>(
    weights: &[f32],
    inputs: &[f32],
    count: usize,
    first: usize,
    sums: &mut [f32],
) {
    const PAIR: usize = 2 * BLOCK;
    if P > V::SUMS {
        return; // never called, as above
    }
    let mut acc = [V::splat(0.0); P];
    let blocks = inputs.chunks_exact(count * BLOCK);
    for (weights, inputs) in weights.chunks_exact(BLOCK * PAIR).zip(blocks) {
        let inputs = &inputs[first * BLOCK..][..P * BLOCK];
        for c in 0..BLOCK {
            let w = V::load(&weights[c * PAIR..][..PAIR]);
            for p in 0..P {
                acc[p] = w.mul_add(V::splat(inputs[p * BLOCK + c]), acc[p]);
            }
        }
    }
    for (sum, to) in acc.into_iter().zip(sums[first * PAIR..].chunks_exact_mut(PAIR)) {
        sum.store(to);
    }
}

#[inline(always)]
fn transposed<F: F32x8, const R: usize, const C: usize>(rows: [[F; C]; R]) -> [[F; R]; C] {
    std::array::from_fn(|j| std::array::from_fn(|i| rows[i][j]))
}

/// a·b + c. Most factors are 1 or −1, known when this is compiled.
#[inline(always)]
fn fma<F: F32x8>(a: f32, b: F, c: F) -> F {
    if a == 1.0 {
        c.add(b)
    } else if a == -1.0 {
        c.sub(b)
    } else {
        b.mul_add(F::splat(a), c)
    }
}

//! Aᵀ·m·A of every tile, plus bias and residual; and the statistics for the norm that follows.

use super::{THREADS, Tiling};
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// From 36 maps of tiles to the layer's output. A thread takes one channel of a tile, a warp a block of four tiles side by
/// side.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WinogradOutputArgs {
    /// `[36, out_blocks, tiles of all images, 8]`
    pub sums: Global<f32>,
    /// `[8·out_blocks]`, or none
    pub bias: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`, or none
    pub residual: Global<f32>,
    /// `[images, out_blocks, height, width, 8]`
    pub output: Global<f32>,
    /// [Statistics](crate::network::conv::statistics) of the output, or none; only where the tiling
    /// [fills strips](Tiling::fills_strips)
    pub statistics: Global<f32>,
    /// Images of this part of the batch.
    pub images: u32,
    /// Blocks of eight channels.
    pub out_blocks: u32,
    /// Nothing.
    pub unused: u32,
    /// Of the map.
    pub tiling: Tiling,
}

// SAFETY: repr(C), words of eight bytes and eight of four.
unsafe impl Arguments for WinogradOutputArgs {
    fn kernel(&self) -> &'static str {
        "winograd_output"
    }
    /// Panics if there shall be statistics of strips that tiles do not fill.
    fn launch(&self) -> Launch {
        assert!(
            !self.statistics.is_some() || self.tiling.fills_strips(),
            "statistics of strips that are not four tiles wide"
        );
        let threads = self.images * self.tiling.per_image() * self.out_blocks * BLOCK as u32;
        Launch {
            grid: [threads.div_ceil(THREADS), 1],
            threads: THREADS,
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernels {
    use super::super::kernel::{Place, fma, four, six};
    use super::super::{OUT, transform_sums};
    use super::*;
    use crate::device::{WARP, launch_bounds, thread};
    use crate::network::conv::statistics::{STRIP, Strip};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn winograd_output(args: WinogradOutputArgs) {
        launch_bounds::<{ THREADS }, 5>();
        // SAFETY: the launch has a thread for each channel of each tile; outputs outside the map are not stored.
        unsafe {
            let Some((place, threads)) = args.tiling.place(args.images, args.out_blocks) else {
                return;
            };
            let sums = six(|i| {
                six(|j| {
                    let frequency = (i * 6 + j) as u32;
                    args.sums.read((frequency * threads + place.index) as usize)
                })
            });
            let half = six(|i| transform_sums(sums[i], fma));
            let columns = four(|j| transform_sums(six(|i| half[i][j]), fma));
            let wide = BLOCK as u32;
            let mut bias = 0.0;
            if args.bias.is_some() {
                bias = args.bias.read((place.block * wide + place.channel) as usize);
            }
            let rows = four(|i| finish_row(&args, &place, i as u32, four(|j| columns[j][i] + bias)));
            // The same for all threads.
            if args.statistics.is_some() {
                four(|i| sum_up(&args, &place, i as u32, rows[i]));
            }
        }
    }

    /// Adds the residual to a row of a tile and stores what lies in the map; gives what it stored.
    #[inline(always)]
    unsafe fn finish_row(args: &WinogradOutputArgs, place: &Place, i: u32, row: [f32; OUT]) -> [f32; OUT] {
        let Tiling {
            height,
            width,
            dilation,
            ..
        } = args.tiling;
        let wide = BLOCK as u32;
        let y = place.row + i * dilation;
        let plane = (place.image * args.out_blocks + place.block) * height;
        let first = ((plane + y) * width + place.column) * wide + place.channel;
        four(|j| {
            let at = (first + j as u32 * dilation * wide) as usize;
            let mut value = row[j];
            if y < height && place.column + j as u32 * dilation < width {
                // SAFETY: the pixel is in the map.
                unsafe {
                    if args.residual.is_some() {
                        value += args.residual.read(at);
                    }
                    args.output.store(at, value);
                }
            }
            value
        })
    }

    /// The statistics of the strip that a row of the warp's four tiles is. The first of them has the strip's first pixel.
    #[inline(always)]
    unsafe fn sum_up(args: &WinogradOutputArgs, place: &Place, i: u32, row: [f32; OUT]) {
        let Tiling {
            height,
            width,
            dilation,
            ..
        } = args.tiling;
        let y = place.row + i * dilation;
        let strip = Strip {
            image: place.image,
            first: y * width + place.column / STRIP * STRIP,
            pixels: height * width,
            blocks: args.out_blocks,
        };
        // SAFETY: whole warps come here, since an image has a multiple of four tiles.
        unsafe {
            let [[sum], [squares]] = strip.sums(row.map(|value| [value]), [0, 1, 2, 3], [8, 16]);
            if thread() % WARP < BLOCK as u32 && y < height {
                let at = strip.place(place.block * BLOCK as u32 + place.channel);
                args.statistics.store(at, sum);
                args.statistics.store(at + BLOCK, squares);
            }
        }
    }
}

//! Attention over the pixels of a map: softmax(qᵀk/√d)·v, head by head.
//!
//! The input holds q, k and v of all heads one after the other, `3·C` channels; a head is a run of whole blocks of channels.
//! Every pixel's sums run over the keys in one order, so that no bit depends on the batch.

use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};

/// Attends in every image of a batch. A warp takes four pixels of a head and 64 of its channels; it looks at 32 keys at a time, a
/// lane at each, and keeps the largest product so far beside sums that are scaled by it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AttentionArgs {
    /// `[images, 3·blocks, pixels, 8]`
    pub input: Global<f32>,
    /// `[images, blocks, pixels, 8]`
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of channels of q, of k and of v.
    pub blocks: u32,
    /// How many there are; they divide the blocks.
    pub heads: u32,
    /// Height times width.
    pub pixels: u32,
}

/// Pixels of a warp.
const QUERIES: usize = 4;
/// Blocks of channels of a warp.
const BLOCKS: usize = 8;
/// Of a block of threads.
const WARPS: u32 = 4;

impl AttentionArgs {
    /// Warps: groups of pixels, parts of a head's channels, heads, images.
    #[inline(always)]
    fn extents(&self) -> [u32; 4] {
        // A head has blocks.
        let of_head = self.of_head();
        [
            self.pixels.div_ceil(QUERIES as u32),
            of_head.div_ceil(BLOCKS as u32),
            self.heads,
            self.images,
        ]
    }

    #[cfg(not(target_arch = "nvptx64"))]
    fn of_head(&self) -> u32 {
        self.blocks / self.heads
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn of_head(&self) -> u32 {
        // SAFETY: there are heads.
        unsafe { crate::device::divide(self.blocks, self.heads).0 }
    }
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for AttentionArgs {
    fn kernel(&self) -> &'static str {
        "attention"
    }
    fn launch(&self) -> Launch {
        let warps: u32 = self.extents().iter().product();
        Launch {
            grid: [warps.div_ceil(WARPS), 1],
            threads: WARPS * 32,
        }
    }
}

/// The twin, summed in f64: one image.
#[cfg(not(target_arch = "nvptx64"))]
pub fn attention(input: &[f32], heads: usize, pixels: usize, output: &mut [f32]) {
    let channels = output.len() / pixels;
    let depth = channels / heads;
    let value = |part: usize, c: usize, pixel: usize| {
        let c = part * channels + c;
        f64::from(input[(c / BLOCK * pixels + pixel) * BLOCK + c % BLOCK])
    };
    for head in 0..heads {
        let of_head = head * depth..(head + 1) * depth;
        for query in 0..pixels {
            let product = |key: usize| {
                of_head
                    .clone()
                    .map(|c| value(0, c, query) * value(1, c, key))
                    .sum::<f64>()
            };
            let products: std::vec::Vec<f64> = (0..pixels).map(|key| product(key) / (depth as f64).sqrt()).collect();
            let most = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: std::vec::Vec<f64> = products.iter().map(|p| (p - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for c in of_head.clone() {
                let sum: f64 = weights.iter().enumerate().map(|(key, w)| w * value(2, c, key)).sum();
                output[(c / BLOCK * pixels + query) * BLOCK + c % BLOCK] = (sum / total) as f32;
            }
        }
    }
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{WARP, divide, exp2, global_thread, launch_bounds, shuffle, shuffle_xor, thread};
    use crate::float::Float;
    use core::array;

    /// Over the warp, the same in every lane.
    #[inline(always)]
    unsafe fn over_warp(value: f32, of: impl Fn(f32, f32) -> f32) -> f32 {
        // SAFETY: every lane comes here.
        unsafe {
            let value = of(value, shuffle_xor(value, 16));
            let value = of(value, shuffle_xor(value, 8));
            let value = of(value, shuffle_xor(value, 4));
            let value = of(value, shuffle_xor(value, 2));
            of(value, shuffle_xor(value, 1))
        }
    }

    #[inline(always)]
    fn larger(a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }

    // Unrolled by hand: a loop would keep the sums in memory.
    macro_rules! unrolled {
        ($at:ident => $body:expr; $($value:literal)*) => { $( { let $at: usize = $value; $body; } )* };
    }
    macro_rules! of_queries {
        ($at:ident => $body:expr) => { unrolled!($at => $body; 0 1 2 3) };
    }
    macro_rules! of_blocks {
        ($at:ident => $body:expr) => { unrolled!($at => $body; 0 1 2 3 4 5 6 7) };
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn attention(args: AttentionArgs) {
        launch_bounds::<{ WARPS * 32 }, 3>();
        let ([groups, parts, heads, images], pixels) = (args.extents(), args.pixels);
        let warp = global_thread() / WARP;
        // A warp is of one mind: no lane of it goes on alone.
        if warp >= groups * parts * heads * images {
            return;
        }
        let (lane, of_head) = (thread() % WARP, args.of_head());
        // SAFETY: all are at least one; pixels and blocks past the end are replaced by the last ones and not stored.
        unsafe {
            let (rest, group) = divide(warp, groups);
            let (rest, part) = divide(rest, parts);
            let (image, head) = divide(rest, heads);
            let plane = pixels as usize * BLOCK;
            let image_blocks = (image * 3 * args.blocks) as usize;
            let of = |which: u32| {
                args.input
                    .from((image_blocks + (which * args.blocks + head * of_head) as usize) * plane)
            };
            let (q, k, v) = (of(0), of(1), of(2));
            let last = pixels - 1;
            let query = |i: usize| (group * QUERIES as u32 + i as u32).min(last) as usize;
            // In powers of two
            let scale = core::f32::consts::LOG2_E / ((of_head * BLOCK as u32) as f32).root();

            let (mut most, mut totals) = ([f32::NEG_INFINITY; QUERIES], [0.0f32; QUERIES]);
            let mut sums = [[0.0f32; BLOCKS]; QUERIES];
            let mut first = 0;
            while first < pixels {
                let key = (first + lane).min(last) as usize;
                let mut products = [0.0f32; QUERIES];
                let mut block = 0;
                while block < of_head {
                    let at = block as usize * plane;
                    let (low, high) = (k.read4(at + key * BLOCK), k.read4(at + key * BLOCK + 4));
                    products = array::from_fn(|i| {
                        let from = at + query(i) * BLOCK;
                        let (a, b) = (q.read4(from), q.read4(from + 4));
                        let sum = a[0].fma(low[0], products[i]);
                        let sum = a[1].fma(low[1], sum);
                        let sum = a[2].fma(low[2], sum);
                        let sum = a[3].fma(low[3], sum);
                        let sum = b[0].fma(high[0], sum);
                        let sum = b[1].fma(high[1], sum);
                        let sum = b[2].fma(high[2], sum);
                        b[3].fma(high[3], sum)
                    });
                    block += 1;
                }
                let mut weights = [0.0f32; QUERIES];
                of_queries!(i => {
                    let product = if first + lane < pixels {
                        products[i] * scale
                    } else {
                        f32::NEG_INFINITY
                    };
                    let before = most[i];
                    most[i] = larger(before, over_warp(product, larger));
                    weights[i] = exp2(product - most[i]);
                    let shrunk = exp2(before - most[i]);
                    totals[i] = totals[i].fma(shrunk, over_warp(weights[i], |a, b| a + b));
                    of_blocks!(n => sums[i][n] *= shrunk);
                });
                // A lane adds up one channel of every fourth key.
                let mut quad = 0;
                while quad < 8 {
                    let of_lane = quad * 4 + lane / 8;
                    let key = (first + of_lane).min(last) as usize;
                    let weights: [f32; QUERIES] = array::from_fn(|i| shuffle(weights[i], of_lane));
                    of_blocks!(n => {
                        let block = (part * BLOCKS as u32 + n as u32).min(of_head - 1);
                        let value = v.read(block as usize * plane + key * BLOCK + lane as usize % 8);
                        of_queries!(i => sums[i][n] = weights[i].fma(value, sums[i][n]));
                    });
                    quad += 1;
                }
                first += WARP;
            }
            let output = args
                .output
                .from((image * args.blocks + head * of_head) as usize * plane);
            of_queries!(i => {
                let pixel = group * QUERIES as u32 + i as u32;
                of_blocks!(n => {
                    let block = part * BLOCKS as u32 + n as u32;
                    let sum = sums[i][n] + shuffle_xor(sums[i][n], 16);
                    let sum = sum + shuffle_xor(sum, 8);
                    if lane < 8 && pixel < pixels && block < of_head {
                        let at = block as usize * plane + pixel as usize * BLOCK + lane as usize;
                        output.store(at, sum / totals[i]);
                    }
                });
            });
        }
    }
}

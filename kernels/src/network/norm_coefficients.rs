//! InstanceNorm++ as one scale and one shift per image and channel, such that norm(x) = scale·x + shift.
//!
//! norm(x) = gamma·((x − mu)/sqrt(var + eps) + alpha·(mu − mean(mu))/sqrt(var(mu) + eps)) + beta, where var is biased
//! and var(mu), over the channels, is not. Each variance is a mean of squared deviations from its own mean: `E[x²] − E[x]²`
//! cancels for a map with a large mean. Sums are f64.
//!
//! Two kernels: means and variances of each plane, from the map or from what the convolution that made it left of it;
//! then, per image, what joins the channels.

use crate::float::Float;
use crate::global::Global;
use crate::launch::{Arguments, BLOCK, Launch};
#[cfg(target_arch = "nvptx64")]
use crate::network::conv::statistics::STRIP;
use crate::network::padded;

/// Variance floor of both normalisations.
const EPSILON: f64 = 1e-5;

/// Means and variances of every channel, into the place of the scales and shifts. A block takes a plane.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NormMomentsArgs {
    /// `[images, blocks, pixels, 8]`
    pub input: Global<f32>,
    /// `[images, 2, 8·blocks]`: means and biased variances
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of channels.
    pub blocks: u32,
    /// Height times width.
    pub pixels: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for NormMomentsArgs {
    fn kernel(&self) -> &'static str {
        "norm_moments"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.images * self.blocks, 1)
    }
}

/// The same from the statistics that a convolution left with its output. A block takes a plane.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NormMergeArgs {
    /// The output of the convolution, `[images, blocks, pixels, 8]`: the first pixel of each strip is read
    pub input: Global<f32>,
    /// Its [`statistics`](crate::network::conv::statistics), `[images, blocks, strips, 2, 8]`
    pub statistics: Global<f32>,
    /// `[images, 2, 8·blocks]`: means and biased variances
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Blocks of channels.
    pub blocks: u32,
    /// Height times width.
    pub pixels: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and four of four.
unsafe impl Arguments for NormMergeArgs {
    fn kernel(&self) -> &'static str {
        "norm_merge"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.images * self.blocks, 1)
    }
}

/// Scales and shifts from means and variances, in place. A block takes an image.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NormFinishArgs {
    /// `[channels]`
    pub alpha: Global<f32>,
    /// `[channels]`
    pub gamma: Global<f32>,
    /// `[channels]`
    pub beta: Global<f32>,
    /// `[images, 2, channels padded]`
    pub output: Global<f32>,
    /// Images of the batch.
    pub images: u32,
    /// Channels without padding.
    pub channels: u32,
}

// SAFETY: repr(C), words of eight bytes and two of four.
unsafe impl Arguments for NormFinishArgs {
    fn kernel(&self) -> &'static str {
        "norm_finish"
    }
    fn launch(&self) -> Launch {
        Launch::blocks(self.images, 1)
    }
}

/// The twin of all kernels: one image, from its feature map to `[2, channels padded]`.
pub fn norm_coefficients(input: &[f32], alpha: &[f32], gamma: &[f32], beta: &[f32], output: &mut [f32]) {
    let (channels, wide) = (gamma.len(), padded(gamma.len()));
    let pixels = input.len() / wide;
    let values = |c: usize| (0..pixels).map(move |p| f64::from(input[(c / BLOCK * pixels + p) * BLOCK + c % BLOCK]));
    let mean = |c: usize| values(c).sum::<f64>() / pixels as f64;
    let channels_of_image = Channels::of((0..channels).map(mean));
    output.fill(0.0);
    for c in 0..channels {
        let mu = mean(c);
        let variance = values(c).map(|v| (v - mu) * (v - mu)).sum::<f64>() / pixels as f64;
        let (scale, shift) = channels_of_image.coefficients(mu, variance, [alpha[c], gamma[c], beta[c]]);
        output[c] = scale as f32;
        output[wide + c] = shift as f32;
    }
}

/// What joins the channels of an image.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// Of their means.
    mean: f64,
    /// sqrt(var + eps) of their means.
    spread: f64,
}

impl Channels {
    /// From the mean of each channel.
    pub fn of(means: impl ExactSizeIterator<Item = f64> + Clone) -> Self {
        let count = means.len() as f64;
        let mean = means.clone().sum::<f64>() / count;
        let squares: f64 = means.map(|mu| (mu - mean) * (mu - mean)).sum();
        Self::new(mean, squares, count)
    }

    /// From the mean of the means, and the sum of their squared deviations from it.
    #[inline(always)]
    fn new(mean: f64, squares: f64, count: f64) -> Self {
        Self {
            mean,
            spread: (squares / (count - 1.0) + EPSILON).root(),
        }
    }

    /// Of a channel with this mean and scale, by its alpha, gamma and beta.
    #[inline(always)]
    fn shift(self, mu: f64, scale: f64, [alpha, gamma, beta]: [f64; 3]) -> f64 {
        beta + gamma * alpha * (mu - self.mean) / self.spread - scale * mu
    }

    /// Scale and shift of a channel with this mean and variance, by its alpha, gamma and beta.
    #[inline(always)]
    pub fn coefficients(self, mu: f64, variance: f64, learned: [f32; 3]) -> (f64, f64) {
        let [alpha, gamma, beta] = learned.map(f64::from);
        let scale = scale(gamma, variance);
        (scale, self.shift(mu, scale, [alpha, gamma, beta]))
    }
}

/// Of a channel with this variance.
#[inline(always)]
fn scale(gamma: f64, variance: f64) -> f64 {
    gamma / (variance + EPSILON).root()
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{
        Shared, WARP, barrier, block, block_sum, block_threads, divide, shared_memory, shuffle_xor_f64, thread,
    };
    use core::array;

    // A sum per warp and channel.
    shared_memory!(plane_scratch, "QCS_NORM_PLANE", 512);
    shared_memory!(image_scratch, "QCS_NORM_IMAGE", 64);

    /// The sums over all threads of the same half block, in every thread: lanes of the same parity, then the warps.
    #[inline(always)]
    unsafe fn sum_over_pixels(sums: [f64; 4], scratch: Shared) -> [f64; 4] {
        // SAFETY: called by all threads; the last barrier lets the scratch be used again.
        unsafe {
            let lanes = |sum: f64| {
                let sum = sum + shuffle_xor_f64(sum, 16);
                let sum = sum + shuffle_xor_f64(sum, 8);
                let sum = sum + shuffle_xor_f64(sum, 4);
                sum + shuffle_xor_f64(sum, 2)
            };
            let sums = [lanes(sums[0]), lanes(sums[1]), lanes(sums[2]), lanes(sums[3])];
            let half = thread() % 2;
            let place = |warp: u32, c: u32| scratch.at((warp * BLOCK as u32 + half * 4 + c) * 8);
            if thread() % WARP < 2 {
                place(thread() / WARP, 0).store_f64(sums[0]);
                place(thread() / WARP, 1).store_f64(sums[1]);
                place(thread() / WARP, 2).store_f64(sums[2]);
                place(thread() / WARP, 3).store_f64(sums[3]);
            }
            barrier();
            let mut total = [0.0; 4];
            let mut warp = 0;
            while warp < block_threads() / WARP {
                total[0] += place(warp, 0).load_f64();
                total[1] += place(warp, 1).load_f64();
                total[2] += place(warp, 2).load_f64();
                total[3] += place(warp, 3).load_f64();
                warp += 1;
            }
            barrier();
            total
        }
    }

    /// Stores means and variances of a plane of `pixels`, made of so many parts. Of half a block of a part, `means` gives
    /// its pixels and means, and `squares` adds its squared deviations from them to a sum. A thread takes every 128th part,
    /// twice: for the means of the plane, then for the deviations from those.
    #[inline(always)]
    unsafe fn store_moments(
        output: Global<f32>,
        blocks: u32,
        pixels: u32,
        parts: u32,
        means: impl Fn(u32, usize) -> (f64, [f64; 4]),
        squares: impl Fn(u32, usize, [f64; 4]) -> [f64; 4],
    ) {
        // SAFETY: called by all threads of a block that has a plane.
        unsafe {
            let (half, first, stride) = (thread() as usize % 2 * 4, thread() / 2, block_threads() / 2);
            let mut sums = [0.0; 4];
            let mut part = first;
            while part < parts {
                let (weight, mean) = means(part, half);
                sums = array::from_fn(|c| mean[c].fma(weight, sums[c]));
                part += stride;
            }
            let count = f64::from(pixels);
            let of_plane = sum_over_pixels(sums, plane_scratch()).map(|sum| sum / count);
            let mut sums = [0.0; 4];
            let mut part = first;
            while part < parts {
                let (weight, mean) = means(part, half);
                let within = squares(part, half, sums);
                sums = array::from_fn(|c| {
                    let deviation = mean[c] - of_plane[c];
                    (deviation * weight).fma(deviation, within[c])
                });
                part += stride;
            }
            let variances = sum_over_pixels(sums, plane_scratch()).map(|sum| sum / count);
            if thread() < 2 {
                let (image, of_image) = divide(block(), blocks);
                let wide = blocks as usize * BLOCK;
                let at = image as usize * 2 * wide + of_image as usize * BLOCK + half;
                output.store4(at, of_plane.map(|m| m as f32));
                output.store4(at + wide, variances.map(|v| v as f32));
            }
        }
    }

    /// The parts are pixels.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_moments(args: NormMomentsArgs) {
        let NormMomentsArgs {
            output, blocks, pixels, ..
        } = args;
        // SAFETY: the launch gives a plane to each block.
        unsafe {
            let plane = args.input.from(block() as usize * pixels as usize * BLOCK);
            let means = |pixel: u32, half: usize| (1.0, plane.read4(pixel as usize * BLOCK + half).map(f64::from));
            store_moments(output, blocks, pixels, pixels, means, |_, _, sums| sums);
        }
    }

    /// The parts are strips.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_merge(args: NormMergeArgs) {
        let NormMergeArgs {
            output, blocks, pixels, ..
        } = args;
        let strips = pixels.div_ceil(STRIP);
        // SAFETY: the launch gives a plane to each block.
        unsafe {
            let plane = args.input.from(block() as usize * pixels as usize * BLOCK);
            let statistics = args.statistics.from(block() as usize * strips as usize * 2 * BLOCK);
            let means = |strip: u32, half: usize| {
                let count = f64::from((pixels - strip * STRIP).min(STRIP));
                let share = 1.0 / count;
                let first = plane.read4((strip * STRIP) as usize * BLOCK + half);
                let sums = statistics.read4(strip as usize * 2 * BLOCK + half);
                let mean = |c: usize| f64::from(sums[c]).fma(share, f64::from(first[c]));
                (count, array::from_fn(mean))
            };
            let squares = |strip: u32, half: usize, sums: [f64; 4]| {
                let squares = statistics.read4((strip as usize * 2 + 1) * BLOCK + half);
                array::from_fn(|c| sums[c] + f64::from(squares[c]))
            };
            store_moments(output, blocks, pixels, strips, means, squares);
        }
    }

    /// A thread takes every 256th channel.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn norm_finish(args: NormFinishArgs) {
        // SAFETY: the launch gives an image to each block.
        unsafe {
            let wide = (args.channels as usize).next_multiple_of(BLOCK);
            let means = args.output.from(block() as usize * 2 * wide);
            let variances = means.from(wide);
            let (first, stride, count) = (thread(), block_threads(), f64::from(args.channels));
            let mut sum = 0.0;
            let mut c = first;
            while c < args.channels {
                sum += f64::from(means.load(c as usize));
                c += stride;
            }
            let mean = block_sum(sum, image_scratch()) / count;
            let mut squares = 0.0;
            let mut c = first;
            while c < args.channels {
                let deviation = f64::from(means.load(c as usize)) - mean;
                squares = deviation.fma(deviation, squares);
                c += stride;
            }
            let channels = Channels::new(mean, block_sum(squares, image_scratch()), count);
            let mut c = first;
            while c < wide as u32 {
                let at = c as usize;
                let (mut scale, mut shift) = (0.0, 0.0);
                if c < args.channels {
                    let (gamma, alpha) = (f64::from(args.gamma.read(at)), f64::from(args.alpha.read(at)));
                    let (mu, variance) = (f64::from(means.load(at)), f64::from(variances.load(at)));
                    scale = super::scale(gamma, variance);
                    shift = channels.shift(mu, scale, [alpha, gamma, f64::from(args.beta.read(at))]);
                }
                // Padding channels stay 0 through elu(0·0 + 0).
                means.store(at, scale as f32);
                variances.store(at, shift as f32);
                c += stride;
            }
        }
    }
}

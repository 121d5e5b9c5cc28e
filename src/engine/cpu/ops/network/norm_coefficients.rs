//! InstanceNorm++ as one scale and one shift per image and channel. A task is one block of eight channels of one image.

use qcs_kernels::network::norm_coefficients::Channels;

use super::BLOCK;
use crate::engine::cpu::memory::{Operands, Parts};
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::{ParamId, TensorId};

impl CpuSession<'_> {
    pub(super) fn norm_coefficients(&mut self, input: TensorId, params: [ParamId; 3], output: TensorId) {
        let at = Operands::new(self.plan, &self.arena);
        let (_, pixels) = at.channels_and_pixels(input);
        let [alpha, gamma, beta] = params.map(|id| self.param(id));
        let params = NormParams { alpha, gamma, beta };
        norm_coefficients(self.threads, self.isa, at.read(input), pixels, params, at.write(output));
    }
}

/// The learned vectors of one InstanceNorm++.
#[derive(Clone, Copy)]
pub struct NormParams<'a> {
    pub alpha: &'a [f32],
    pub gamma: &'a [f32],
    pub beta: &'a [f32],
}

/// Scale and shift per image and channel, `[2, channels padded]`, such that norm(x) = scale·x + shift: see the kernel's twin.
/// Each variance is a mean of squared deviations from its own mean, in f64 over runs of pixels in f32.
fn norm_coefficients(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    pixels: usize,
    params: NormParams<'_>,
    output: &mut [f32],
) {
    let padded = params.gamma.len().next_multiple_of(BLOCK);
    moments_of_planes(threads, isa, input, pixels, padded, output);
    threads.for_each(output, 2 * padded, &|_, moments| {
        let (means, variances) = moments.split_at_mut(padded);
        finish_norm(params, means, variances);
    });
}

/// Means and biased variances of every channel, `[images, 2, channels padded]`. A task is a plane.
pub fn moments_of_planes(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    pixels: usize,
    padded: usize,
    output: &mut [f32],
) {
    let blocks = padded / BLOCK;
    let images = output.len() / (2 * padded);
    let output = Parts::new(output);
    threads.run(images * blocks, &|index| {
        let (image, block) = (index / blocks, index % blocks);
        let plane = &input[index * pixels * BLOCK..(index + 1) * pixels * BLOCK];
        let at = image * 2 * padded + block * BLOCK;
        // SAFETY: each task writes the eight means and the eight variances of its own block.
        let (means, variances) = unsafe {
            (
                output.part(at..at + BLOCK),
                output.part(at + padded..at + padded + BLOCK),
            )
        };
        dispatch!(isa, plane_moments(plane: &[f32], means: &mut [f32], variances: &mut [f32]));
    });
}

/// Means and biased variances of eight channels.
#[inline(always)]
fn plane_moments<F: F32x8, D: F64x4>(plane: &[f32], means: &mut [f32], variances: &mut [f32]) {
    let mean = mean_of_blocks::<F>(plane, |v| v);
    let centre: [f32; BLOCK] = std::array::from_fn(|c| mean[c] as f32);
    let m = F::load(&centre);
    let variance = mean_of_blocks::<F>(plane, |v| {
        let d = v.sub(m);
        d.mul(d)
    });
    for c in 0..BLOCK {
        means[c] = centre[c];
        variances[c] = variance[c] as f32;
    }
}

/// The mean of `f` over all pixels, per channel: runs of 64 pixels in f32, their sums in f64.
#[inline(always)]
fn mean_of_blocks<F: F32x8>(plane: &[f32], f: impl Fn(F) -> F) -> [f64; BLOCK] {
    let mut total = [0f64; BLOCK];
    for run in plane.chunks(64 * BLOCK) {
        let mut sum = F::splat(0.0);
        for pixel in run.chunks_exact(BLOCK) {
            sum = sum.add(f(F::load(pixel)));
        }
        let mut lanes = [0f32; BLOCK];
        sum.store(&mut lanes);
        for (total, lane) in total.iter_mut().zip(lanes) {
            *total += f64::from(lane);
        }
    }
    let pixels = (plane.len() / BLOCK) as f64;
    total.map(|t| t / pixels)
}

/// From means and variances to scales and shifts, in place.
fn finish_norm(params: NormParams<'_>, means: &mut [f32], variances: &mut [f32]) {
    let channels = params.gamma.len();
    let of_image = Channels::of(means[..channels].iter().map(|&mean| f64::from(mean)));
    for c in 0..channels {
        let learned = [params.alpha[c], params.gamma[c], params.beta[c]];
        let (scale, shift) = of_image.coefficients(f64::from(means[c]), f64::from(variances[c]), learned);
        means[c] = scale as f32;
        variances[c] = shift as f32;
    }
    // Padding channels stay 0 through elu(0·0 + 0).
    means[channels..].fill(0.0);
    variances[channels..].fill(0.0);
}

//! The ops on feature maps other than convolution. A task is one block of eight channels of one image.

use super::conv::BLOCK;
use super::simd::{F32x8, F64x4, Isa, dispatch, elu};
use super::threads::Threads;

/// Variance floor of both normalisations in InstanceNorm++.
const EPSILON: f64 = 1e-5;

/// 2x − 1 from `[channels, pixels]` to blocks; padding channels are 0.
pub fn load_image(threads: &mut Threads, x: &[f32], channels: usize, pixels: usize, output: &mut [f32]) {
    let blocks = channels.div_ceil(BLOCK);
    threads.for_each(output, pixels * BLOCK, &|index, plane| {
        let (image, block) = (index / blocks, index % blocks);
        plane.fill(0.0);
        for c in block * BLOCK..channels.min((block + 1) * BLOCK) {
            let source = &x[(image * channels + c) * pixels..][..pixels];
            for (pixel, &value) in source.iter().enumerate() {
                plane[pixel * BLOCK + c % BLOCK] = 2.0 * value - 1.0;
            }
        }
    });
}

/// The feature map divided by beta, from blocks to `[channels, pixels]`.
pub fn store_score(threads: &mut Threads, input: &[f32], channels: usize, pixels: usize, beta: f32, score: &mut [f32]) {
    let blocks = channels.div_ceil(BLOCK);
    threads.for_each(score, pixels, &|index, plane| {
        let (image, c) = (index / channels, index % channels);
        let source = &input[(image * blocks + c / BLOCK) * pixels * BLOCK..][..pixels * BLOCK];
        for (to, from) in plane.iter_mut().zip(source.chunks_exact(BLOCK)) {
            *to = from[c % BLOCK] / beta;
        }
    });
}

pub fn elu_map(threads: &mut Threads, isa: Isa, input: &[f32], plane: usize, output: &mut [f32]) {
    #[inline(always)]
    fn body<F: F32x8, D: F64x4>(input: &[f32], output: &mut [f32]) {
        for (from, to) in input.chunks_exact(BLOCK).zip(output.chunks_exact_mut(BLOCK)) {
            elu(F::load(from)).store(to);
        }
    }
    threads.for_each(output, plane, &|index, output| {
        let input = &input[index * plane..(index + 1) * plane];
        dispatch!(isa, body(input: &[f32], output: &mut [f32]));
    });
}

/// The learned vectors of one InstanceNorm++.
#[derive(Clone, Copy)]
pub struct NormParams<'a> {
    pub alpha: &'a [f32],
    pub gamma: &'a [f32],
    pub beta: &'a [f32],
}

/// Scale and shift per image and channel, `[2, channels padded]`, such that norm(x) = scale·x + shift.
///
/// norm(x) = gamma·((x − mu)/sqrt(var + eps) + alpha·(mu − mean(mu))/sqrt(var(mu) + eps)) + beta, where var is biased and
/// var(mu), over the channels, is not. Each variance is a mean of squared deviations from its own mean: E[x²] − E[x]²
/// cancels for a map with a large mean.
pub fn norm_coefficients(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    pixels: usize,
    params: NormParams<'_>,
    output: &mut [f32],
) {
    let channels = params.gamma.len();
    let blocks = channels.div_ceil(BLOCK);
    let padded = blocks * BLOCK;
    let images = output.len() / (2 * padded);
    {
        let output = super::memory::Parts::new(output);
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
    threads.for_each(output, 2 * padded, &|_, moments| {
        let (means, variances) = moments.split_at_mut(padded);
        finish_norm(params, means, variances);
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
    let count = channels as f64;
    let mean = means[..channels].iter().map(|&m| f64::from(m)).sum::<f64>() / count;
    let squares: f64 = means[..channels].iter().map(|&m| (f64::from(m) - mean).powi(2)).sum();
    let spread = (squares / (count - 1.0) + EPSILON).sqrt();
    for c in 0..channels {
        let (mu, variance) = (f64::from(means[c]), f64::from(variances[c]));
        let scale = f64::from(params.gamma[c]) / (variance + EPSILON).sqrt();
        let across = f64::from(params.gamma[c]) * f64::from(params.alpha[c]) * (mu - mean) / spread;
        means[c] = scale as f32;
        variances[c] = (f64::from(params.beta[c]) + across - scale * mu) as f32;
    }
    // Padding channels stay 0 through elu(0·0 + 0).
    means[channels..].fill(0.0);
    variances[channels..].fill(0.0);
}

/// 5×5 maximum, stride 1, borders ignored: first along rows, into `scratch`, then along columns.
pub fn max_pool(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    (height, width): (usize, usize),
    scratch: &mut [f32],
    output: &mut [f32],
) {
    let plane = height * width * BLOCK;
    threads.for_each2((scratch, plane), (output, plane), &|index, rows, output| {
        let input = &input[index * plane..(index + 1) * plane];
        dispatch!(isa, max_pool_plane(input: &[f32], width: usize, rows: &mut [f32], output: &mut [f32]));
    });
}

#[inline(always)]
fn max_pool_plane<F: F32x8, D: F64x4>(input: &[f32], width: usize, rows: &mut [f32], output: &mut [f32]) {
    let pitch = width * BLOCK;
    for (from, to) in input.chunks_exact(pitch).zip(rows.chunks_exact_mut(pitch)) {
        for (x, to) in to.chunks_exact_mut(BLOCK).enumerate() {
            let window = &from[x.saturating_sub(2) * BLOCK..(x + 3).min(width) * BLOCK];
            max_of::<F>(window.chunks_exact(BLOCK)).store(to);
        }
    }
    let height = rows.len() / pitch;
    for (y, to) in output.chunks_exact_mut(pitch).enumerate() {
        let window = &rows[y.saturating_sub(2) * pitch..(y + 3).min(height) * pitch];
        for (x, to) in to.chunks_exact_mut(BLOCK).enumerate() {
            max_of::<F>(window.chunks_exact(pitch).map(|row| &row[x * BLOCK..])).store(to);
        }
    }
}

#[inline(always)]
fn max_of<'a, F: F32x8>(values: impl Iterator<Item = &'a [f32]>) -> F {
    values.fold(F::splat(f32::NEG_INFINITY), |m, v| m.max(F::load(v)))
}

/// 2×2 mean, stride 2, plus the residual.
pub fn mean_pool(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    residual: Option<&[f32]>,
    (height, width): (usize, usize),
    output: &mut [f32],
) {
    let (plane, quarter) = (height * width * BLOCK, height * width * BLOCK / 4);
    threads.for_each(output, quarter, &|index, output| {
        let input = &input[index * plane..(index + 1) * plane];
        let residual = residual.map(|r| &r[index * quarter..(index + 1) * quarter]);
        dispatch!(isa, mean_pool_plane(input: &[f32], residual: Option<&[f32]>, width: usize, output: &mut [f32]));
    });
}

#[inline(always)]
fn mean_pool_plane<F: F32x8, D: F64x4>(input: &[f32], residual: Option<&[f32]>, width: usize, output: &mut [f32]) {
    let pitch = width * BLOCK;
    for (at, to) in output.chunks_exact_mut(BLOCK).enumerate() {
        let (y, x) = (at / (width / 2), at % (width / 2));
        let top = &input[2 * y * pitch + 2 * x * BLOCK..];
        let pixel = |offset: usize| F::load(&top[offset..]);
        let sum = pixel(0).add(pixel(BLOCK)).add(pixel(pitch).add(pixel(pitch + BLOCK)));
        let start = residual.map_or(F::splat(0.0), |r| F::load(&r[at * BLOCK..]));
        sum.mul_add(F::splat(0.25), start).store(to);
    }
}

/// Bilinear resize with aligned corners, plus the addend.
pub fn resize_add(
    threads: &mut Threads,
    isa: Isa,
    input: &[f32],
    from: (usize, usize),
    addend: Option<&[f32]>,
    to: (usize, usize),
    output: &mut [f32],
) {
    let (source, target) = (from.0 * from.1 * BLOCK, to.0 * to.1 * BLOCK);
    threads.for_each(output, target, &|index, output| {
        let input = &input[index * source..(index + 1) * source];
        let addend = addend.map(|a| &a[index * target..(index + 1) * target]);
        dispatch!(isa, resize_plane(input: &[f32], from: (usize, usize), addend: Option<&[f32]>, to: (usize, usize), output: &mut [f32]));
    });
}

#[inline(always)]
fn resize_plane<F: F32x8, D: F64x4>(
    input: &[f32],
    from: (usize, usize),
    addend: Option<&[f32]>,
    to: (usize, usize),
    output: &mut [f32],
) {
    if let (true, Some(addend)) = (from == to, addend) {
        let pairs = input.chunks_exact(BLOCK).zip(addend.chunks_exact(BLOCK));
        for (pixel, (a, b)) in output.chunks_exact_mut(BLOCK).zip(pairs) {
            F::load(a).add(F::load(b)).store(pixel);
        }
        return;
    }
    for (row, pixels) in output.chunks_exact_mut(to.1 * BLOCK).enumerate() {
        let (y, y1, fy) = corner(row, from.0, to.0);
        let (upper, lower) = (&input[y * from.1 * BLOCK..], &input[y1 * from.1 * BLOCK..]);
        for (column, pixel) in pixels.chunks_exact_mut(BLOCK).enumerate() {
            let start = addend.map_or(F::splat(0.0), |a| F::load(&a[(row * to.1 + column) * BLOCK..]));
            let (x, x1, fx) = corner(column, from.1, to.1);
            let load = |row: &[f32], x: usize| F::load(&row[x * BLOCK..]);
            let mix = |a: F, b: F, f: f32| b.sub(a).mul_add(F::splat(f), a);
            let above = mix(load(upper, x), load(upper, x1), fx);
            let below = mix(load(lower, x), load(lower, x1), fx);
            mix(above, below, fy).add(start).store(pixel);
        }
    }
}

/// The two source positions around a target position, and the weight of the second.
#[inline(always)]
fn corner(at: usize, from: usize, to: usize) -> (usize, usize, f32) {
    if from == to || to == 1 {
        return (at.min(from - 1), at.min(from - 1), 0.0);
    }
    let position = at as f32 * ((from - 1) as f32 / (to - 1) as f32);
    let first = (position as usize).min(from - 1);
    (first, (first + 1).min(from - 1), position - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction_sets() -> [Isa; 2] {
        [Isa::detect(), Isa::Portable]
    }

    /// Eight channels of `pixels` pixels; channel c is `f(c, pixel)`.
    fn plane(pixels: usize, f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..pixels * BLOCK).map(|i| f(i % BLOCK, i / BLOCK)).collect()
    }

    fn value(c: usize, p: usize) -> f32 {
        ((c * 131 + p * 7919) % 2003) as f32 / 1001.0 - 1.0
    }

    #[test]
    fn loading_and_storing_an_image_undo_each_other() {
        let mut threads = Threads::new(2);
        let (channels, pixels) = (3, 10);
        let x: Vec<f32> = (0..2 * channels * pixels).map(|i| i as f32 / 60.0).collect();
        let mut map = vec![f32::NAN; 2 * pixels * BLOCK];
        load_image(&mut threads, &x, channels, pixels, &mut map);
        assert!(map.chunks(BLOCK).all(|p| p[channels..].iter().all(|&v| v == 0.0)));
        let mut score = vec![f32::NAN; x.len()];
        store_score(&mut threads, &map, channels, pixels, 0.5, &mut score);
        for (x, s) in x.iter().zip(&score) {
            assert_eq!(*s, (2.0 * x - 1.0) / 0.5);
        }
    }

    #[test]
    fn the_norm_is_right_for_a_map_whose_mean_is_a_thousand_times_its_spread() {
        let (channels, pixels) = (6, 49);
        let map = plane(pixels, |c, p| {
            if c < channels {
                1000.0 * (c + 1) as f32 + value(c, p)
            } else {
                0.0
            }
        });
        let of = |seed: usize| (0..channels).map(|c| value(c, seed)).collect::<Vec<f32>>();
        let (alpha, gamma, beta) = (of(1), of(2), of(3));
        let params = NormParams {
            alpha: &alpha,
            gamma: &gamma,
            beta: &beta,
        };
        let channel = |c: usize| (0..pixels).map(move |p| p * BLOCK + c);
        let means: Vec<f64> = (0..channels)
            .map(|c| channel(c).map(|i| f64::from(map[i])).sum::<f64>() / pixels as f64)
            .collect();
        let mean = means.iter().sum::<f64>() / channels as f64;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (channels - 1) as f64;
        for isa in instruction_sets() {
            let mut coefficients = vec![f32::NAN; 2 * BLOCK];
            norm_coefficients(&mut Threads::new(2), isa, &map, pixels, params, &mut coefficients);
            for c in 0..channels {
                let spread: f64 =
                    channel(c).map(|i| (f64::from(map[i]) - means[c]).powi(2)).sum::<f64>() / pixels as f64;
                for i in channel(c) {
                    let normal = (f64::from(map[i]) - means[c]) / (spread + EPSILON).sqrt();
                    let across = f64::from(alpha[c]) * (means[c] - mean) / (variance + EPSILON).sqrt();
                    let expected = f64::from(gamma[c]) * (normal + across) + f64::from(beta[c]);
                    let got = coefficients[c] * map[i] + coefficients[BLOCK + c];
                    // scale·x and shift are near 2e4 and cancel: f32 keeps 1e-3 of that.
                    assert!((f64::from(got) - expected).abs() < 4e-3, "{got} {expected}");
                }
            }
            assert!(coefficients[channels..BLOCK].iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn the_maximum_is_taken_over_five_by_five_pixels_inside_the_map() {
        for isa in instruction_sets() {
            for (height, width) in [(1, 1), (3, 4), (7, 9)] {
                let map = plane(height * width, |c, p| value(c, p) - 5.0);
                let (mut scratch, mut output) = (map.clone(), map.clone());
                max_pool(
                    &mut Threads::new(1),
                    isa,
                    &map,
                    (height, width),
                    &mut scratch,
                    &mut output,
                );
                for (i, &got) in output.iter().enumerate() {
                    let (y, x, c) = (i / BLOCK / width, i / BLOCK % width, i % BLOCK);
                    let rows = y.saturating_sub(2)..(y + 3).min(height);
                    let window =
                        rows.flat_map(|r| (x.saturating_sub(2)..(x + 3).min(width)).map(move |q| r * width + q));
                    let expected = window.map(|p| map[p * BLOCK + c]).fold(f32::NEG_INFINITY, f32::max);
                    assert_eq!(got, expected);
                }
            }
        }
    }

    #[test]
    fn mean_pooling_averages_four_pixels_and_adds_the_residual() {
        for isa in instruction_sets() {
            let map = plane(4 * 6, value);
            let residual = plane(2 * 3, |c, p| value(c, p + 50));
            let mut output = vec![f32::NAN; residual.len()];
            mean_pool(&mut Threads::new(1), isa, &map, Some(&residual), (4, 6), &mut output);
            for (i, got) in output.iter().enumerate() {
                let (y, x, c) = (i / BLOCK / 3, i / BLOCK % 3, i % BLOCK);
                let at = |r: usize, q: usize| map[((2 * y + r) * 6 + 2 * x + q) * BLOCK + c];
                let mean = (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0;
                assert!((got - mean - residual[i]).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn resizing_keeps_the_corners_and_every_linear_map() {
        for isa in instruction_sets() {
            for (from, to) in [
                ((3, 4), (6, 8)),
                ((14, 14), (28, 28)),
                ((5, 5), (5, 5)),
                ((2, 2), (1, 7)),
            ] {
                let line = |y: f64, x: f64, c: usize| y + 2.0 * x + c as f64;
                let position = |at: usize, a: usize, b: usize| match b {
                    1 => 0.0,
                    _ => at as f64 * (a - 1) as f64 / (b - 1) as f64,
                };
                let map = plane(from.0 * from.1, |c, p| {
                    line((p / from.1) as f64, (p % from.1) as f64, c) as f32
                });
                let mut output = vec![f32::NAN; to.0 * to.1 * BLOCK];
                resize_add(&mut Threads::new(1), isa, &map, from, None, to, &mut output);
                for (i, got) in output.iter().enumerate() {
                    let (y, x) = (
                        position(i / BLOCK / to.1, from.0, to.0),
                        position(i / BLOCK % to.1, from.1, to.1),
                    );
                    assert!(
                        (f64::from(*got) - line(y, x, i % BLOCK)).abs() < 1e-4,
                        "{from:?} {to:?} {i}"
                    );
                }
            }
        }
    }
}

//! The ops against their definitions, written out.

use super::BLOCK;
use super::load_image::*;
use super::max_pool::*;
use super::mean_pool::*;
use super::norm_coefficients::*;
use super::resize_add::*;
use super::store_score::*;
use crate::engine::cpu::simd::Isa;
use crate::engine::cpu::threads::Threads;

const EPSILON: f64 = 1e-5;

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
    store_score(&mut threads, &map, channels, pixels, &[0.5, 0.5], &mut score);
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
            let spread: f64 = channel(c).map(|i| (f64::from(map[i]) - means[c]).powi(2)).sum::<f64>() / pixels as f64;
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
                let window = rows.flat_map(|r| (x.saturating_sub(2)..(x + 3).min(width)).map(move |q| r * width + q));
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

//! What the cores could do at most: multiply-adds that need no memory.

use std::hint::black_box;
use std::time::Instant;

use super::simd::{F32x8, F64x4, Isa, dispatch};

/// Chains of multiply-adds that do not wait for each other: more than any core has under way.
const CHAINS: usize = 12;
const STEPS: usize = 2_000_000;

/// GFLOP/s of all threads together, the best of three tries.
pub fn measure(threads: usize, isa: Isa) -> f64 {
    let flops = (threads * STEPS * CHAINS * 8 * 2) as f64;
    let once = || {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| multiply_adds(isa));
            }
        });
        flops / begun.elapsed().as_secs_f64() / 1e9
    };
    (0..3).map(|_| once()).fold(0.0, f64::max)
}

fn multiply_adds(isa: Isa) {
    let mut sums = [0.0f32; 8 * CHAINS];
    let to = &mut sums[..];
    dispatch!(isa, chains(to: &mut [f32]));
    black_box(sums);
}

#[inline(always)]
fn chains<F: F32x8, D: F64x4>(to: &mut [f32]) {
    let factor = F::splat(black_box(0.999_9));
    let mut sums = [F::splat(1.0); CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            *sum = sum.mul_add(factor, factor);
        }
    }
    for (sum, to) in sums.into_iter().zip(to.chunks_exact_mut(8)) {
        sum.store(to);
    }
}

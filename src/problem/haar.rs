//! Haar-distributed orthogonal matrices, and the parallelism that keeps factorisations
//! reproducible.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as apply_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as apply,
};
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::{Conj, Mat, MatMut, Par};
use qcs_kernels::philox::{Domain, Stream};
use rayon::prelude::*;

/// How faer splits its work. The split decides the order of its sums, so it is a constant: the bits
/// then do not depend on `--threads`, which only says how many threads share the parts.
pub(super) fn parallelism() -> Par {
    Par::rayon(8)
}

/// Standard normals, `[rows, cols]` row-major. `factor` tells the matrices of one construction
/// apart.
pub(super) fn gaussian(rows: usize, cols: usize, seed: u64, factor: u32) -> Vec<f64> {
    let stream = Stream {
        seed,
        domain: Domain::Matrix,
        image: 0,
        chain: 0,
        step: factor,
    };
    let mut out = vec![0.0; rows * cols];
    out.par_chunks_mut(cols).enumerate().for_each_init(
        || vec![0.0f32; cols],
        |normals, (row, out)| {
            stream.fill_normals(row * cols, normals);
            for (out, &normal) in out.iter_mut().zip(normals.iter()) {
                *out = f64::from(normal);
            }
        },
    );
    out
}

/// Q·rhs, `[n, k]` column-major, where Q is the first m columns of a Haar-distributed n×n
/// orthogonal matrix and `rhs` is `[m, k]` column-major.
///
/// Q is the Q of the QR decomposition of an n×m Gaussian whose R has a positive diagonal: as
/// Householder gives R's diagonal signs of its own, the columns of Q are multiplied by them, or Q
/// would not be Haar (Mezzadri 2007). The product comes from the reflectors, at the price of
/// forming Q itself.
///
/// # Panics
/// If m > n, m = 0, or `rhs` does not hold whole columns.
pub(super) fn haar_times(n: usize, m: usize, rhs: &[f64], seed: u64, factor: u32) -> Vec<f64> {
    assert!(0 < m && m <= n && rhs.len().is_multiple_of(m));
    let par = parallelism();
    let k = rhs.len() / m;

    // m rows of n row-major are n×m column-major.
    let mut reflectors = gaussian(m, n, seed, factor);
    let mut reflectors = MatMut::from_column_major_slice_mut(&mut reflectors, n, m);
    let block = recommended_block_size::<f64>(n, m);
    let mut coefficients = Mat::<f64>::zeros(block, m);
    let scratch = qr_in_place_scratch::<f64>(n, m, block, par, Default::default());
    let mut scratch = MemBuffer::new(scratch.or(apply_scratch::<f64>(n, block, k)));
    let stack = MemStack::new(&mut scratch);
    qr_in_place(
        reflectors.as_mut(),
        coefficients.as_mut(),
        par,
        stack,
        Default::default(),
    );

    let mut out = vec![0.0; n * k];
    for (out, rhs) in out.chunks_exact_mut(n).zip(rhs.chunks_exact(m)) {
        for (i, (out, &rhs)) in out.iter_mut().zip(rhs).enumerate() {
            *out = rhs * reflectors[(i, i)].signum();
        }
    }
    let out_mat = MatMut::from_column_major_slice_mut(&mut out, n, k);
    apply(
        reflectors.as_ref(),
        coefficients.as_ref(),
        Conj::No,
        out_mat,
        par,
        stack,
    );
    out
}

/// The m×m matrix `scale`·I.
pub(super) fn scaled_identity(m: usize, scale: f64) -> Vec<f64> {
    let mut identity = vec![0.0; m * m];
    identity.iter_mut().step_by(m + 1).for_each(|entry| *entry = scale);
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E[trace Q] = 0 and E[(trace Q)²] = 1 for Haar O(n), n ≥ 2, and each diagonal entry is as
    /// often positive as negative. Without the sign fix faer's Q has a diagonal of one sign mostly.
    #[test]
    fn haar_matrices_have_the_trace_of_haar_matrices() {
        let (n, draws) = (5, 4000);
        let traces: Vec<f64> = (0..draws)
            .map(|seed| {
                let q = haar_times(n, n, &scaled_identity(n, 1.0), seed, 0);
                q.iter().step_by(n + 1).sum()
            })
            .collect();
        let mean = traces.iter().sum::<f64>() / draws as f64;
        let square = traces.iter().map(|t| t * t).sum::<f64>() / draws as f64;
        // Four standard errors: var(trace) = 1, var(trace²) = 2.
        assert!(mean.abs() < 4.0 / (draws as f64).sqrt(), "mean trace {mean}");
        assert!(
            (square - 1.0).abs() < 4.0 * (2.0 / draws as f64).sqrt(),
            "mean squared trace {square}"
        );
    }

    #[test]
    fn the_tall_factor_has_unbiased_signs_and_orthonormal_columns() {
        let (n, m, draws) = (6, 3, 2000);
        let mut positive = vec![0u32; m];
        for seed in 0..draws {
            let q = haar_times(n, m, &scaled_identity(m, 1.0), seed, 0);
            for i in 0..m {
                positive[i] += u32::from(q[i * n + i] > 0.0);
                for j in 0..m {
                    let dot: f64 = (0..n).map(|r| q[i * n + r] * q[j * n + r]).sum();
                    assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-13);
                }
            }
        }
        for count in positive {
            let deviation = (f64::from(count) - draws as f64 / 2.0) / (draws as f64 / 4.0).sqrt();
            assert!(deviation.abs() < 4.5, "{count} of {draws} positive");
        }
    }

    #[test]
    fn the_product_with_a_right_hand_side_is_the_product_with_q() {
        let (n, m, k) = (40, 17, 9);
        let q = haar_times(n, m, &scaled_identity(m, 1.0), 3, 1);
        let rhs = gaussian(k, m, 5, 0);
        let product = haar_times(n, m, &rhs, 3, 1);
        for column in 0..k {
            for row in 0..n {
                let expected: f64 = (0..m).map(|i| q[i * n + row] * rhs[column * m + i]).sum();
                assert!((product[column * n + row] - expected).abs() < 1e-13);
            }
        }
    }
}

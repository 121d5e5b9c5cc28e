//! cuSOLVER: decompositions against what they decompose, every refusal, workspaces.

use super::blas::{from_device, on_device};
use super::{allocate, ok, start, stats};
use qcs_emulator::driver::*;
use qcs_emulator::libraries::*;
use qcs_emulator::stand_in::Child;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

const VECTORS: c_int = 1;
const LOWER: c_int = 0;
const UPPER: c_int = 1;

fn handle() -> Handle {
    let mut handle = null_mut();
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { cusolverDnCreate(&mut handle) }, CUSOLVER_SUCCESS);
    handle
}

/// Numbers in (−1, 1) that look random.
fn noise(count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * i + 3 * i) as f64 * 0.754_877).fract() * 2.0 - 1.0)
        .collect()
}

/// The arguments of an eigendecomposition.
#[derive(Clone)]
struct Eigen {
    handle: Handle,
    mode: c_int,
    triangle: c_int,
    n: c_int,
    a: u64,
    lda: c_int,
    values: u64,
    work: u64,
    lwork: c_int,
    info: u64,
}

impl Eigen {
    /// Good arguments for an n × n matrix with columns `lda` apart.
    fn of(handle: Handle, triangle: c_int, n: usize, lda: usize, a: &[f64]) -> Eigen {
        let mut call = Eigen {
            handle,
            mode: VECTORS,
            triangle,
            n: n as c_int,
            a: on_device(a),
            lda: lda as c_int,
            values: allocate(8 * n).unwrap(),
            work: 0,
            lwork: 0,
            info: allocate(4).unwrap(),
        };
        assert_eq!(call.query(), CUSOLVER_SUCCESS);
        call.work = allocate(8 * call.lwork as usize).unwrap();
        call
    }

    fn query(&mut self) -> SolverStatus {
        let Eigen {
            handle,
            mode,
            triangle,
            n,
            a,
            lda,
            values,
            ..
        } = *self;
        // SAFETY: the pointer is valid.
        unsafe { cusolverDnDsyevd_bufferSize(handle, mode, triangle, n, a, lda, values, &mut self.lwork) }
    }

    fn run(&self) -> SolverStatus {
        let Eigen {
            handle,
            mode,
            triangle,
            n,
            a,
            lda,
            values,
            work,
            lwork,
            info,
        } = *self;
        // SAFETY: addresses are checked.
        unsafe { cusolverDnDsyevd(handle, mode, triangle, n, a, lda, values, work, lwork, info) }
    }
}

#[test]
fn eigenvectors_satisfy_their_equation() {
    Child::new().run(|| {
        start();
        let handle = handle();
        assert_eq!(cusolverDnSetStream(handle, null_mut()), CUSOLVER_SUCCESS);
        for (n, lda) in [(1, 1), (6, 6), (25, 31)] {
            for triangle in [LOWER, UPPER] {
                let random = noise(lda * n);
                let entry = |i: usize, j: usize| random[i.max(j) + i.min(j) * lda];
                // The other triangle and the padding hold what must not be used.
                let mut a = vec![f64::NAN; (n - 1) * lda + n];
                for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    a[if triangle == LOWER { i + j * lda } else { j + i * lda }] = entry(i, j);
                }
                let call = Eigen::of(handle, triangle, n, lda, &a);
                assert_eq!(call.run(), CUSOLVER_SUCCESS);
                assert_eq!(from_device::<c_int>(call.info, 1), [0]);
                let (values, vectors) = (from_device::<f64>(call.values, n), from_device::<f64>(call.a, a.len()));
                assert!(values.is_sorted());
                for (j, value) in values.iter().enumerate() {
                    let vector = &vectors[j * lda..][..n];
                    let norm: f64 = vector.iter().map(|v| v * v).sum();
                    assert!((norm - 1.0).abs() < 1e-13);
                    for i in 0..n {
                        let product: f64 = (0..n).map(|l| entry(i, l) * vector[l]).sum();
                        assert!((product - value * vector[i]).abs() < 1e-13);
                    }
                }
                assert!(
                    from_device::<f64>(call.work, call.lwork as usize)
                        .iter()
                        .all(|w| w.is_nan())
                );
            }
        }
        let text = stats();
        assert!(
            text.contains(r#"{"function": "cusolverDnDsyevd", "calls": 6, "runs": 6}"#),
            "{text}"
        );

        let unfit = Eigen::of(handle, LOWER, 2, 2, &[1.0, f64::NAN, 0.0, 1.0]);
        assert_eq!(unfit.run(), CUSOLVER_SUCCESS);
        assert!(
            from_device::<c_int>(unfit.info, 1)[0] > 0,
            "no convergence is reported by info"
        );
    });
}

#[test]
fn what_syevd_cannot_do_is_refused() {
    let ran = Child::new().run(|| {
        start();
        // SAFETY: null is what the call must refuse.
        assert_eq!(unsafe { cusolverDnCreate(null_mut()) }, CUSOLVER_INVALID_VALUE);
        let good = Eigen::of(handle(), LOWER, 5, 5, &noise(25));
        assert_eq!(good.lwork, 81);
        let refused = |status: SolverStatus, change: &dyn Fn(&mut Eigen)| {
            let mut call = good.clone();
            change(&mut call);
            assert_eq!(call.run(), status);
            assert_eq!(good.run(), CUSOLVER_SUCCESS, "a refusal leaves no trace");
        };
        refused(CUSOLVER_NOT_INITIALIZED, &|call| call.handle = null_mut());
        refused(CUSOLVER_INVALID_VALUE, &|call| call.mode = 0);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.triangle = 2);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.n = -1);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.lda = 4);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.lda = 6);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.lwork -= 1);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.work += 8);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.values = 0);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.values = call.work);
        refused(CUSOLVER_INVALID_VALUE, &|call| call.info += 2);

        let mut unfit = good.clone();
        unfit.lda = 4;
        assert_eq!(unfit.query(), CUSOLVER_INVALID_VALUE);
        let Eigen { handle, a, values, .. } = good;
        // SAFETY: null is what the call must refuse.
        let no_place = unsafe { cusolverDnDsyevd_bufferSize(handle, VECTORS, LOWER, 5, a, 5, values, null_mut()) };
        assert_eq!(no_place, CUSOLVER_INVALID_VALUE);

        let mut stream = null_mut();
        // SAFETY: the pointers are valid, and the stream is live.
        unsafe {
            ok(cuStreamCreate(&mut stream, 0));
            assert_eq!(cusolverDnSetStream(handle, stream), CUSOLVER_SUCCESS);
            ok(cuStreamBeginCapture_v2(stream, 2));
            assert_eq!(good.run(), CUSOLVER_EXECUTION_FAILED);
            ok(cuStreamEndCapture(stream, &mut null_mut()));
        }
        assert_eq!(cusolverDnDestroy(handle), CUSOLVER_SUCCESS);
        assert_eq!(cusolverDnDestroy(handle), CUSOLVER_NOT_INITIALIZED);
        assert_eq!(cusolverDnSetStream(handle, stream), CUSOLVER_NOT_INITIALIZED);
        assert_eq!(good.run(), CUSOLVER_NOT_INITIALIZED);
    });
    let text = ran.said;
    for reason in [
        "the handle is null, destroyed, of another context or not of cuSOLVER",
        "only eigenvalues with eigenvectors are emulated",
        "the triangle is neither the lower nor the upper one",
        "n is negative",
        "lda 4 is less than n = 5",
        "A is 5 x 5 with leading dimension 6: 232 bytes at",
        "lwork is 80, and the query says 81",
        "the workspace is 81 x 1 with leading dimension 81: 648 bytes at",
        "W is null",
        "info at",
        "W overlaps the workspace",
        "cusolverDnDsyevd while a stream is being captured",
    ] {
        assert!(text.contains(reason), "no {reason:?} in\n{text}");
    }
}

/// The arguments of a singular value decomposition.
#[derive(Clone)]
struct Singular {
    handle: Handle,
    jobs: [u8; 2],
    m: c_int,
    n: c_int,
    a: u64,
    lda: c_int,
    values: u64,
    u: u64,
    ldu: c_int,
    vt: u64,
    ldvt: c_int,
    work: u64,
    lwork: c_int,
    info: u64,
}

impl Singular {
    fn of(handle: Handle, m: usize, n: usize, lda: usize, a: &[f64]) -> Singular {
        let mut lwork = 0;
        // SAFETY: the pointer is valid.
        let status = unsafe { cusolverDnDgesvd_bufferSize(handle, m as c_int, n as c_int, &mut lwork) };
        assert_eq!(status, CUSOLVER_SUCCESS);
        Singular {
            handle,
            jobs: [b'S', b'S'],
            m: m as c_int,
            n: n as c_int,
            a: on_device(a),
            lda: lda as c_int,
            values: allocate(8 * n).unwrap(),
            u: allocate(8 * m * n).unwrap(),
            ldu: m as c_int,
            vt: allocate(8 * n * n).unwrap(),
            ldvt: n as c_int,
            work: allocate(8 * lwork as usize).unwrap(),
            lwork,
            info: allocate(4).unwrap(),
        }
    }

    fn run(&self) -> SolverStatus {
        let Singular {
            handle,
            m,
            n,
            a,
            lda,
            values,
            u,
            ldu,
            vt,
            ldvt,
            work,
            lwork,
            info,
            ..
        } = *self;
        let [left, right] = self.jobs.map(|job| job as c_char);
        // SAFETY: addresses are checked.
        unsafe {
            cusolverDnDgesvd(
                handle, left, right, m, n, a, lda, values, u, ldu, vt, ldvt, work, lwork, 0, info,
            )
        }
    }
}

#[test]
fn right_singular_vectors_are_mapped_to_left_ones_of_the_right_length() {
    Child::new().run(|| {
        start();
        let handle = handle();
        for (m, n, lda) in [(1, 1, 1), (7, 7, 7), (40, 12, 45)] {
            let a = noise((n - 1) * lda + m);
            let call = Singular::of(handle, m, n, lda, &a);
            assert_eq!(call.run(), CUSOLVER_SUCCESS);
            assert_eq!(from_device::<c_int>(call.info, 1), [0]);
            let (values, vt) = (from_device::<f64>(call.values, n), from_device::<f64>(call.vt, n * n));
            let u = from_device::<f64>(call.u, m * n);
            assert!(values.is_sorted_by(|a, b| a >= b));
            // A·v for row i of VT.
            let image = |i: usize| -> Vec<f64> {
                (0..m)
                    .map(|row| (0..n).map(|l| a[row + l * lda] * vt[i + l * n]).sum())
                    .collect()
            };
            let row = |i: usize| (0..n).map(|l| vt[i + l * n]).collect::<Vec<_>>();
            let dot = |x: Vec<f64>, y: Vec<f64>| x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>();
            for (i, value) in values.iter().enumerate() {
                for j in 0..=i {
                    let same = f64::from(u8::from(i == j));
                    assert!((dot(row(i), row(j)) - same).abs() < 1e-13);
                    assert!((dot(image(i), image(j)) - same * value * value).abs() < 1e-12);
                }
                let left = &u[i * m..(i + 1) * m];
                let distance = image(i).into_iter().zip(left).map(|(x, u)| (x - value * u).abs());
                assert!(distance.fold(0.0, f64::max) < 1e-13);
            }
            let left = from_device::<f64>(call.a, a.len());
            let in_matrix = |at: usize| at % lda < m;
            assert!((0..a.len()).all(|at| if in_matrix(at) {
                left[at].is_nan()
            } else {
                left[at] == a[at]
            }));
        }
        let text = stats();
        assert!(
            text.contains(r#"{"function": "cusolverDnDgesvd", "calls": 3, "runs": 3}"#),
            "{text}"
        );
        let unfit = Singular::of(handle, 2, 2, 2, &[1.0, f64::INFINITY, 0.0, 1.0]);
        assert_eq!(unfit.run(), CUSOLVER_SUCCESS);
        assert!(
            from_device::<c_int>(unfit.info, 1)[0] > 0,
            "no convergence is reported by info"
        );
    });
}

#[test]
fn what_gesvd_cannot_do_is_refused() {
    let ran = Child::new().run(|| {
        start();
        let handle = handle();
        let mut lwork = 0;
        // SAFETY: the pointer is valid.
        let wide = unsafe { cusolverDnDgesvd_bufferSize(handle, 4, 5, &mut lwork) };
        assert_eq!(wide, CUSOLVER_INVALID_VALUE);
        let good = Singular::of(handle, 7, 5, 7, &noise(35));
        assert_eq!(good.run(), CUSOLVER_SUCCESS);
        let refused = |change: &dyn Fn(&mut Singular)| {
            let mut call = good.clone();
            change(&mut call);
            assert_eq!(call.run(), CUSOLVER_INVALID_VALUE);
        };
        refused(&|call| call.m = 4);
        refused(&|call| call.jobs = [b'A', b'A']);
        refused(&|call| call.lda = 6);
        refused(&|call| call.ldvt = 4);
        refused(&|call| call.ldu = 6);
        refused(&|call| call.u += 8);
        refused(&|call| call.lwork -= 1);
        refused(&|call| call.vt = call.work);
        refused(&|call| call.info = 0);
        refused(&|call| call.a += 8);
    });
    let text = ran.said;
    for reason in [
        "4 rows are fewer than 5 columns",
        "only as many singular vectors as columns on either side (S, S) are emulated",
        "leading dimension 6 of A is less than its 7 rows",
        "leading dimension 4 of VT is less than its 5 rows",
        "leading dimension 6 of U is less than its 7 rows",
        "lwork is 56, and the query says 57",
        "VT overlaps the workspace",
    ] {
        assert!(text.contains(reason), "no {reason:?} in\n{text}");
    }
}

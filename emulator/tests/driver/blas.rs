//! cuBLAS: results against sums written out, every refusal, and products inside of graphs.

use super::{allocate, ok, start, stats};
use qcs_emulator::driver::*;
use qcs_emulator::libraries::*;
use qcs_emulator::stand_in::Child;
use std::ffi::c_int;
use std::ptr::{null, null_mut};

const N: c_int = 0;
const T: c_int = 1;

fn handle() -> Handle {
    let mut handle = null_mut();
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { cublasCreate_v2(&mut handle) }, CUBLAS_SUCCESS);
    handle
}

fn stream() -> Handle {
    let mut stream = null_mut();
    // SAFETY: the pointer is valid.
    ok(unsafe { cuStreamCreate(&mut stream, 0) });
    stream
}

/// Uploads values to an allocation of exactly their size; none are nowhere.
pub fn on_device<E: Copy>(values: &[E]) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let at = allocate(size_of_val(values)).unwrap();
    // SAFETY: the slice is valid for its size.
    ok(unsafe { cuMemcpyHtoD_v2(at, values.as_ptr() as u64, size_of_val(values)) });
    at
}

pub fn from_device<E: Copy + Default>(at: u64, count: usize) -> Vec<E> {
    let mut values = vec![E::default(); count];
    // SAFETY: the vector is valid for its size.
    ok(unsafe { cuMemcpyDtoH_v2(values.as_mut_ptr() as u64, at, size_of_val(&values[..])) });
    values
}

/// Small integers: products and sums of them are exact in both precisions, in any order.
fn integers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 17) as f64 - 8.0).collect()
}

/// The arguments of a product of doubles, good ones unless a test changes them.
#[derive(Clone)]
struct Call {
    handle: Handle,
    operations: [c_int; 2],
    extents: [c_int; 3],
    scalars: [f64; 2],
    a: u64,
    b: u64,
    c: u64,
    leading: [c_int; 3],
}

impl Call {
    fn run(&self) -> BlasStatus {
        let ([m, n, k], [lda, ldb, ldc], [alpha, beta]) = (self.extents, self.leading, &self.scalars);
        let [ta, tb] = self.operations;
        // SAFETY: the scalars are valid; addresses are checked.
        unsafe {
            cublasDgemm_v2(
                self.handle,
                ta,
                tb,
                m,
                n,
                k,
                alpha,
                self.a,
                lda,
                self.b,
                ldb,
                beta,
                self.c,
                ldc,
            )
        }
    }
}

#[test]
fn products_equal_the_sums_written_out() {
    Child::new().run(|| {
        start();
        let handle = handle();
        for (case, (m, n, k)) in [(1, 1, 1), (3, 5, 2), (7, 4, 19), (16, 1, 40), (2, 3, 0)]
            .into_iter()
            .enumerate()
        {
            for (ta, tb) in [(N, N), (N, T), (T, N), (T, T)] {
                for (alpha, beta) in [(1.0, 0.0), (2.0, -3.0), (0.0, 1.0)] {
                    let (rows_a, columns_a) = if ta == N { (m, k) } else { (k, m) };
                    let (rows_b, columns_b) = if tb == N { (k, n) } else { (n, k) };
                    let [lda, ldb, ldc] = [rows_a.max(1) + case, rows_b.max(1) + 2, m + 3];
                    let (a, b) = (integers(lda * columns_a, 1), integers(ldb * columns_b, 2));
                    // Where beta is zero C is not read: it may be NaN.
                    let c = if beta == 0.0 {
                        vec![f64::NAN; ldc * n]
                    } else {
                        integers(ldc * n, 3)
                    };
                    let mut expected = c.clone();
                    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                        let term = |l: usize| {
                            let a = if ta == N { a[i + l * lda] } else { a[l + i * lda] };
                            a * if tb == N { b[l + j * ldb] } else { b[j + l * ldb] }
                        };
                        let old = if beta == 0.0 { 0.0 } else { beta * c[i + j * ldc] };
                        expected[i + j * ldc] = alpha * (0..k).map(term).sum::<f64>() + old;
                    }
                    let bits = |values: Vec<f64>| values.iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<_>>();

                    let call = Call {
                        handle,
                        operations: [ta, tb],
                        extents: [m as c_int, n as c_int, k as c_int],
                        scalars: [alpha, beta],
                        a: on_device(&a),
                        b: on_device(&b),
                        c: on_device(&c),
                        leading: [lda as c_int, ldb as c_int, ldc as c_int],
                    };
                    assert_eq!(call.run(), CUBLAS_SUCCESS);
                    assert_eq!(bits(from_device(call.c, ldc * n)), bits(expected.clone()));

                    let single = |values: &[f64]| on_device(&values.iter().map(|v| *v as f32).collect::<Vec<_>>());
                    let (a, b, c) = (single(&a), single(&b), single(&c));
                    let ([m, n_, k], [lda, ldb, ldc_]) = (call.extents, call.leading);
                    let (alpha, beta) = (alpha as f32, beta as f32);
                    // SAFETY: the scalars are valid; addresses are checked.
                    let status =
                        unsafe { cublasSgemm_v2(handle, ta, tb, m, n_, k, &alpha, a, lda, b, ldb, &beta, c, ldc_) };
                    assert_eq!(status, CUBLAS_SUCCESS);
                    let result = from_device::<f32>(c, ldc * n).into_iter().map(f64::from).collect();
                    assert_eq!(bits(result), bits(expected));
                }
            }
        }
        let text = stats();
        assert!(
            text.contains(r#"{"function": "cublasDgemm_v2", "calls": 60, "runs": 60}"#),
            "{text}"
        );
    });
}

#[test]
fn a_single_precision_sum_is_rounded_as_one() {
    Child::new().run(|| {
        start();
        let handle = handle();
        let (ones, big) = (vec![1f32; 2], [16_777_216f32, 1.0]);
        let (a, b, c) = (on_device(&ones), on_device(&big), allocate(4).unwrap());
        let (alpha, beta) = (1f32, 0f32);
        // SAFETY: the scalars are valid; addresses are checked.
        let status = unsafe { cublasSgemm_v2(handle, T, N, 1, 1, 2, &alpha, a, 2, b, 2, &beta, c, 1) };
        assert_eq!(status, CUBLAS_SUCCESS);
        assert_eq!(
            from_device::<f32>(c, 1),
            [16_777_216.0],
            "2^24 + 1 has no place in an f32"
        );
    });
}

#[test]
fn what_cublas_cannot_do_is_refused() {
    let ran = Child::new().run(|| {
        ok(cuInit(0));
        let mut early = null_mut();
        // SAFETY: the pointer is valid.
        let refused = unsafe { cublasCreate_v2(&mut early) };
        assert_eq!(refused, CUBLAS_NOT_INITIALIZED, "no context");
        start();
        let good = Call {
            handle: handle(),
            operations: [N, N],
            extents: [3, 2, 4],
            scalars: [1.0, 0.0],
            a: on_device(&[0f64; 12]),
            b: on_device(&[0f64; 8]),
            c: on_device(&[0f64; 6]),
            leading: [3, 4, 3],
        };
        let refused = |status: BlasStatus, change: &dyn Fn(&mut Call)| {
            let mut call = good.clone();
            change(&mut call);
            assert_eq!(call.run(), status);
            assert_eq!(good.run(), CUBLAS_SUCCESS, "a refusal leaves no trace");
        };
        // SAFETY: null is what the call must refuse.
        assert_eq!(unsafe { cublasCreate_v2(null_mut()) }, CUBLAS_INVALID_VALUE);
        refused(CUBLAS_NOT_INITIALIZED, &|call| call.handle = null_mut());
        refused(CUBLAS_INVALID_VALUE, &|call| call.extents[1] = -1);
        refused(CUBLAS_INVALID_VALUE, &|call| call.operations[0] = 3);
        refused(CUBLAS_INVALID_VALUE, &|call| call.operations[1] = 7);
        refused(CUBLAS_INVALID_VALUE, &|call| call.leading[0] = 2);
        refused(CUBLAS_INVALID_VALUE, &|call| call.leading[0] = -3);
        refused(CUBLAS_INVALID_VALUE, &|call| call.leading[1] = 3);
        refused(CUBLAS_INVALID_VALUE, &|call| call.leading[2] = 2);
        // A transposed operand has other rows: 4 x 3 with a leading dimension of 3.
        refused(CUBLAS_INVALID_VALUE, &|call| call.operations[0] = T);
        refused(CUBLAS_INVALID_VALUE, &|call| call.a = 0);
        refused(CUBLAS_INVALID_VALUE, &|call| call.b += 4);
        // One element too far, and a padding that reaches beyond the end.
        refused(CUBLAS_INVALID_VALUE, &|call| call.b += 8);
        refused(CUBLAS_INVALID_VALUE, &|call| call.leading[2] = 4);
        refused(CUBLAS_INVALID_VALUE, &|call| call.c = call.a + 48);

        let Call { handle, a, b, c, .. } = good;
        // SAFETY: null and device memory are what the call must refuse; nothing else is read.
        unsafe {
            let (one, on_device) = (1.0, a as *const f64);
            let gemm = |alpha, beta| cublasDgemm_v2(handle, N, N, 3, 2, 4, alpha, a, 3, b, 4, beta, c, 3);
            assert_eq!(gemm(null(), &one), CUBLAS_INVALID_VALUE);
            assert_eq!(gemm(&one, null()), CUBLAS_INVALID_VALUE);
            assert_eq!(gemm(on_device, &one), CUBLAS_INVALID_VALUE);
            assert_eq!(cublasGetVersion_v2(handle, null_mut()), CUBLAS_INVALID_VALUE);
        }

        let workspace = allocate(1024).unwrap();
        assert_eq!(cublasSetWorkspace_v2(handle, workspace, 1025), CUBLAS_INVALID_VALUE);
        assert_eq!(
            cublasSetWorkspace_v2(handle, workspace + 128, 256),
            CUBLAS_INVALID_VALUE
        );
        assert_eq!(cublasSetWorkspace_v2(handle, workspace, 0), CUBLAS_INVALID_VALUE);
        assert_eq!(
            cublasSetWorkspace_v2(null_mut(), workspace, 1024),
            CUBLAS_NOT_INITIALIZED
        );
        assert_eq!(cublasSetWorkspace_v2(handle, b, 64), CUBLAS_SUCCESS);
        assert_eq!(good.run(), CUBLAS_INVALID_VALUE, "an operand lies in the workspace");
        ok(cuMemFree_v2(workspace));

        // SAFETY: the default stream.
        let status = unsafe { cublasSetStream_v2(null_mut(), null_mut()) };
        assert_eq!(status, CUBLAS_NOT_INITIALIZED);
        assert_eq!(cublasDestroy_v2(handle), CUBLAS_SUCCESS);
        assert_eq!(cublasDestroy_v2(handle), CUBLAS_NOT_INITIALIZED);
        assert_eq!(good.run(), CUBLAS_NOT_INITIALIZED);
    });
    let text = ran.said;
    for reason in [
        "the handle is null, destroyed, of another context or not of cuBLAS",
        "an extent is negative",
        "the operation on B is none of N, T, C",
        "leading dimension 2 of A is less than its 3 rows",
        "leading dimension 3 of B is less than its 4 rows",
        "leading dimension 2 of C is less than its 3 rows",
        "A is null",
        "B at",
        "C is 3 x 2 with leading dimension 4: 56 bytes at",
        "C overlaps A",
        "the workspace overlaps B",
        "alpha is null",
        "alpha is in device memory",
        "aligned to 256",
        "the driver reports error 201",
    ] {
        assert!(text.contains(reason), "no {reason:?} in\n{text}");
    }
}

#[test]
fn a_captured_product_runs_with_every_launch_of_its_graph() {
    let ran = Child::new().run(|| {
        start();
        let (handle, stream) = (handle(), stream());
        let workspace = allocate(4096).unwrap();
        let add = Call {
            handle,
            operations: [N, N],
            extents: [1, 1, 1],
            // C ← 2·A·B + C, so that every run counts.
            scalars: [2.0, 1.0],
            a: on_device(&[3f64]),
            b: on_device(&[5f64]),
            c: on_device(&[0f64]),
            leading: [1; 3],
        };
        assert_eq!(cublasSetWorkspace_v2(handle, workspace, 4096), CUBLAS_SUCCESS);
        // SAFETY: the stream is live.
        assert_eq!(unsafe { cublasSetStream_v2(handle, stream) }, CUBLAS_SUCCESS);
        // SAFETY: the stream is live, and the pointers are valid.
        unsafe {
            ok(cuStreamBeginCapture_v2(stream, 2));
            assert_eq!(
                add.run(),
                CUBLAS_ALLOC_FAILED,
                "setting the stream gave up the workspace"
            );
            assert_eq!(cublasSetWorkspace_v2(handle, workspace, 4096), CUBLAS_SUCCESS);
            assert_eq!(add.run(), CUBLAS_EXECUTION_FAILED, "its kernel is not loaded yet");
            let mut empty = null_mut();
            ok(cuStreamEndCapture(stream, &mut empty));
            assert_eq!(add.run(), CUBLAS_SUCCESS);
            ok(cuMemsetD8_v2(add.c, 0, 8));
            ok(cuMemsetD8_v2(workspace, 255, 4096));
            ok(cuStreamBeginCapture_v2(stream, 2));
            assert_eq!(add.run(), CUBLAS_SUCCESS);
            assert_eq!(cublasCreate_v2(&mut null_mut()), CUBLAS_EXECUTION_FAILED);
            let (mut graph, mut instance) = (null_mut(), null_mut());
            ok(cuStreamEndCapture(stream, &mut graph));
            assert_eq!(from_device::<f64>(add.c, 1), [0.0], "captured, not run");
            assert_eq!(from_device::<u32>(workspace, 1), [u32::MAX]);
            ok(cuMemsetD8_v2(workspace, 0, 4096));
            ok(cuGraphInstantiateWithFlags(&mut instance, graph, 0));
            for _ in 0..3 {
                ok(cuGraphLaunch(instance, stream));
            }
            assert_eq!(from_device::<f64>(add.c, 1), [90.0]);
            assert_eq!(
                from_device::<u8>(workspace, 4096),
                [255; 4096],
                "the library uses its workspace"
            );
            let text = stats();
            assert!(
                text.contains(r#"{"function": "cublasDgemm_v2", "calls": 2, "runs": 4}"#),
                "{text}"
            );
            ok(cuMemFree_v2(add.a));
            assert_eq!(cuGraphLaunch(instance, stream), INVALID_VALUE, "A is gone");
        }
    });
    let text = ran.said;
    assert!(text.contains("captured without a workspace"), "{text}");
    assert!(
        text.contains("cublasCreate_v2 while a stream is being captured"),
        "{text}"
    );
}

#[test]
fn a_library_on_a_faulted_context_says_so() {
    let ran = Child::new().env("QCS_EMU_FAULT_KERNEL", "scale").run(|| {
        start();
        let handle = handle();
        let kernel = super::function(super::load(super::PTX).unwrap(), c"scale");
        let at = on_device(&[1f64; 4]);
        let product = Call {
            handle,
            operations: [N, N],
            extents: [1; 3],
            scalars: [1.0, 0.0],
            a: at,
            b: at,
            c: at + 8,
            leading: [1; 3],
        };
        assert_eq!(product.run(), CUBLAS_SUCCESS);
        ok(super::scale(kernel, at, 1.0, 1, null_mut()));
        assert_eq!(product.run(), CUBLAS_EXECUTION_FAILED);
    });
    let text = ran.said;
    assert!(text.contains("the driver reports error 719"), "{text}");
}

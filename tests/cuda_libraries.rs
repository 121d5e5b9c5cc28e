//! The engine's use of NVIDIA's libraries, on the emulator's stand-ins: no GPU and no CUDA are needed.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, sys};
use qcs::Error;
use qcs::engine::cuda::blas::{Blas, Real, Shape, WORKSPACE_BYTES};
use qcs::engine::cuda::solver::{Factorisation, Solver};
use qcs::engine::cuda::trace;
use qcs::problem::{Ensemble, Matrix, Spectrum};
use qcs_emulator::stand_in::{Child, Library};

fn stream() -> Arc<CudaStream> {
    let context = CudaContext::new(0).unwrap();
    // SAFETY: all work is on one stream, and may be captured.
    unsafe { context.disable_event_tracking() };
    context.new_stream().unwrap()
}

fn open_blas(stream: &CudaStream) -> qcs::Result<Blas> {
    // SAFETY: the stream outlives the handle in every test.
    unsafe { Blas::open(stream.cu_stream().cast()) }
}

fn open_solver(stream: &CudaStream) -> qcs::Result<Solver> {
    // SAFETY: the stream outlives the handle in every test.
    unsafe { Solver::open(stream.cu_stream().cast()) }
}

fn at<T: DeviceRepr>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}

/// Small integers: sums of their products are exact in both precisions.
fn integers(count: usize, seed: usize) -> Vec<i8> {
    (0..count).map(|i| ((i * 29 + seed * 7) % 13) as i8 - 6).collect()
}

/// Both products for one precision and shape, against sums written out.
fn products<T>(stream: &Arc<CudaStream>, blas: &Blas, shape: Shape)
where
    T: Real + DeviceRepr + From<i8> + Copy + Default + PartialEq + std::fmt::Debug + std::iter::Sum,
    T: std::ops::Mul<Output = T> + cudarc::driver::ValidAsZeroBits,
{
    let Shape { rows, columns, states } = shape;
    let values = |count, seed| integers(count, seed).into_iter().map(T::from).collect::<Vec<T>>();
    let (a, x, g) = (
        values(rows * columns, 1),
        values(states * columns, 2),
        values(states * rows, 3),
    );
    let [a_device, x_device, g_device] = [&a, &x, &g].map(|host| stream.clone_htod(host).unwrap());
    // Exactly as large as they must be: the emulator refuses a byte more.
    let z = stream.alloc_zeros::<T>(states * rows).unwrap();
    let s = stream.alloc_zeros::<T>(states * columns).unwrap();
    let [a_at, x_at, g_at, z_at, s_at] = [&a_device, &x_device, &g_device, &z, &s].map(|slice| at(slice, stream));
    // SAFETY: the arrays have the shapes given.
    unsafe {
        blas.matrix_times::<T>(shape, a_at, x_at, z_at).unwrap();
        blas.transposed_times::<T>(shape, a_at, g_at, s_at).unwrap();
    }
    let (z, s) = (stream.clone_dtoh(&z).unwrap(), stream.clone_dtoh(&s).unwrap());
    for b in 0..states {
        for m in 0..rows {
            let sum: T = (0..columns).map(|n| a[m * columns + n] * x[b * columns + n]).sum();
            assert_eq!(z[b * rows + m], sum);
        }
        for n in 0..columns {
            let sum: T = (0..rows).map(|m| a[m * columns + n] * g[b * rows + m]).sum();
            assert_eq!(s[b * columns + n], sum);
        }
    }
}

#[test]
fn products_are_those_of_row_major_arrays() {
    let ran = Child::new().finding(&[Library::Driver, Library::Blas]).run(|| {
        let stream = stream();
        let blas = open_blas(&stream).unwrap();
        assert_eq!(blas.version(), "12.8.0");
        for (rows, columns, states) in [(1, 1, 1), (5, 9, 3), (20, 4, 2), (33, 65, 8)] {
            let shape = Shape { rows, columns, states };
            products::<f64>(&stream, &blas, shape);
            products::<f32>(&stream, &blas, shape);
        }
        let shape = Shape {
            rows: 2,
            columns: usize::MAX,
            states: 1,
        };
        // SAFETY: refused before an address is used.
        let error = unsafe { blas.matrix_times::<f64>(shape, 0, 0, 0) }.unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error}");
    });
    let stats = ran.stats;
    assert!(
        stats.contains(r#"{"function": "cublasSgemm_v2", "calls": 8, "runs": 8}"#),
        "{stats}"
    );
}

#[test]
fn a_captured_product_is_computed_by_every_launch() {
    let ran = Child::new().finding(&[Library::Driver, Library::Blas]).run(|| {
        let stream = stream();
        let blas = open_blas(&stream).unwrap();
        let mut workspace = stream.alloc_zeros::<u8>(WORKSPACE_BYTES).unwrap();
        let (a, mut x) = (
            stream.clone_htod(&[2f64, 3.0]).unwrap(),
            stream.clone_htod(&[1f64, 1.0]).unwrap(),
        );
        let z = stream.alloc_zeros::<f64>(1).unwrap();
        let shape = Shape {
            rows: 1,
            columns: 2,
            states: 1,
        };
        stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .unwrap();
        let [a_at, x_at, z_at] = [&a, &x, &z].map(|slice| at(slice, &stream));
        // SAFETY: the arrays have the shapes given.
        let product = || unsafe { blas.matrix_times::<f64>(shape, a_at, x_at, z_at) };
        let error = product().unwrap_err().to_string();
        assert_eq!(
            error, "cuBLAS cannot multiply by A: CUBLAS_STATUS_ALLOC_FAILED",
            "no workspace was given"
        );
        // SAFETY: the workspace is as large as it must be, and lives to the end.
        let lent =
            unsafe { blas.lend_workspace(stream.cu_stream().cast(), workspace.device_ptr_mut(&stream).0) }.unwrap();
        let error = product().unwrap_err().to_string();
        assert_eq!(
            error, "cuBLAS cannot multiply by A: CUBLAS_STATUS_EXECUTION_FAILED",
            "its kernel is not loaded"
        );
        let flags = sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        drop(stream.end_capture(flags).unwrap());
        product().unwrap();
        stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .unwrap();
        product().unwrap();
        let graph = stream.end_capture(flags).unwrap().expect("something was captured");
        graph.launch().unwrap();
        assert_eq!(stream.clone_dtoh(&z).unwrap(), [5.0]);
        stream.memcpy_htod(&[10f64, 1.0], &mut x).unwrap();
        graph.launch().unwrap();
        assert_eq!(stream.clone_dtoh(&z).unwrap(), [23.0]);
        drop(graph);
        // The memory goes, and the library no longer knows of it: the emulator would refuse the product.
        drop(lent);
        drop(workspace);
        product().unwrap();
    });
    let stats = ran.stats;
    assert!(
        stats.contains(r#"{"function": "cublasDgemm_v2", "calls": 3, "runs": 4}"#),
        "{stats}"
    );
}

/// A's spectrum on the device, in memory of exactly the size asked for.
fn spectrum(stream: &Arc<CudaStream>, a: &Matrix, how: Factorisation) -> qcs::Result<Spectrum> {
    let (blas, solver) = (open_blas(stream)?, open_solver(stream)?);
    let (m, n) = (a.rows(), a.cols());
    let bytes = solver.spectrum_bytes(m, n, how)?;
    let mut scratch = stream.alloc_zeros::<u8>(bytes).unwrap();
    // SAFETY: the scratch memory is as large as it must be.
    unsafe { solver.spectrum(&blas, &a.to_f64(), m, n, how, scratch.device_ptr_mut(stream).0) }
}

#[test]
fn both_factorisations_give_the_spectrum_of_a() {
    let ran = Child::new()
        .finding(&[Library::Driver, Library::Blas, Library::Solver])
        .run(|| {
            let stream = stream();
            for (m, n) in [(1, 3), (24, 24), (40, 100), (30, 12)] {
                let a = Ensemble::Gaussian.build(m, n, 5).unwrap().0;
                let on_host = Spectrum::of(&a).unwrap();
                for how in [Factorisation::Eigen, Factorisation::Singular] {
                    let on_device = spectrum(&stream, &a, how).unwrap();
                    on_device.check(&a.clone().into()).unwrap();
                    assert!(on_device.eigenvalues.is_sorted_by(|a, b| a >= b));
                    for (device, host) in on_device.eigenvalues.iter().zip(&on_host.eigenvalues) {
                        assert!(
                            (device - host).abs() < 1e-12 * on_host.eigenvalues[0],
                            "{how:?} {m}x{n}"
                        );
                    }
                }
            }
        });
    let stats = ran.stats;
    for function in ["cusolverDnDsyevd", "cusolverDnDgesvd"] {
        assert!(
            stats.contains(&format!(r#"{{"function": "{function}", "calls": 4, "runs": 4}}"#)),
            "{stats}"
        );
    }
}

#[test]
fn singular_values_too_small_to_be_squared_survive() {
    Child::new()
        .finding(&[Library::Driver, Library::Blas, Library::Solver])
        .run(|| {
            // Rows of an orthogonal matrix, scaled: the scales are the singular values.
            let (m, n) = (6, 10);
            let Spectrum { u, .. } = Spectrum::of(&Ensemble::Gaussian.build(n, n, 3).unwrap().0).unwrap();
            let scales = [1.0, 0.1, 1e-3, 1e-6, 1e-9, 1e-12];
            let rows = u.unwrap();
            let scaled = (0..m).flat_map(|i| rows[i * n..(i + 1) * n].iter().map(move |r| r * scales[i]));
            let a = Matrix::from_f64(m, n, scaled.collect()).unwrap();
            let stream = stream();
            let exact = spectrum(&stream, &a, Factorisation::Singular).unwrap();
            for (eigenvalue, scale) in exact.eigenvalues.iter().zip(scales) {
                assert!(
                    (eigenvalue.sqrt() / scale - 1.0).abs() < 1e-3,
                    "{eigenvalue:e} for {scale:e}"
                );
            }
            let squared = spectrum(&stream, &a, Factorisation::Eigen).unwrap();
            assert!(squared.eigenvalues.iter().all(|value| *value >= 0.0));
            squared.check(&a.into()).unwrap();
        });
}

#[test]
fn a_spectrum_that_cannot_be_computed_is_an_error() {
    Child::new()
        .finding(&[Library::Driver, Library::Blas, Library::Solver])
        .run(|| {
            let stream = stream();
            let (blas, solver) = (open_blas(&stream).unwrap(), open_solver(&stream).unwrap());
            let (m, n) = (4, 7);
            for how in [Factorisation::Eigen, Factorisation::Singular] {
                let bytes = solver.spectrum_bytes(m, n, how).unwrap();
                let whole = stream.alloc_zeros::<u8>(bytes).unwrap();
                let short = stream.alloc_zeros::<u8>(bytes - 256).unwrap();
                let compute = |a: &[f64], scratch: &CudaSlice<u8>| {
                    // SAFETY: the emulator checks what does not fit.
                    unsafe { solver.spectrum(&blas, a, m, n, how, at(scratch, &stream)) }
                };
                compute(&[1.0; 28], &whole).unwrap();
                let error = compute(&[f64::NAN; 28], &whole).unwrap_err();
                assert!(matches!(error, Error::Failed(_)), "{error}");
                let error = compute(&[1.0; 28], &short).unwrap_err();
                assert!(matches!(error, Error::Device(_)), "{error}");
            }
        });
}

#[test]
fn a_missing_library_is_an_error_of_one_line() {
    Child::new().finding(&[Library::Driver]).run(|| {
        let stream = stream();
        let reason = |error: Option<Error>| error.unwrap().to_string();
        assert_eq!(
            reason(open_blas(&stream).err()),
            "libcublas was not found or does not load"
        );
        assert_eq!(
            reason(open_solver(&stream).err()),
            "libcusolver was not found or does not load"
        );
        assert_eq!(
            reason(trace::available().err()),
            "libnvToolsExt was not found or does not load"
        );
        drop(trace::range(format_args!("nobody sees this")));
    });
}

#[test]
fn ranges_and_recordings_reach_the_profiler() {
    let ran = Child::new().finding(&[Library::Driver, Library::Nvtx]).run(|| {
        let _stream = stream();
        let _recording = trace::Recording::start().unwrap();
        let _level = trace::range(format_args!("level {}", 2));
        for step in 0..2 {
            let _step = trace::range(format_args!("step {step}"));
        }
    });
    let stats = ran.stats;
    for part in [
        r#"{"range": "level 2", "opened": 1}"#,
        r#"{"range": "level 2 > step 0", "opened": 1}"#,
        r#"{"range": "level 2 > step 1", "opened": 1}"#,
        r#""ranges_closed": 3"#,
        r#""profiler_starts": 1, "profiler_stops": 1"#,
    ] {
        assert!(stats.contains(part), "no {part} in\n{stats}");
    }
}

//! An unmodified cudarc program on the emulator: the shared library is found under the names of the driver and of
//! NVIDIA's libraries.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use qcs_emulator::stand_in::{self, Child, Library};
use std::path::{Path, PathBuf};

#[test]
fn a_cudarc_program_runs_on_the_emulator() {
    let ran = Child::new().finding(&[Library::Driver]).run(|| {
        // SAFETY: only looks for the library.
        assert!(unsafe { sys::is_culib_present() });
        let context = CudaContext::new(0).unwrap();
        assert!(context.name().unwrap().starts_with("qcs PTX emulator"));
        let stream = context.new_stream().unwrap();
        let module = context
            .load_module(Ptx::from_src(include_str!("ptx/kernels_sm_80.ptx")))
            .unwrap();
        let saxpy = module.load_function("saxpy_alg").unwrap();

        let n = 1000u32;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let x_device = stream.clone_htod(&x).unwrap();
        let mut y_device = stream.alloc_zeros::<f32>(n as usize).unwrap();
        let config = LaunchConfig::for_num_elems(n);
        let factor = 3f32;
        let start = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream
                .launch_builder(&saxpy)
                .arg(&n)
                .arg(&factor)
                .arg(&x_device)
                .arg(&mut y_device)
                .launch(config)
        }
        .unwrap();
        let end = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
        assert!(start.elapsed_ms(&end).unwrap() > 0.0);
        assert_eq!(
            stream.clone_dtoh(&y_device).unwrap(),
            x.iter().map(|x| 3.0 * x).collect::<Vec<_>>()
        );

        // Events between streams have no place in a captured graph of one stream.
        // SAFETY: all work is on one stream.
        unsafe { context.disable_event_tracking() };
        stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .unwrap();
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            stream
                .launch_builder(&saxpy)
                .arg(&n)
                .arg(&factor)
                .arg(&x_device)
                .arg(&mut y_device)
                .launch(config)
        }
        .unwrap();
        let flags = sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags).unwrap().expect("something was captured");
        graph.launch().unwrap();
        graph.launch().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(
            stream.clone_dtoh(&y_device).unwrap(),
            x.iter().map(|x| 9.0 * x).collect::<Vec<_>>()
        );
    });
    assert!(
        ran.stats.contains("\"graph_launches\": 2") && ran.stats.contains("\"kernel\": \"saxpy_alg\""),
        "{}",
        ran.stats
    );
}

#[test]
fn a_fault_reaches_the_program_as_an_error() {
    let ran = Child::new().finding(&[Library::Driver]).run(|| {
        let context = CudaContext::new(0).unwrap();
        let stream = context.default_stream();
        let module = context
            .load_module(Ptx::from_src(include_str!("ptx/kernels_sm_80.ptx")))
            .unwrap();
        let relu = module.load_function("relu_slice").unwrap();
        let x = stream.clone_htod(&[1f32; 64]).unwrap();
        let mut y = stream.alloc_zeros::<f32>(63).unwrap();
        let n = 64u32;
        // SAFETY: the output is too short on purpose; the emulator checks every access.
        unsafe {
            stream
                .launch_builder(&relu)
                .arg(&n)
                .arg(&x)
                .arg(&mut y)
                .launch(LaunchConfig::for_num_elems(64))
        }
        .unwrap();
        let error = stream.synchronize().unwrap_err();
        assert!(error.to_string().contains("ILLEGAL_ADDRESS"), "{error}");
    });
    let fault = "kernel relu_slice: out-of-bounds global";
    assert!(ran.said.contains(fault), "{}", ran.said);
}

#[test]
fn a_missing_device_is_an_error_and_not_a_crash() {
    Child::new()
        .finding(&[Library::Driver])
        .env("QCS_EMU_NO_DEVICE", "1")
        .run(|| {
            assert!(CudaContext::new(0).unwrap_err().to_string().contains("NO_DEVICE"));
        });
}

/// Products at once and in a graph, an eigendecomposition, ranges.
fn use_the_libraries() {
    use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, sys::cublasOperation_t::CUBLAS_OP_N};
    use cudarc::cusolver::{result as solver, sys as solver_sys};
    use cudarc::driver::{DevicePtr, DevicePtrMut};
    use cudarc::nvtx::result::{range_pop, range_push};

    let context = CudaContext::new(0).unwrap();
    // Events between streams have no place in a captured graph of one stream.
    // SAFETY: all work is on one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let blas = CudaBlas::new(stream.clone()).unwrap();
    // [[2, 1], [1, 2]] is its own transpose, whatever the order of its elements.
    let a = stream.clone_htod(&[2f64, 1.0, 1.0, 2.0]).unwrap();
    let mut square = stream.alloc_zeros::<f64>(4).unwrap();
    let config = GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_N,
        m: 2,
        n: 2,
        k: 2,
        alpha: 1.0,
        lda: 2,
        ldb: 2,
        beta: 0.0,
        ldc: 2,
    };
    assert_eq!(range_push("level 0"), 0);
    assert_eq!(range_push("gemm"), 1);
    // SAFETY: the shapes are those of the slices.
    unsafe { blas.gemm(config, &a, &a, &mut square) }.unwrap();
    assert_eq!((range_pop(), range_pop()), (1, 0));
    assert_eq!(stream.clone_dtoh(&square).unwrap(), [5.0, 4.0, 4.0, 5.0]);

    let mut workspace = stream.alloc_zeros::<u8>(4096).unwrap();
    let at = workspace.device_ptr_mut(&stream).0;
    // SAFETY: the workspace outlives the handle.
    unsafe { cudarc::cublas::sys::cublasSetWorkspace_v2(*blas.handle(), at as *mut _, 4096) }
        .result()
        .unwrap();
    stream
        .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        .unwrap();
    let accumulating = GemmConfig { beta: 1.0, ..config };
    // SAFETY: the shapes are those of the slices.
    unsafe { blas.gemm(accumulating, &a, &a, &mut square) }.unwrap();
    let flags = sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("something was captured");
    graph.launch().unwrap();
    graph.launch().unwrap();
    assert_eq!(stream.clone_dtoh(&square).unwrap(), [15.0, 12.0, 12.0, 15.0]);

    let handle = solver::dn_create().unwrap();
    let (mode, half) = (
        solver_sys::cusolverEigMode_t::CUSOLVER_EIG_MODE_VECTOR,
        solver_sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
    );
    let mut values = stream.alloc_zeros::<f64>(2).unwrap();
    let mut info = stream.alloc_zeros::<i32>(1).unwrap();
    let (a, w) = (
        a.device_ptr(&stream).0 as *mut f64,
        values.device_ptr_mut(&stream).0 as *mut f64,
    );
    // SAFETY: the shapes are those of the slices.
    unsafe {
        solver::dn_set_stream(handle, stream.cu_stream().cast()).unwrap();
        let mut size = 0;
        solver_sys::cusolverDnDsyevd_bufferSize(handle, mode, half, 2, a, 2, w, &mut size)
            .result()
            .unwrap();
        let mut work = stream.alloc_zeros::<f64>(size as usize).unwrap();
        let (work, info) = (work.device_ptr_mut(&stream).0, info.device_ptr_mut(&stream).0);
        solver_sys::cusolverDnDsyevd(handle, mode, half, 2, a, 2, w, work as *mut _, size, info as *mut _)
            .result()
            .unwrap();
        solver::dn_destroy(handle).unwrap();
    }
    assert_eq!(stream.clone_dtoh(&info).unwrap(), [0]);
    let values = stream.clone_dtoh(&values).unwrap();
    assert!(
        (values[0] - 1.0).abs() < 1e-15 && (values[1] - 3.0).abs() < 1e-15,
        "{values:?}"
    );
}

#[test]
fn cublas_cusolver_and_nvtx_work_through_cudarc() {
    let ran = Child::new().finding(&Library::ALL).run(|| {
        use_the_libraries();
    });
    for part in [
        r#"{"function": "cublasDgemm_v2", "calls": 2, "runs": 3}"#,
        r#"{"function": "cusolverDnDsyevd", "calls": 1, "runs": 1}"#,
        r#"{"range": "level 0 > gemm", "opened": 1}"#,
    ] {
        assert!(ran.stats.contains(part), "no {part} in\n{}", ran.stats);
    }
}

/// Which of cuBLAS, cuSOLVER and NVTX can be loaded.
fn libraries_present() -> [bool; 3] {
    // SAFETY: only looks for the libraries.
    unsafe {
        [
            cudarc::cublas::sys::is_culib_present(),
            cudarc::cusolver::sys::is_culib_present(),
            cudarc::nvtx::sys::is_culib_present(),
        ]
    }
}

/// A folder as a CUDA toolkit and its driver fill it, with libraries that load and know nothing of the emulator's driver:
/// a copy of the emulator under every name that cudarc tries.
fn toolkit(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let decoy = folder.join("decoy.so");
    std::fs::copy(stand_in::shared_library().unwrap(), &decoy).expect("the library can be copied");
    for stem in ["cuda", "nvcuda", "cublas", "cusolver", "nvToolsExt"] {
        for name in cudarc::get_lib_name_candidates(stem) {
            // Two of the names are the same.
            let _ = std::os::unix::fs::symlink(&decoy, folder.join(name));
        }
    }
    folder
}

#[test]
fn stand_ins_come_before_the_libraries_of_an_installed_toolkit() {
    let toolkit = toolkit("toolkit");
    let child = Child::new().finding(&Library::ALL).env("LD_LIBRARY_PATH", toolkit);
    child.run(|| {
        assert_eq!(libraries_present(), [true; 3]);
        use_the_libraries();
        let mapped = std::fs::read_to_string("/proc/self/maps").expect("Linux tells what is mapped");
        assert!(mapped.contains("libqcs_emulator.so"), "{mapped}");
        assert!(!mapped.contains("decoy.so"), "{mapped}");
    });
}

#[test]
fn a_library_that_is_not_linked_is_absent() {
    let toolkit = toolkit("toolkit-unseen");
    for elsewhere in [PathBuf::new(), toolkit] {
        let child = Child::new().finding(&[Library::Driver, Library::Solver]);
        child.env("LD_LIBRARY_PATH", elsewhere).run(|| {
            assert_eq!(libraries_present(), [false, true, false]);
        });
    }
}

#[test]
fn every_name_that_cudarc_tries_is_taken() {
    for (library, stems) in [
        (Library::Driver, &["cuda", "nvcuda"][..]),
        (Library::Blas, &["cublas"]),
        (Library::Solver, &["cusolver"]),
        (Library::Nvtx, &["nvToolsExt"]),
    ] {
        for name in stems.iter().flat_map(|stem| cudarc::get_lib_name_candidates(stem)) {
            assert!(library.names().any(|taken| taken == name), "{name}");
        }
    }
}

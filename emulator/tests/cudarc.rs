//! An unmodified cudarc program on the emulator: the shared library is found as `libcuda.so.1`.
//!
//! The dynamic loader reads `LD_LIBRARY_PATH` when a process starts, so the program runs in a child.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use std::path::{Path, PathBuf};

/// Cargo builds the shared library together with this test and puts it beside it.
fn shared_library() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let beside = program
        .parent()
        .expect("it lies in a folder")
        .join("libqcs_emulator.so");
    assert!(beside.exists(), "{} is missing", beside.display());
    beside
}

fn run_child(name: &str, environment: &[(&str, &str)]) -> (bool, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcuda-{name}"));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let link = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(shared_library(), &link).expect("the link can be made");
    let output = std::process::Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .envs(environment.iter().copied())
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.into_owned())
}

#[test]
fn a_cudarc_program_runs_on_the_emulator() {
    let stats = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cudarc-stats.json");
    let (passed, text) = run_child(
        "child_cudarc",
        &[("QCS_EMU_STATS", stats.to_str().expect("a plain path"))],
    );
    assert!(passed, "{text}");
    let stats = std::fs::read_to_string(stats).expect("the statistics were written");
    assert!(
        stats.contains("\"graph_launches\": 2") && stats.contains("\"kernel\": \"saxpy_alg\""),
        "{stats}"
    );
}

#[test]
#[ignore = "run by its parent with LD_LIBRARY_PATH set"]
fn child_cudarc() {
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
}

#[test]
fn a_fault_reaches_the_program_as_an_error() {
    let (passed, text) = run_child("child_fault", &[]);
    assert!(
        passed && text.contains("kernel relu_slice: out-of-bounds global"),
        "{text}"
    );
}

#[test]
#[ignore = "run by its parent with LD_LIBRARY_PATH set"]
fn child_fault() {
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
}

#[test]
fn a_missing_device_is_an_error_and_not_a_crash() {
    let (passed, text) = run_child("child_no_device", &[("QCS_EMU_NO_DEVICE", "1")]);
    assert!(passed, "{text}");
}

#[test]
#[ignore = "run by its parent with LD_LIBRARY_PATH set"]
fn child_no_device() {
    assert!(CudaContext::new(0).unwrap_err().to_string().contains("NO_DEVICE"));
}

//! Several devices: what was made in one context is refused in another, memory is told apart, and each device counts.

use super::*;
use qcs_emulator::libraries::{CUBLAS_NOT_INITIALIZED, CUBLAS_SUCCESS, cublasCreate_v2, cublasDestroy_v2};

/// The primary context of a device, made current.
fn enter(device: i32) -> Handle {
    let mut context = null_mut();
    // SAFETY: the pointer is valid.
    ok(unsafe { cuDevicePrimaryCtxRetain(&mut context, device) });
    ok(cuCtxSetCurrent(context));
    context
}

/// What a program makes on one device.
struct Made {
    context: Handle,
    kernel: Handle,
    module: Handle,
    stream: Handle,
    event: Handle,
    data: u64,
    graph: Handle,
}

fn make(device: i32) -> Made {
    let context = enter(device);
    let module = load(PTX).unwrap();
    let kernel = function(module, c"scale");
    let data = allocate(16).unwrap();
    upload(data, &[1.0, 2.0, 3.0, 4.0]);
    let (mut stream, mut event, mut captured, mut graph) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: all handles are live.
    unsafe {
        ok(cuStreamCreate(&mut stream, 1));
        ok(cuEventCreate(&mut event, 0));
        ok(cuStreamBeginCapture_v2(stream, 0));
        ok(scale(kernel, data, 2.0, 4, stream));
        ok(cuStreamEndCapture(stream, &mut captured));
        ok(cuGraphInstantiateWithFlags(&mut graph, captured, 0));
        ok(cuGraphDestroy(captured));
    }
    Made {
        context,
        kernel,
        module,
        stream,
        event,
        data,
        graph,
    }
}

#[test]
fn what_is_made_in_one_context_is_refused_in_another() {
    let ran = Child::new().env("QCS_EMU_DEVICES", "2").run(|| {
        ok(cuInit(0));
        let (zero, one) = (make(0), make(1));
        ok(cuCtxSetCurrent(zero.context));
        // SAFETY: all handles are live.
        unsafe {
            assert_eq!(scale(zero.kernel, zero.data, 2.0, 4, one.stream), INVALID_HANDLE);
            assert_eq!(scale(one.kernel, zero.data, 2.0, 4, zero.stream), INVALID_HANDLE);
            assert_eq!(scale(one.kernel, one.data, 2.0, 4, null_mut()), INVALID_HANDLE);
            assert_eq!(cuEventRecord(one.event, zero.stream), INVALID_HANDLE);
            assert_eq!(cuGraphLaunch(one.graph, zero.stream), INVALID_VALUE);
            assert_eq!(cuGraphLaunch(zero.graph, one.stream), INVALID_VALUE);
            assert_eq!(cuStreamBeginCapture_v2(one.stream, 0), INVALID_HANDLE);
            let mut found = null_mut();
            assert_eq!(
                cuModuleGetFunction(&mut found, one.module, c"scale".as_ptr()),
                INVALID_HANDLE
            );
            // As on a GPU, these need not be of the current context.
            ok(cuEventRecord(one.event, one.stream));
            ok(cuEventRecord(zero.event, zero.stream));
            ok(cuStreamSynchronize(one.stream));
            ok(cuEventSynchronize(one.event));
            let mut time = 0.0;
            assert_eq!(cuEventElapsedTime(&mut time, zero.event, one.event), INVALID_HANDLE);
        }
        assert_eq!(download(zero.data, 1), Ok(vec![1.0]), "nothing has run");
        assert_eq!(download(one.data, 1), Ok(vec![1.0]), "nothing has run");
    });
    let messages = ran.said;
    let said = "a kernel in a stream of device 1 while the context of device 0 is current";
    assert!(messages.contains(said), "{messages}");
}

#[test]
fn devices_have_their_own_memory_errors_and_counts() {
    Child::new().env("QCS_EMU_DEVICES", "3").env("QCS_EMU_MEMORY", "1000").run(|| {
    ok(cuInit(0));
    let (mut count, mut uuids) = (0, [[0; 16]; 3]);
    // SAFETY: the pointers are valid.
    unsafe {
        ok(cuDeviceGetCount(&mut count));
        assert_eq!(count, 3);
        let mut context = null_mut();
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 3), INVALID_DEVICE);
        assert_eq!(cuCtxSetCurrent(std::ptr::without_provenance_mut(1)), INVALID_CONTEXT);
        (0..3).for_each(|n| ok(cuDeviceGetUuid_v2(&mut uuids[n], n as i32)));
    }
    assert!(uuids[0] != uuids[1] && uuids[1] != uuids[2]);

    let (zero, one) = (make(0), make(1));
    qcs_emu_reset_stats();
    assert_eq!(allocate(985), Err(OUT_OF_MEMORY), "16 of 1000 bytes are in use here");
    ok(cuCtxSetCurrent(zero.context));
    let large = allocate(984).unwrap();
    // SAFETY: all handles are live.
    ok(unsafe { cuGraphLaunch(zero.graph, zero.stream) });
    ok(cuCtxSetCurrent(one.context));
    // SAFETY: all handles are live.
    unsafe {
        (0..2).for_each(|_| ok(cuGraphLaunch(one.graph, one.stream)));
        ok(cuMemcpyDtoD_v2(zero.data, one.data, 4));
    }
    assert_eq!(
        download(zero.data, 2),
        Ok(vec![4.0, 4.0]),
        "a copy from device to device"
    );
    let text = stats();
    for part in [
        "\"kernel_launches\": 3",
        "\"graph_launches\": 3",
        "\"foreign\": {\"calls\": 2, \"bytes\": 12}",
        "\"bytes_in_use\": 1016, \"peak_bytes\": 1016",
        "\"devices\": [{\"kernel_launches\": 1, \"graph_launches\": 1, \"bytes_in_use\": 1000, \"peak_bytes\": 1000}",
        "{\"kernel_launches\": 2, \"graph_launches\": 2, \"bytes_in_use\": 16, \"peak_bytes\": 16}",
        "{\"kernel_launches\": 0, \"graph_launches\": 0, \"bytes_in_use\": 0, \"peak_bytes\": 0}]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }

    // Pinned host memory is every device's; another device's memory is out of bounds to a kernel.
    let mut pinned = null_mut();
    // SAFETY: the pointer is valid, and so many bytes are allocated.
    unsafe {
        ok(cuMemHostAlloc(&mut pinned, 16, 0));
        pinned.cast::<[f32; 4]>().write([1.0; 4]);
    }
    ok(cuCtxSetCurrent(zero.context));
    ok(scale(zero.kernel, pinned as u64, 3.0, 4, zero.stream));
    ok(cuCtxSynchronize());
    ok(scale(zero.kernel, one.data, 3.0, 4, zero.stream));
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    ok(cuCtxSetCurrent(one.context));
    ok(cuCtxSynchronize());
    assert_eq!(download(one.data, 1), Ok(vec![4.0]), "device 1 is well");
    ok(cuMemFree_v2(large));
});
}

#[test]
fn contexts_of_a_thread_are_a_stack() {
    Child::new().env("QCS_EMU_DEVICES", "2").run(|| {
        let device = || {
            let mut device = -1;
            // SAFETY: the pointer is valid.
            (unsafe { cuCtxGetDevice(&mut device) }, device)
        };
        ok(cuInit(0));
        let zero = enter(0);
        let one = enter(1);
        ok(cuCtxPushCurrent_v2(zero));
        assert_eq!(device(), (SUCCESS, 0));
        let mut popped = null_mut();
        // SAFETY: the pointers are valid.
        unsafe {
            ok(cuCtxPopCurrent_v2(&mut popped));
            assert_eq!((popped, device()), (zero, (SUCCESS, 1)));
            let mut handle = null_mut();
            assert_eq!(cublasCreate_v2(&mut handle), CUBLAS_SUCCESS);
            ok(cuCtxSetCurrent(zero));
            assert_eq!(cublasDestroy_v2(handle), CUBLAS_NOT_INITIALIZED, "made in context 1");
            ok(cuCtxSetCurrent(one));
            assert_eq!(cublasDestroy_v2(handle), CUBLAS_SUCCESS);
            ok(cuCtxPopCurrent_v2(null_mut()));
            assert_eq!(cuCtxPopCurrent_v2(null_mut()), INVALID_CONTEXT);
        }
        assert_eq!(device().0, INVALID_CONTEXT);
    });
}

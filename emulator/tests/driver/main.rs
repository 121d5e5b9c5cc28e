//! The driver API and the libraries on it, called as a C program would. Each test runs in a process of its own, because
//! the driver and its environment variables belong to the process.

mod blas;
mod nvtx;
mod several;
mod solver;

use blas::from_device;
use qcs_emulator::driver::*;
use qcs_emulator::stand_in::Child;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

const PTX: &str = ".version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.f32 %r1, [factor];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %r3, [%rd3];
    mul.rn.f32 %r3, %r3, %r1;
    st.global.f32 [%rd3], %r3;
    ret;
}
.visible .entry shared(.param .u64 data) {
    .shared .align 4 .b8 tile[1024];
    ret;
}";

fn ok(status: Status) {
    assert_eq!(status, SUCCESS);
}

/// Initialises the driver and makes the context current.
fn start() {
    let mut context = null_mut();
    ok(cuInit(0));
    // SAFETY: the pointer is valid.
    ok(unsafe { cuDevicePrimaryCtxRetain(&mut context, 0) });
    ok(cuCtxSetCurrent(context));
}

fn load(ptx: &str) -> Result<Handle, Status> {
    let (mut module, text) = (null_mut(), CString::new(ptx).expect("no zero inside"));
    // SAFETY: the text ends with a zero.
    match unsafe { cuModuleLoadData(&mut module, text.as_ptr().cast()) } {
        SUCCESS => Ok(module),
        status => Err(status),
    }
}

fn function(module: Handle, name: &CStr) -> Handle {
    let mut function = null_mut();
    // SAFETY: the module is loaded.
    ok(unsafe { cuModuleGetFunction(&mut function, module, name.as_ptr()) });
    function
}

fn allocate(bytes: usize) -> Result<u64, Status> {
    let mut address = 0;
    // SAFETY: the pointer is valid.
    match unsafe { cuMemAlloc_v2(&mut address, bytes) } {
        SUCCESS => Ok(address),
        status => Err(status),
    }
}

fn upload(to: u64, data: &[f32]) {
    // SAFETY: the slice is valid for its size.
    ok(unsafe { cuMemcpyHtoD_v2(to, data.as_ptr() as u64, size_of_val(data)) });
}

fn download(from: u64, count: usize) -> Result<Vec<f32>, Status> {
    let mut data = vec![0f32; count];
    // SAFETY: the vector is valid for its size.
    match unsafe { cuMemcpyDtoH_v2(data.as_mut_ptr() as u64, from, 4 * count) } {
        SUCCESS => Ok(data),
        status => Err(status),
    }
}

fn scale(kernel: Handle, data: u64, factor: f32, threads: u32, stream: Handle) -> Status {
    let params = [
        (&raw const data).cast_mut().cast::<c_void>(),
        (&raw const factor).cast_mut().cast(),
    ];
    // SAFETY: the parameters fit the kernel.
    unsafe { cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, params.as_ptr(), null()) }
}

fn stats() -> String {
    // SAFETY: the buffer has the size given.
    unsafe {
        let mut text = vec![0u8; qcs_emu_stats_json(null_mut(), 0)];
        qcs_emu_stats_json(text.as_mut_ptr().cast(), text.len());
        CStr::from_bytes_with_nul(&text)
            .expect("ends with its zero")
            .to_string_lossy()
            .into_owned()
    }
}

#[test]
fn a_captured_stream_forks_and_must_be_joined() {
    Child::new().run(|| {
        start();
        let (mut one, mut other, mut event, mut back) = (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: every handle was made here, and every pointer is valid.
        unsafe {
            ok(cuStreamCreate(&mut one, 1));
            ok(cuStreamCreate(&mut other, 1));
            ok(cuEventCreate(&mut event, 2));
            ok(cuEventCreate(&mut back, 2));
            let mut at = 0;
            ok(cuMemAlloc_v2(&mut at, 8));
            ok(cuMemsetD8_v2(at, 0, 8));
            let branch = |joined: bool| {
                ok(cuStreamBeginCapture_v2(one, 2));
                ok(cuEventRecord(event, one));
                ok(cuStreamWaitEvent(other, event, 0));
                ok(cuMemsetD32Async(at, 7, 1, other));
                ok(cuMemsetD32Async(at + 4, 9, 1, one));
                if joined {
                    ok(cuEventRecord(back, other));
                    ok(cuStreamWaitEvent(one, back, 0));
                }
                let mut graph = null_mut();
                (cuStreamEndCapture(one, &mut graph), graph)
            };
            assert_eq!(branch(false).0, CAPTURE_UNJOINED);
            let (status, graph) = branch(true);
            ok(status);
            assert_eq!(from_device::<u32>(at, 2), [0, 0], "captured, not run");
            let mut instance = null_mut();
            ok(cuGraphInstantiateWithFlags(&mut instance, graph, 0));
            ok(cuGraphLaunch(instance, one));
            assert_eq!(from_device::<u32>(at, 2), [7, 9]);
            // The other stream is its own again.
            ok(cuMemsetD32Async(at, 1, 1, other));
            assert_eq!(from_device::<u32>(at, 1), [1]);
            ok(cuEventRecord(back, other));
            ok(cuStreamBeginCapture_v2(one, 2));
            assert_eq!(cuStreamWaitEvent(one, back, 0), CAPTURE_ISOLATION);
        }
    });
}

#[test]
fn a_program_loads_copies_launches_and_reads_back() {
    Child::new().run(|| {
        let mut version = 0;
        // SAFETY: the pointer is valid.
        ok(unsafe { cuDriverGetVersion(&mut version) });
        assert_eq!(version, 12080);
        assert_eq!(allocate(4), Err(NOT_INITIALIZED));
        ok(cuInit(0));
        assert_eq!(allocate(4), Err(INVALID_CONTEXT), "no context is current yet");
        start();
        let module = load(PTX).unwrap();
        let kernel = function(module, c"scale");
        let data = allocate(16).unwrap();
        assert!(
            download(data, 4).unwrap().iter().all(|x| x.is_nan()),
            "fresh memory is poison"
        );
        upload(data, &[1.0, 2.0, 3.0, 4.0]);
        ok(scale(kernel, data, 2.5, 4, null_mut()));
        assert_eq!(download(data, 4), Ok(vec![2.5, 5.0, 7.5, 10.0]));
        // SAFETY: the device range is checked by the driver.
        unsafe {
            ok(cuMemsetD32_v2(data, 1f32.to_bits(), 4));
            assert_eq!(download(data, 4), Ok(vec![1.0; 4]));
            assert_eq!(cuMemsetD8_v2(data, 0, 17), INVALID_VALUE, "one byte too many");
        }
        assert_eq!(download(data, 5), Err(INVALID_VALUE));
        ok(cuMemFree_v2(data));
        assert_eq!(cuMemFree_v2(data), INVALID_VALUE, "freed twice");
        let stats = stats();
        for part in [
            "\"host_to_device\": {\"calls\": 1, \"bytes\": 16}",
            "\"device_to_host\": {\"calls\": 3, \"bytes\": 48}",
            "\"memsets\": {\"calls\": 1, \"bytes\": 16}",
            "\"kernel_launches\": 1",
            "\"allocations\": 1",
            "\"frees\": 1",
            "\"peak_bytes\": 16",
            "\"bytes_in_use\": 0",
            "\"mul.rn.f32\": 1",
        ] {
            assert!(stats.contains(part), "{part} in {stats}");
        }
        qcs_emu_reset_stats();
        assert!(crate::stats().contains("\"kernel_launches\": 0"));
        // SAFETY: the module is not used any more.
        ok(unsafe { cuModuleUnload(module) });
    });
}

#[test]
fn a_graph_replays_what_was_captured() {
    Child::new().run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"scale");
        let data = allocate(16).unwrap();
        let source = [1f32, 2.0, 3.0, 4.0];
        // SAFETY: all handles are live and `source` outlives the replays.
        unsafe {
            let (mut stream, mut graph, mut instance) = (null_mut(), null_mut(), null_mut());
            ok(cuStreamCreate(&mut stream, 1));
            ok(cuStreamBeginCapture_v2(stream, 0));
            let mut capturing = 0;
            ok(cuStreamIsCapturing(stream, &mut capturing));
            assert_eq!(capturing, 1);
            ok(cuMemcpyHtoDAsync_v2(data, source.as_ptr() as u64, 16, stream));
            ok(scale(kernel, data, 2.0, 4, stream));
            ok(scale(kernel, data, 2.0, 2, stream));
            assert_eq!(cuStreamSynchronize(stream), CAPTURE_UNSUPPORTED);
            assert_eq!(allocate(4), Err(CAPTURE_UNSUPPORTED));
            ok(cuStreamEndCapture(stream, &mut graph));
            assert!(download(data, 4).unwrap()[0].is_nan(), "nothing has run yet");
            let mut nodes = 0;
            ok(cuGraphGetNodes(graph, null_mut(), &mut nodes));
            assert_eq!(nodes, 3);
            ok(cuGraphInstantiateWithFlags(&mut instance, graph, 0));
            ok(cuGraphDestroy(graph));
            qcs_emu_reset_stats();
            for _ in 0..3 {
                ok(cuGraphLaunch(instance, stream));
            }
            ok(cuStreamSynchronize(stream));
            let counted = stats();
            for part in [
                "\"graph_launches\": 3",
                "\"kernel_launches\": 6",
                "\"synchronisations\": 1",
                "\"bytes\": 48",
            ] {
                assert!(counted.contains(part), "{part} in {counted}");
            }
            assert_eq!(download(data, 4), Ok(vec![4.0, 8.0, 6.0, 8.0]));
            ok(cuMemFree_v2(data));
            assert_eq!(cuGraphLaunch(instance, stream), INVALID_VALUE, "its memory is gone");
            ok(cuGraphExecDestroy(instance));
            ok(cuStreamDestroy_v2(stream));
        }
    });
}

#[test]
fn events_measure_time() {
    Child::new().run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"scale");
        let data = allocate(4096).unwrap();
        // SAFETY: all handles are live.
        unsafe {
            let (mut begin, mut end, mut untimed) = (null_mut(), null_mut(), null_mut());
            ok(cuEventCreate(&mut begin, 0));
            ok(cuEventCreate(&mut end, 0));
            ok(cuEventCreate(&mut untimed, 2));
            let mut time = -1.0;
            assert_eq!(
                cuEventElapsedTime(&mut time, begin, end),
                INVALID_HANDLE,
                "not recorded"
            );
            ok(cuEventRecord(begin, null_mut()));
            ok(scale(kernel, data, 1.0, 1024, null_mut()));
            ok(cuEventRecord(end, null_mut()));
            ok(cuEventRecord(untimed, null_mut()));
            ok(cuEventSynchronize(end));
            ok(cuEventElapsedTime(&mut time, begin, end));
            assert!(time > 0.0);
            assert_eq!(cuEventElapsedTime(&mut time, begin, untimed), INVALID_HANDLE);
            ok(cuEventDestroy_v2(begin));
            ok(cuEventDestroy_v2(end));
            ok(cuEventDestroy_v2(untimed));
        }
    });
}

#[test]
fn a_faulting_kernel_poisons_the_context() {
    let ran = Child::new().run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"scale");
        let data = allocate(16).unwrap();
        upload(data, &[1.0; 4]);
        ok(scale(kernel, data, 2.0, 5, null_mut())); // the fault is found while the kernel runs
        assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        assert_eq!(download(data, 4), Err(ILLEGAL_ADDRESS));
        assert_eq!(scale(kernel, data, 2.0, 4, null_mut()), ILLEGAL_ADDRESS);
        ok(cuMemFree_v2(data));
    });
    let messages = ran.said;
    assert!(
        messages.contains("kernel scale: out-of-bounds global read of 4 bytes"),
        "{messages}"
    );
    assert!(
        messages.contains("PTX line 13, block (0, 0, 0), warp 0, lane 4"),
        "{messages}"
    );
}

#[test]
fn attributes_describe_device_and_kernel() {
    Child::new().env("QCS_EMU_SM", "70").run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"shared");
        let mut value = 0;
        // SAFETY: all handles are live.
        unsafe {
            for (attribute, expected) in [(1, 1024), (10, 32), (16, 80), (75, 7), (76, 0), (97, 98304)] {
                ok(cuDeviceGetAttribute(&mut value, attribute, 0));
                assert_eq!(value, expected, "device attribute {attribute}");
            }
            let mut name = [0; 64];
            ok(cuDeviceGetName(name.as_mut_ptr(), 64, 0));
            assert_eq!(CStr::from_ptr(name.as_ptr()).to_str(), Ok("qcs PTX emulator (sm_70)"));
            ok(cuFuncGetAttribute(&mut value, 1, kernel));
            assert_eq!(value, 1024, "static shared memory");
            let param = 0u64;
            let params = [(&raw const param).cast_mut().cast::<c_void>()];
            let launch = |bytes| cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, bytes, null_mut(), params.as_ptr(), null());
            ok(launch(48128));
            assert_eq!(launch(48129), INVALID_VALUE, "more needs opting in");
            ok(cuFuncSetAttribute(kernel, 8, 97280));
            ok(launch(97280));
            assert_eq!(cuFuncSetAttribute(kernel, 8, 97281), INVALID_VALUE);
            let mut blocks = 0;
            ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                kernel,
                256,
                40000,
            ));
            assert_eq!(blocks, 2);
            let (mut entry, mut found) = (null_mut(), -1);
            ok(cuGetProcAddress_v2(
                c"cuMemAlloc".as_ptr(),
                &mut entry,
                12080,
                0,
                &mut found,
            ));
            assert_eq!((entry.addr(), found), ((cuMemAlloc_v2 as *const c_void).addr(), 0));
            assert_eq!(
                cuGetProcAddress_v2(c"cuNonsense".as_ptr(), &mut entry, 12080, 0, &mut found),
                NOT_FOUND
            );
            let mut text = null();
            ok(cuGetErrorName(700, &mut text));
            assert_eq!(CStr::from_ptr(text).to_str(), Ok("CUDA_ERROR_ILLEGAL_ADDRESS"));
        }
    });
}

#[test]
fn parameters_may_come_in_one_buffer() {
    Child::new().run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"scale");
        let data = allocate(4).unwrap();
        upload(data, &[3.0]);
        let mut buffer = [0u8; 12];
        buffer[..8].copy_from_slice(&data.to_le_bytes());
        buffer[8..].copy_from_slice(&4f32.to_le_bytes());
        let size = buffer.len();
        let key = std::ptr::without_provenance_mut::<c_void>;
        let extra = [
            key(1),
            buffer.as_mut_ptr().cast(),
            key(2),
            (&raw const size).cast_mut().cast(),
            key(0),
        ];
        // SAFETY: the list is laid out as the driver API documents it.
        ok(unsafe { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, null_mut(), null(), extra.as_ptr()) });
        assert_eq!(download(data, 1), Ok(vec![12.0]));
    });
}

#[test]
fn a_machine_without_a_device_says_so_from_the_start() {
    Child::new().env("QCS_EMU_NO_DEVICE", "1").run(|| {
        assert_eq!(cuInit(0), NO_DEVICE);
        let mut count = -1;
        // SAFETY: the pointer is valid.
        assert_eq!(unsafe { cuDeviceGetCount(&mut count) }, NO_DEVICE);
    });
}

#[test]
fn an_old_driver_refuses_newer_ptx() {
    Child::new().env("QCS_EMU_DRIVER_VERSION", "10020").run(|| {
        start();
        assert_eq!(load(PTX), Err(UNSUPPORTED_PTX_VERSION));
        assert!(load(&PTX.replace("7.0", "6.4")).is_ok());
    });
}

#[test]
fn what_the_compiler_says_of_a_module_is_in_the_log() {
    Child::new().run(|| {
        start();
        let text = CString::new(PTX.replace("mul.rn", "mul.xx")).expect("no zero inside");
        let load = |room: usize| {
            let (mut module, mut log) = (null_mut(), vec![b'?'; room]);
            let options = [5, 6];
            let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(room)];
            // SAFETY: the text ends with a zero, and the log is as large as is said.
            let status = unsafe {
                cuModuleLoadDataEx(
                    &mut module,
                    text.as_ptr().cast(),
                    2,
                    options.as_ptr(),
                    values.as_mut_ptr(),
                )
            };
            assert_eq!(status, INVALID_PTX);
            let log = CStr::from_bytes_until_nul(&log).expect("it ends with a zero").to_str();
            assert_eq!(log.map(str::len), Ok(values[1].addr()), "how much was written");
            log.unwrap().to_owned()
        };
        let whole = load(4096);
        assert!(whole.contains("mul.xx") && whole.contains("line 14"), "{whole}");
        assert_eq!(load(10), whole[..9], "cut to the room there is");
    });
}

#[test]
fn a_driver_can_be_made_to_refuse_every_module_with_a_reason() {
    let ran = Child::new().env("QCS_EMU_JIT_ERROR", "no such register").run(|| {
        start();
        assert_eq!(load(PTX), Err(INVALID_PTX));
    });
    assert!(ran.said.contains("no such register"), "{}", ran.said);
}

#[test]
fn a_driver_without_its_compiler_refuses_ptx() {
    Child::new().env("QCS_EMU_NO_JIT", "1").run(|| {
        start();
        assert_eq!(load(PTX), Err(JIT_COMPILER_NOT_FOUND));
    });
}

#[test]
fn one_allocation_can_be_made_to_fail() {
    Child::new().env("QCS_EMU_FAIL_ALLOC", "3").run(|| {
        start();
        let outcomes: Vec<_> = (0..5).map(|_| allocate(8).map(|_| ())).collect();
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(OUT_OF_MEMORY), Ok(()), Ok(())]);
    });
}

#[test]
fn a_device_has_the_memory_it_is_given() {
    Child::new().env("QCS_EMU_MEMORY", "1000").run(|| {
        start();
        let first = allocate(600).unwrap();
        assert_eq!(allocate(401), Err(OUT_OF_MEMORY));
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid.
        ok(unsafe { cuMemGetInfo_v2(&mut free, &mut total) });
        assert_eq!((free, total), (400, 1000));
        ok(cuMemFree_v2(first));
        assert!(allocate(1000).is_ok());
    });
}

#[test]
fn one_launch_of_a_kernel_can_be_made_to_fault() {
    let ran = Child::new().env("QCS_EMU_FAULT_KERNEL", "scale:2").run(|| {
        start();
        let kernel = function(load(PTX).unwrap(), c"scale");
        let data = allocate(4).unwrap();
        for expected in [SUCCESS, LAUNCH_FAILED] {
            ok(scale(kernel, data, 1.0, 1, null_mut()));
            assert_eq!(cuCtxSynchronize(), expected);
        }
    });
    let messages = ran.said;
    assert!(messages.contains("kernel scale: injected fault"), "{messages}");
}

#[test]
fn a_device_refuses_ptx_of_newer_ones_and_unknown_instructions() {
    Child::new().env("QCS_EMU_SM", "70").run(|| {
        start();
        assert_eq!(load(&PTX.replace("sm_70", "sm_80")), Err(NO_BINARY_FOR_GPU));
        assert_eq!(
            load(&PTX.replace("mul.rn", "mul.xx")),
            Err(INVALID_PTX),
            "refused at load"
        );
    });
}

#[test]
fn statistics_are_written_to_a_file_at_exit() {
    let ran = Child::new().run(|| {
        start();
        ok(cuMemFree_v2(allocate(16).unwrap()));
    });
    assert!(
        ran.stats.starts_with("{\"host_to_device\"") && ran.stats.contains("\"peak_bytes\": 16"),
        "{}",
        ran.stats
    );
}

//! Kernel launches.

use super::Handle;
use super::function::Function;
use super::state::{State, driver, ready, usable};
use super::status::*;
use super::stream::{Command, Stream};
use crate::device::Report;
use crate::error::{FaultKind, LaunchError};
use crate::exec::{self, Environment};
use crate::ir::Kernel;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

/// A launch with its parameters copied, so that it can be run any time.
#[derive(Clone)]
pub struct KernelLaunch {
    function: Arc<Function>,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: usize,
    params: Vec<u64>,
}

impl std::fmt::Debug for KernelLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "{}<<<{:?}, {:?}>>>",
            self.function.kernel().name,
            self.grid,
            self.block
        )
    }
}

impl KernelLaunch {
    /// Runs the kernel. A fault is printed and sticks to the context; the launch itself succeeds.
    pub fn run(&self) -> Status {
        let kernel = self.function.kernel();
        let (ranges, options) = {
            let mut state = match ready() {
                Ok(state) => state,
                Err(status) => return status,
            };
            state.counters.kernel_launches += 1;
            state.gpu().kernel_launches += 1;
            if injected(&mut state, &kernel.name) {
                eprintln!("qcs-emulator: kernel {}: injected fault", kernel.name);
                state.gpu().sticky = LAUNCH_FAILED;
                return SUCCESS;
            }
            (state.memory().ranges(), state.config.options.clone())
        };
        let env = Environment {
            kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            params: self.params.clone(),
            globals: self.function.module.globals(),
            ranges: &ranges,
            options: &options,
        };
        let start = std::time::Instant::now();
        match exec::run(&env) {
            Ok(profile) => {
                record(&mut driver(), Report::new(&env, profile, start.elapsed()));
                SUCCESS
            }
            Err(error) => {
                eprintln!("qcs-emulator: {error}");
                let (status, sticks) = classify(&error);
                if sticks {
                    driver().gpus[self.function.owner].sticky = status;
                    return SUCCESS;
                }
                status
            }
        }
    }
}

fn record(state: &mut State, report: Report) {
    state.write_launch(&report);
    match state.kernels.get_mut(&report.kernel) {
        Some((launches, total)) => {
            *launches += 1;
            total.merge(&report);
        }
        None => {
            state.kernels.insert(report.kernel.clone(), (1, report));
        }
    }
}

fn injected(state: &mut State, kernel: &str) -> bool {
    let Some(fault) = state.config.kernel_fault.clone() else {
        return false;
    };
    if fault.kernel != "*" && fault.kernel != kernel {
        return false;
    }
    let number = state.launch_numbers.entry(fault.kernel).or_insert(0);
    *number += 1;
    *number == fault.launch
}

/// The status for an error, and whether it comes from the running kernel.
fn classify(error: &LaunchError) -> (Status, bool) {
    match error {
        LaunchError::Invalid(_) => (INVALID_VALUE, false),
        LaunchError::Fault(fault) => match fault.kind {
            FaultKind::OutOfBounds { .. } => (ILLEGAL_ADDRESS, true),
            FaultKind::Misaligned { .. } => (MISALIGNED_ADDRESS, true),
            _ => (LAUNCH_FAILED, true),
        },
    }
}

/// Copies the parameters from the program's array of pointers, or from one packed buffer.
///
/// # Safety
/// `pointers` is null or has one valid pointer per parameter; `extra` is null or a list as
/// `cuLaunchKernel` documents it.
unsafe fn parameters(kernel: &Kernel, pointers: *const Handle, extra: *const Handle) -> Result<Vec<u64>, Status> {
    const BUFFER_POINTER: usize = 1;
    const BUFFER_SIZE: usize = 2;
    let mut block = vec![0u8; kernel.param_bytes];
    if !pointers.is_null() {
        for (n, param) in kernel.params.iter().enumerate() {
            // SAFETY: the caller has one pointer per parameter, to a value of its size.
            unsafe {
                let from = *pointers.add(n);
                if from.is_null() {
                    return Err(INVALID_VALUE);
                }
                std::ptr::copy_nonoverlapping(from.cast(), block[param.offset..].as_mut_ptr(), param.bytes);
            }
        }
    } else if !extra.is_null() {
        let (mut buffer, mut size, mut at) = (std::ptr::null::<u8>(), 0, 0);
        // SAFETY: the list consists of pairs and ends with a null key.
        unsafe {
            while !(*extra.add(at)).is_null() {
                match (*extra.add(at)).addr() {
                    BUFFER_POINTER => buffer = (*extra.add(at + 1)).cast(),
                    BUFFER_SIZE => size = *(*extra.add(at + 1)).cast::<usize>(),
                    _ => return Err(INVALID_VALUE),
                }
                at += 2;
            }
            if buffer.is_null() || size < block.len() {
                return Err(INVALID_VALUE);
            }
            std::ptr::copy_nonoverlapping(buffer, block.as_mut_ptr(), block.len());
        }
    } else if !kernel.params.is_empty() {
        return Err(INVALID_VALUE);
    }
    Ok(crate::device::words(&block))
}

/// # Safety
/// `function` came from a loaded module, `stream` is live, and `pointers` and `extra` are as the
/// driver API documents them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    pointers: *const Handle,
    extra: *const Handle,
) -> Status {
    if let Err(status) = ready() {
        return status;
    }
    if function.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: functions are handed out as pointers into an `Arc` that their module keeps.
    let function = unsafe {
        let pointer = function.cast_const().cast::<Function>();
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    };
    // SAFETY: the caller vouches for the stream.
    let stream = unsafe { Stream::of(stream) };
    let status = usable("a kernel", function.owner).max(stream.usable("a kernel in a stream"));
    if status != SUCCESS {
        return status;
    }
    let limit = function.shared_limit();
    if shared as usize > limit {
        let name = &function.kernel().name;
        eprintln!("qcs-emulator: kernel {name}: {shared} bytes of dynamic shared memory; {limit} are allowed");
        return INVALID_VALUE;
    }
    // SAFETY: the caller vouches for the parameters.
    let params = match unsafe { parameters(function.kernel(), pointers, extra) } {
        Ok(params) => params,
        Err(status) => return status,
    };
    let launch = KernelLaunch {
        function,
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared: shared as usize,
        params,
    };
    stream.submit(Command::Kernel(launch))
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfigEx {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: c_uint,
}

/// # Safety
/// As `cuLaunchKernel`; `config` is null or valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const LaunchConfigEx,
    function: Handle,
    pointers: *const Handle,
    extra: *const Handle,
) -> Status {
    // SAFETY: the caller vouches for the pointer.
    let Some(config) = (unsafe { config.as_ref() }) else {
        return INVALID_VALUE;
    };
    if config.attribute_count > 0 && !config.attributes.is_null() {
        eprintln!("qcs-emulator: launch attributes are not supported");
        return NOT_SUPPORTED;
    }
    let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
    // SAFETY: the caller vouches for the rest.
    unsafe {
        cuLaunchKernel(
            function,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            config.shared,
            config.stream,
            pointers,
            extra,
        )
    }
}

//! cuBLAS: handles, streams, workspaces and the general product.

use super::gemm::Gemm;
use super::handles::Handles;
use super::matrix::{Operand, check};
use super::refuse;
use crate::driver::state::{current, driver, ready, ready_outside_capture};
use crate::driver::{Command, DevicePtr, Handle, SUCCESS, Status, Stream, is_capturing};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

/// `cublasStatus_t`.
pub type BlasStatus = c_int;

pub const CUBLAS_SUCCESS: BlasStatus = 0;
pub const CUBLAS_NOT_INITIALIZED: BlasStatus = 1;
pub const CUBLAS_ALLOC_FAILED: BlasStatus = 3;
pub const CUBLAS_INVALID_VALUE: BlasStatus = 7;
pub const CUBLAS_ARCH_MISMATCH: BlasStatus = 8;
pub const CUBLAS_EXECUTION_FAILED: BlasStatus = 13;

/// 12.8, the release whose names cudarc is told to bind.
const VERSION: c_int = 120_800;
/// What cuBLAS demands of a workspace's address.
const WORKSPACE_ALIGNMENT: u64 = 256;

#[derive(Clone, Default)]
struct Settings {
    /// Address of the stream; 0 is the default one.
    stream: usize,
    workspace: Option<Operand>,
    /// Device memory that the library keeps for itself
    own: DevicePtr,
}

/// What decides which of its kernels the library launches.
type Kind = (Option<usize>, &'static str, bool, bool, [usize; 3]);

/// The kinds of products whose kernels are loaded.
static LOADED: Mutex<BTreeSet<Kind>> = Mutex::new(BTreeSet::new());

fn loaded() -> MutexGuard<'static, BTreeSet<Kind>> {
    // A panic while the lock was held left a set that is still one.
    LOADED.lock().unwrap_or_else(|e| e.into_inner())
}

static HANDLES: Handles<Settings> = Handles::new();

fn unknown_handle(function: &str) -> BlasStatus {
    refuse(
        function,
        CUBLAS_NOT_INITIALIZED,
        "the handle is null, destroyed, of another context or not of cuBLAS",
    )
}

/// Without a usable context nothing of the library works.
fn no_context(function: &str, status: Status) -> BlasStatus {
    let status_here = match status {
        crate::driver::NOT_INITIALIZED | crate::driver::INVALID_CONTEXT => CUBLAS_NOT_INITIALIZED,
        _ => CUBLAS_EXECUTION_FAILED,
    };
    refuse(function, status_here, format!("the driver reports error {status}"))
}

/// # Safety
/// `handle` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut Handle) -> BlasStatus {
    const NAME: &str = "cublasCreate_v2";
    // The library allocates device memory for itself.
    let mut state = match ready_outside_capture(NAME) {
        Ok(state) => state,
        Err(status) => return no_context(NAME, status),
    };
    if handle.is_null() {
        return refuse(NAME, CUBLAS_INVALID_VALUE, "no place for the handle");
    }
    let own = match state.config.blas_bytes {
        0 => 0,
        bytes if state.memory().in_use().saturating_add(bytes) <= state.config.memory => {
            state.memory().allocate(bytes).unwrap_or(0)
        }
        _ => return refuse(NAME, CUBLAS_ALLOC_FAILED, "the device is full"),
    };
    state.count_call(NAME);
    let created = HANDLES.create();
    HANDLES.change(created, |settings| settings.own = own);
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { handle.write(created) };
    CUBLAS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: Handle) -> BlasStatus {
    const NAME: &str = "cublasDestroy_v2";
    let mut state = match ready_outside_capture(NAME) {
        Ok(state) => state,
        Err(status) => return no_context(NAME, status),
    };
    let own = HANDLES.get(handle).map_or(0, |settings| settings.own);
    if !HANDLES.destroy(handle) {
        return unknown_handle(NAME);
    }
    if own != 0 {
        state.memory().free(own);
    }
    state.count_call(NAME);
    CUBLAS_SUCCESS
}

/// # Safety
/// `version` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetVersion_v2(_handle: Handle, version: *mut c_int) -> BlasStatus {
    if version.is_null() {
        return refuse("cublasGetVersion_v2", CUBLAS_INVALID_VALUE, "no place for the version");
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { version.write(VERSION) };
    CUBLAS_SUCCESS
}

/// Also gives up a workspace set before, as cuBLAS does.
///
/// # Safety
/// `stream` is a live stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasSetStream_v2(handle: Handle, stream: Handle) -> BlasStatus {
    // SAFETY: the caller vouches for the stream.
    if unsafe { Stream::of(stream) }.usable("cuBLAS in a stream") != SUCCESS {
        return CUBLAS_INVALID_VALUE;
    }
    let stream = stream.expose_provenance();
    if !HANDLES.change(handle, |settings| {
        (settings.stream, settings.workspace) = (stream, None)
    }) {
        return unknown_handle("cublasSetStream_v2");
    }
    CUBLAS_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasSetWorkspace_v2(handle: Handle, workspace: DevicePtr, bytes: usize) -> BlasStatus {
    const NAME: &str = "cublasSetWorkspace_v2";
    if HANDLES.get(handle).is_none() {
        return unknown_handle(NAME);
    }
    let mut state = match ready() {
        Ok(state) => state,
        Err(status) => return no_context(NAME, status),
    };
    if bytes == 0 || !workspace.is_multiple_of(WORKSPACE_ALIGNMENT) {
        return refuse(
            NAME,
            CUBLAS_INVALID_VALUE,
            format!("{bytes} bytes at {workspace:#x} must be some, aligned to {WORKSPACE_ALIGNMENT}"),
        );
    }
    let workspace = Operand::vector("the workspace", workspace, bytes, 1);
    if let Err(reason) = check(&[workspace], &[], state.memory()) {
        return refuse(NAME, CUBLAS_INVALID_VALUE, reason);
    }
    HANDLES.change(handle, |settings| settings.workspace = Some(workspace));
    state.count_call(NAME);
    CUBLAS_SUCCESS
}

/// The three extents, if none is negative.
fn extents(extents: [c_int; 3]) -> Option<[usize; 3]> {
    let [Ok(m), Ok(n), Ok(k)] = extents.map(usize::try_from) else {
        return None;
    };
    Some([m, n, k])
}

/// Whether an operand is transposed; `None` for a value that is no operation. For real numbers the conjugate transpose
/// is the transpose.
fn transposed(operation: c_int) -> Option<bool> {
    match operation {
        0 => Some(false),
        1 | 2 => Some(true),
        _ => None,
    }
}

fn submit(handle: Handle, gemm: Result<Gemm, String>, function: &'static str) -> BlasStatus {
    let Some(settings) = HANDLES.get(handle) else {
        return unknown_handle(function);
    };
    let mut gemm = match gemm {
        Ok(gemm) => gemm,
        Err(reason) => return refuse(function, CUBLAS_INVALID_VALUE, reason),
    };
    gemm.workspace = settings.workspace;
    // SAFETY: the program gave a live stream to `cublasSetStream_v2`.
    let stream = unsafe { Stream::of(std::ptr::with_exposed_provenance_mut(settings.stream)) };
    {
        let mut state = match ready() {
            Ok(state) => state,
            Err(status) => return no_context(function, status),
        };
        let written: Vec<Operand> = [gemm.c].into_iter().chain(gemm.workspace).collect();
        if let Err(reason) = check(&[gemm.a, gemm.b], &written, state.memory()) {
            return refuse(function, CUBLAS_INVALID_VALUE, reason);
        }
        if is_capturing(stream) && gemm.workspace.is_none() {
            let reason = "captured without a workspace: the library would allocate one inside the graph";
            return refuse(function, CUBLAS_ALLOC_FAILED, reason);
        }
        let extents = [gemm.c.rows, gemm.c.columns, gemm.k];
        let kind = (current(), function, gemm.transpose_a, gemm.transpose_b, extents);
        if is_capturing(stream) && !loaded().contains(&kind) {
            let reason =
                "the first product of its kind is being captured: before CUDA 12.3 no kernel can be loaded there";
            return refuse(function, CUBLAS_EXECUTION_FAILED, reason);
        }
        state.gemms += 1;
        if state.config.fail_gemm.is_some_and(|first| state.gemms >= first) {
            return refuse(
                function,
                CUBLAS_ARCH_MISMATCH,
                "the library is to have no kernel for this GPU",
            );
        }
        loaded().insert(kind);
        state.count_call(function);
    }
    match stream.submit(Command::Gemm(Box::new(gemm))) {
        SUCCESS => CUBLAS_SUCCESS,
        _ => CUBLAS_EXECUTION_FAILED,
    }
}

/// A scalar on the host.
///
/// # Safety
/// `scalar` is null, valid for a read, or device memory.
unsafe fn host_scalar<T: Copy + Into<f64>>(name: &str, scalar: *const T) -> Result<f64, String> {
    if scalar.is_null() {
        return Err(format!("{name} is null"));
    }
    if driver().owner(scalar.addr() as u64).is_some() {
        return Err(format!("{name} is in device memory, and the pointer mode is the host"));
    }
    // SAFETY: neither null nor on the device: the caller vouches for the rest.
    Ok(unsafe { scalar.read() }.into())
}

macro_rules! gemms {
    ($($name:ident, $element:ty;)*) => { $(
        /// # Safety
        /// `alpha` and `beta` are null or valid for a read; the handle's stream is live.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handle: Handle,
            operation_a: c_int,
            operation_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const $element,
            a: DevicePtr,
            lda: c_int,
            b: DevicePtr,
            ldb: c_int,
            beta: *const $element,
            c: DevicePtr,
            ldc: c_int,
        ) -> BlasStatus {
            const NAME: &str = stringify!($name);
            let gemm = || {
                let [m, n, k] = extents([m, n, k]).ok_or("an extent is negative")?;
                let [lda, ldb, ldc] = extents([lda, ldb, ldc]).ok_or("a leading dimension is negative")?;
                let transpose_a = transposed(operation_a).ok_or("the operation on A is none of N, T, C")?;
                let transpose_b = transposed(operation_b).ok_or("the operation on B is none of N, T, C")?;
                let operand = |name, at, (rows, columns), leading| Operand {
                    name,
                    at,
                    rows,
                    columns,
                    leading,
                    element: size_of::<$element>(),
                };
                Ok(Gemm {
                    function: NAME,
                    transpose_a,
                    transpose_b,
                    k,
                    // SAFETY: the caller vouches for the scalars.
                    alpha: unsafe { host_scalar("alpha", alpha) }?,
                    // SAFETY: as above.
                    beta: unsafe { host_scalar("beta", beta) }?,
                    a: operand("A", a, if transpose_a { (k, m) } else { (m, k) }, lda),
                    b: operand("B", b, if transpose_b { (n, k) } else { (k, n) }, ldb),
                    c: operand("C", c, (m, n), ldc),
                    workspace: None,
                })
            };
            submit(handle, gemm(), NAME)
        }
    )* };
}

gemms! {
    cublasSgemm_v2, f32;
    cublasDgemm_v2, f64;
}

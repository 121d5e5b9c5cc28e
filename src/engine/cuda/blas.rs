//! Products of a row-major matrix with a batch of vectors by cuBLAS, which counts by columns.
//!
//! A row-major `[rows, columns]` array is, to cuBLAS, the transpose: `columns` × `rows` with leading dimension
//! `columns`. So nothing is copied; only the operations are exchanged.

use std::ffi::{c_int, c_void};

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys::{self, cublasOperation_t as Operation};
use cudarc::driver::sys::{CUdeviceptr, CUstream};

use super::library::require;
use crate::{Error, Result};

/// Bytes that [`Blas::set_workspace`] takes: what cuBLAS allocates for itself before Hopper.
pub const WORKSPACE_BYTES: usize = 4 << 20;
/// What cuBLAS demands of the workspace's address.
pub const WORKSPACE_ALIGNMENT: usize = 256;

const FUNCTIONS: [&str; 7] = [
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasGetVersion_v2",
    "cublasSetStream_v2",
    "cublasSetWorkspace_v2",
    "cublasSgemm_v2",
    "cublasDgemm_v2",
];

/// cuBLAS on one stream of the context that is current when it is opened; to be dropped before that context.
pub struct Blas {
    handle: sys::cublasHandle_t,
    version: c_int,
}

/// A matrix `[rows, columns]` and the number of vectors it meets.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub columns: usize,
    pub states: usize,
}

impl Blas {
    /// Opens the library. It allocates device memory of its own, so not while a stream is being captured.
    ///
    /// # Errors
    /// [`Error::Device`] with the reason in one line: the engine can do without cuBLAS.
    ///
    /// # Safety
    /// `stream` belongs to the current context and outlives the value.
    pub unsafe fn open(stream: CUstream) -> Result<Self> {
        // SAFETY: looks for the library and closes it again; `culib` is called only if it was found.
        unsafe {
            let has = |function: &[u8]| sys::culib().get::<*const c_void>(function).is_ok();
            require("libcublas", sys::is_culib_present(), &FUNCTIONS, has)?;
        }
        let handle = result::create_handle().map_err(failed("start"))?;
        let mut blas = Self { handle, version: 0 };
        // SAFETY: the handle was just made; the caller vouches for the stream.
        unsafe {
            result::set_stream(handle, stream.cast()).map_err(failed("use the stream"))?;
            let version = sys::cublasGetVersion_v2(handle, &mut blas.version);
            version.result().map_err(failed("tell its version"))?;
        }
        Ok(blas)
    }

    /// The library's version, for example "12.8.0".
    pub fn version(&self) -> String {
        let v = self.version;
        format!("{}.{}.{}", v / 10_000, v / 100 % 100, v % 100)
    }

    /// Gives cuBLAS memory to work in. Without it, a captured product would allocate some inside of the graph.
    ///
    /// # Errors
    /// [`Error::Device`] if the address is not aligned to [`WORKSPACE_ALIGNMENT`].
    ///
    /// # Safety
    /// [`WORKSPACE_BYTES`] of device memory lie at `workspace`, are used by nothing else, and live as long as products
    /// are computed, by launches of captured graphs too.
    pub unsafe fn set_workspace(&self, workspace: CUdeviceptr) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { sys::cublasSetWorkspace_v2(self.handle, workspace as *mut c_void, WORKSPACE_BYTES) }
            .result()
            .map_err(failed("use the workspace"))
    }

    /// z\[b, m\] = Σ_n A\[m, n\]·x\[b, n\]: `a` is `[rows, columns]`, `x` `[states, columns]`, `z` `[states, rows]`.
    ///
    /// # Errors
    /// [`Error::Device`] if cuBLAS refuses.
    ///
    /// # Safety
    /// The arrays lie in device memory, and `z` overlaps neither of the others.
    pub unsafe fn matrix_times<T: Real>(
        &self,
        shape: Shape,
        a: CUdeviceptr,
        x: CUdeviceptr,
        z: CUdeviceptr,
    ) -> Result<()> {
        let [rows, columns, states] = extents(shape)?;
        let operations = (Operation::CUBLAS_OP_T, Operation::CUBLAS_OP_N);
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let arrays = [(a, columns), (x, columns), (z, rows)];
            T::gemm(self.handle, operations, [rows, states, columns], arrays)
        }
        .map_err(failed("multiply by A"))
    }

    /// s\[b, n\] = Σ_m A\[m, n\]·g\[b, m\]: `a` is `[rows, columns]`, `g` `[states, rows]`, `s` `[states, columns]`.
    ///
    /// # Errors
    /// [`Error::Device`] if cuBLAS refuses.
    ///
    /// # Safety
    /// The arrays lie in device memory, and `s` overlaps neither of the others.
    pub unsafe fn transposed_times<T: Real>(
        &self,
        shape: Shape,
        a: CUdeviceptr,
        g: CUdeviceptr,
        s: CUdeviceptr,
    ) -> Result<()> {
        let [rows, columns, states] = extents(shape)?;
        let operations = (Operation::CUBLAS_OP_N, Operation::CUBLAS_OP_N);
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let arrays = [(a, columns), (g, rows), (s, columns)];
            T::gemm(self.handle, operations, [columns, states, rows], arrays)
        }
        .map_err(failed("multiply by the transpose of A"))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle is used by nobody any more. Nothing can be done about a failure.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn failed(what: &'static str) -> impl Fn(CublasError) -> Error {
    move |e| Error::Device(format!("cuBLAS cannot {what}: {:?}", e.0))
}

fn extents(shape: Shape) -> Result<[c_int; 3]> {
    let Shape { rows, columns, states } = shape;
    match [rows, columns, states].map(c_int::try_from) {
        [Ok(rows), Ok(columns), Ok(states)] => Ok([rows, columns, states]),
        _ => Err(Error::Device(format!("{shape:?} is too large for cuBLAS"))),
    }
}

/// A precision of cuBLAS. Sums of f32 are taken in f32, not in TF32: that is the library's default.
pub trait Real {
    /// C = op(A)·op(B), column-major, for op(A) m × k and op(B) k × n; an array comes with its leading dimension.
    ///
    /// # Safety
    /// The arrays lie in device memory, and C overlaps neither of the others.
    #[doc(hidden)]
    unsafe fn gemm(
        handle: sys::cublasHandle_t,
        operations: (Operation, Operation),
        extents: [c_int; 3],
        arrays: [(CUdeviceptr, c_int); 3],
    ) -> Result<(), CublasError>;
}

macro_rules! real {
    ($type:ty, $gemm:path) => {
        impl Real for $type {
            unsafe fn gemm(
                handle: sys::cublasHandle_t,
                (ta, tb): (Operation, Operation),
                [m, n, k]: [c_int; 3],
                [(a, lda), (b, ldb), (c, ldc)]: [(CUdeviceptr, c_int); 3],
            ) -> Result<(), CublasError> {
                let (one, zero): ($type, $type) = (1.0, 0.0);
                let (a, b, c) = (a as *const $type, b as *const $type, c as *mut $type);
                // SAFETY: the caller vouches for the arrays; the scalars are read before the call returns.
                unsafe { $gemm(handle, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc) }
            }
        }
    };
}
real!(f32, result::sgemm);
real!(f64, result::dgemm);

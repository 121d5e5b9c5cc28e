//! Products of a row-major matrix with a batch of vectors by cuBLAS, which counts by columns.
//!
//! A row-major `[rows, columns]` array is, to cuBLAS, the transpose: `columns` × `rows` with leading dimension
//! `columns`. So nothing is copied; only the operations are exchanged.

use std::ffi::{c_int, c_void};

use cudarc::driver::sys::{CUdeviceptr, CUstream};

use super::library::functions;
use crate::{Error, Result};

/// Bytes that [`Blas::lend_workspace`] takes: what cuBLAS allocates for itself before Hopper.
pub const WORKSPACE_BYTES: usize = 4 << 20;
/// What cuBLAS demands of the workspace's address.
pub const WORKSPACE_ALIGNMENT: usize = 256;

type Handle = *mut c_void;

// 12 first: of the three it alone has kernels for every GPU from Volta to Blackwell.
functions! { "cublas", [12, 13, 11];
    create: fn(*mut Handle) = "cublasCreate_v2";
    destroy: fn(Handle) = "cublasDestroy_v2";
    version: fn(Handle, *mut c_int) = "cublasGetVersion_v2";
    set_stream: fn(Handle, CUstream) = "cublasSetStream_v2";
    set_workspace: fn(Handle, CUdeviceptr, usize) = "cublasSetWorkspace_v2";
    sgemm: fn(
        Handle, c_int, c_int, c_int, c_int, c_int, *const f32, CUdeviceptr, c_int, CUdeviceptr, c_int, *const f32,
        CUdeviceptr, c_int,
    ) = "cublasSgemm_v2";
    dgemm: fn(
        Handle, c_int, c_int, c_int, c_int, c_int, *const f64, CUdeviceptr, c_int, CUdeviceptr, c_int, *const f64,
        CUdeviceptr, c_int,
    ) = "cublasDgemm_v2";
}

/// `cublasOperation_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Operation {
    Plain = 0,
    Transposed = 1,
}

/// cuBLAS on one stream of the context that is current when it is opened; to be dropped before that context.
pub struct Blas {
    functions: &'static Functions,
    handle: Handle,
    stream: CUstream,
    version: c_int,
}

/// Stream and memory that cuBLAS works in until this is dropped. What was captured keeps them.
#[must_use = "stream and workspace are given up when this is dropped"]
pub struct Workspace<'a>(&'a Blas);

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // Setting the stream gives the library its own workspace back: nobody may work in memory that a session frees.
        // A context that has failed has no more products.
        // SAFETY: handle and stream are alive.
        let _ = unsafe { (self.0.functions.set_stream)(self.0.handle, self.0.stream) };
    }
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
        let functions = Functions::get()?;
        let mut blas = Self {
            functions,
            handle: std::ptr::null_mut(),
            stream,
            version: 0,
        };
        // SAFETY: the handle and the version are written; the caller vouches for the stream.
        unsafe {
            done("start", (functions.create)(&mut blas.handle))?;
            done("use the stream", (functions.set_stream)(blas.handle, stream))?;
            done("tell its version", (functions.version)(blas.handle, &mut blas.version))?;
        }
        Ok(blas)
    }

    /// The library's version, for example "12.8.0".
    pub fn version(&self) -> String {
        let v = self.version;
        format!("{}.{}.{}", v / 10_000, v / 100 % 100, v % 100)
    }

    /// Lends cuBLAS a stream, and memory to work in. Without it, a captured product would allocate some inside of the graph.
    ///
    /// # Errors
    /// [`Error::Device`] if the address is not aligned to [`WORKSPACE_ALIGNMENT`].
    ///
    /// # Safety
    /// [`WORKSPACE_BYTES`] of device memory lie at `workspace`, are used by nothing else, and live as long as the result
    /// and as graphs in which products were captured meanwhile. The stream is of the context that the library was opened in.
    pub unsafe fn lend_workspace(&self, stream: CUstream, workspace: CUdeviceptr) -> Result<Workspace<'_>> {
        // SAFETY: the caller vouches for stream and memory.
        unsafe {
            done("use the stream", (self.functions.set_stream)(self.handle, stream))?;
            let lent = Workspace(self);
            let status = (self.functions.set_workspace)(self.handle, workspace, WORKSPACE_BYTES);
            done("use the workspace", status).map(|()| lent)
        }
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
        let operations = (Operation::Transposed, Operation::Plain);
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let arrays = [(a, columns), (x, columns), (z, rows)];
            done(
                "multiply by A",
                T::gemm(self, operations, [rows, states, columns], arrays),
            )
        }
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
        let operations = (Operation::Plain, Operation::Plain);
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let arrays = [(a, columns), (g, rows), (s, columns)];
            let status = T::gemm(self, operations, [columns, states, rows], arrays);
            done("multiply by the transpose of A", status)
        }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is used by nobody any more. Nothing can be done about a failure.
            let _ = unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}

/// What a status means.
fn done(what: &str, status: c_int) -> Result<()> {
    let name = match status {
        0 => return Ok(()),
        1 => "NOT_INITIALIZED",
        3 => "ALLOC_FAILED",
        7 => "INVALID_VALUE",
        8 => "ARCH_MISMATCH",
        11 => "MAPPING_ERROR",
        13 => "EXECUTION_FAILED",
        14 => "INTERNAL_ERROR",
        15 => "NOT_SUPPORTED",
        _ => return Err(Error::Device(format!("cuBLAS cannot {what}: status {status}"))),
    };
    Err(Error::Device(format!("cuBLAS cannot {what}: CUBLAS_STATUS_{name}")))
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
    /// C = op(A)·op(B), column-major, for op(A) m × k and op(B) k × n; an array comes with its leading dimension. Gives the
    /// library's status.
    ///
    /// # Safety
    /// The arrays lie in device memory, and C overlaps neither of the others.
    #[doc(hidden)]
    unsafe fn gemm(
        blas: &Blas,
        operations: (Operation, Operation),
        extents: [c_int; 3],
        arrays: [(CUdeviceptr, c_int); 3],
    ) -> c_int;
}

macro_rules! real {
    ($type:ty, $gemm:ident) => {
        impl Real for $type {
            unsafe fn gemm(
                blas: &Blas,
                (ta, tb): (Operation, Operation),
                [m, n, k]: [c_int; 3],
                [(a, lda), (b, ldb), (c, ldc)]: [(CUdeviceptr, c_int); 3],
            ) -> c_int {
                let (one, zero): ($type, $type) = (1.0, 0.0);
                let (ta, tb) = (ta as c_int, tb as c_int);
                // SAFETY: the caller vouches for the arrays; the scalars are read before the call returns.
                unsafe { (blas.functions.$gemm)(blas.handle, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc) }
            }
        }
    };
}
real!(f32, sgemm);
real!(f64, dgemm);

//! The spectrum of A by cuSOLVER: U and the eigenvalues of A·Aᵀ, once per problem.

use std::ffi::{c_int, c_schar, c_void};

use cudarc::driver::result as driver;
use cudarc::driver::sys::{CUdeviceptr, CUstream};

use super::blas::{Blas, Shape};
use super::library::functions;
use crate::problem::Spectrum;
use crate::{Error, Result};

/// Distance of the arrays in the scratch memory: what device allocations are aligned to.
const ALIGNMENT: usize = 256;
const DOUBLE: usize = size_of::<f64>();

type Handle = *mut c_void;

// 11 is of CUDA 11 and 12, 12 of CUDA 13.
functions! { "cusolver", [11, 12];
    create: fn(*mut Handle) = "cusolverDnCreate";
    destroy: fn(Handle) = "cusolverDnDestroy";
    set_stream: fn(Handle, CUstream) = "cusolverDnSetStream";
    syevd_size: fn(Handle, c_int, c_int, c_int, CUdeviceptr, c_int, CUdeviceptr, *mut c_int) = "cusolverDnDsyevd_bufferSize";
    syevd: fn(
        Handle, c_int, c_int, c_int, CUdeviceptr, c_int, CUdeviceptr, CUdeviceptr, c_int, CUdeviceptr,
    ) = "cusolverDnDsyevd";
    gesvd_size: fn(Handle, c_int, c_int, *mut c_int) = "cusolverDnDgesvd_bufferSize";
    gesvd: fn(
        Handle, c_schar, c_schar, c_int, c_int, CUdeviceptr, c_int, CUdeviceptr, CUdeviceptr, c_int, CUdeviceptr, c_int,
        CUdeviceptr, c_int, CUdeviceptr, CUdeviceptr,
    ) = "cusolverDnDgesvd";
}

/// How the spectrum is computed, in f64 either way: EP does not keep its accuracy with less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factorisation {
    /// The eigendecomposition of A·Aᵀ: fast. Singular values below 1e-8 of the largest are lost, because they are
    /// squared first.
    Eigen,
    /// The singular value decomposition of A, for an ill-conditioned A: several times slower, and singular values are
    /// good to 1e-16 of the largest.
    Singular,
}

/// cuSOLVER on one stream of the context that is current when it is opened; to be dropped before that context.
pub struct Solver {
    functions: &'static Functions,
    handle: Handle,
    stream: CUstream,
}

/// Byte offsets into the scratch memory.
struct Scratch {
    /// A, `[m, width]`
    a: usize,
    /// A row's length: N, but at least M for the singular values, whose library wants no fewer rows than columns.
    width: usize,
    /// A·Aᵀ and then its eigenvectors, or the right singular vectors, `[m, m]`
    vectors: usize,
    /// The left singular vectors, as large as A, which nobody needs; none with eigenvectors
    left: usize,
    values: usize,
    work: usize,
    /// Elements of `work`
    lwork: c_int,
    info: usize,
    bytes: usize,
}

impl Solver {
    /// Opens the library. It allocates device memory of its own.
    ///
    /// # Errors
    /// [`Error::Device`] with the reason in one line: the engine can do without cuSOLVER.
    ///
    /// # Safety
    /// `stream` belongs to the current context and outlives the value.
    pub unsafe fn open(stream: CUstream) -> Result<Self> {
        let functions = Functions::get()?;
        let mut solver = Self {
            functions,
            handle: std::ptr::null_mut(),
            stream,
        };
        // SAFETY: the handle is written; the caller vouches for the stream.
        unsafe {
            done("start", (functions.create)(&mut solver.handle))?;
            done("use the stream", (functions.set_stream)(solver.handle, stream))?;
        }
        Ok(solver)
    }

    /// Bytes of device memory that [`Self::spectrum`] works in, for A `[m, n]`.
    ///
    /// # Errors
    /// [`Error::Device`] if cuSOLVER refuses the size.
    pub fn spectrum_bytes(&self, m: usize, n: usize, how: Factorisation) -> Result<usize> {
        Ok(self.scratch(m, n, how)?.bytes)
    }

    /// The spectrum of A, `[m, n]` row-major.
    ///
    /// # Errors
    /// [`Error::Device`] if a library refuses, [`Error::Failed`] if the iteration does not converge, which finite input
    /// of sane scale does not do.
    ///
    /// # Safety
    /// [`Self::spectrum_bytes`] bytes of device memory lie at `scratch`, aligned as allocations are, and are used by
    /// nothing else until this returns. `blas` is on the same stream.
    pub unsafe fn spectrum(
        &self,
        blas: &Blas,
        a: &[f64],
        m: usize,
        n: usize,
        how: Factorisation,
        scratch: CUdeviceptr,
    ) -> Result<Spectrum> {
        assert_eq!(a.len(), m * n, "A is [m, n]");
        let offsets = self.scratch(m, n, how)?;
        let (mut values, mut vectors) = (vec![0f64; m], vec![0f64; m * m]);
        let mut info: c_int = 0;
        // SAFETY: `scratch` has room for everything; the host arrays are there until the stream is done.
        unsafe {
            self.upload(a, m, n, &offsets, scratch)?;
            match how {
                Factorisation::Eigen => self.eigen(blas, m, n, &offsets, scratch)?,
                Factorisation::Singular => self.singular(m, &offsets, scratch)?,
            }
            let at = |offset: usize| scratch + offset as u64;
            driver::memcpy_dtoh_async(&mut values, at(offsets.values), self.stream).map_err(not_copied)?;
            driver::memcpy_dtoh_async(&mut vectors, at(offsets.vectors), self.stream).map_err(not_copied)?;
            driver::memcpy_dtoh_async(std::slice::from_mut(&mut info), at(offsets.info), self.stream)
                .map_err(not_copied)?;
            driver::stream::synchronize(self.stream).map_err(not_copied)?;
        }
        if info != 0 {
            return Err(Error::Failed(format!(
                "cuSOLVER's factorisation of A did not converge (info {info}): rescale A"
            )));
        }
        Ok(match how {
            // Smallest first, a vector after the other; rounding can turn a zero negative.
            Factorisation::Eigen => Spectrum {
                eigenvalues: values.iter().rev().map(|value| value.max(0.0)).collect(),
                u: Some(columns_reversed(&vectors, m)),
            },
            // Column-major Uᵀ is row-major U.
            Factorisation::Singular => Spectrum {
                eigenvalues: values.iter().map(|value| value * value).collect(),
                u: Some(vectors),
            },
        })
    }

    fn scratch(&self, m: usize, n: usize, how: Factorisation) -> Result<Scratch> {
        let (rows, columns) = (extent(m)?, extent(n.max(m))?);
        let mut lwork = 0;
        // SAFETY: the queries write one integer and read no array.
        let query = unsafe {
            match how {
                Factorisation::Eigen => {
                    (self.functions.syevd_size)(self.handle, VECTORS, LOWER, rows, 0, rows, 0, &mut lwork)
                }
                Factorisation::Singular => (self.functions.gesvd_size)(self.handle, columns, rows, &mut lwork),
            }
        };
        done("tell the size of its workspace", query)?;
        let (width, left) = match how {
            Factorisation::Eigen => (n, 0),
            Factorisation::Singular => (n.max(m), m * n.max(m)),
        };
        let mut bytes = 0;
        let mut place = |size: usize| {
            let start = bytes;
            bytes = (start + size).next_multiple_of(ALIGNMENT);
            start
        };
        Ok(Scratch {
            a: place(m * width * DOUBLE),
            width,
            vectors: place(m * m * DOUBLE),
            left: place(left * DOUBLE),
            values: place(m * DOUBLE),
            work: place(lwork as usize * DOUBLE),
            lwork,
            info: place(size_of::<c_int>()),
            bytes,
        })
    }

    /// Copies A to the device, its rows filled up with zeros, which change neither U nor a singular value.
    ///
    /// # Safety
    /// As for [`Self::spectrum`].
    unsafe fn upload(&self, a: &[f64], m: usize, n: usize, offsets: &Scratch, scratch: CUdeviceptr) -> Result<()> {
        let at = scratch + offsets.a as u64;
        let padded: Vec<f64>;
        let source = if offsets.width == n {
            a
        } else {
            let row = |row: &[f64]| [row, &vec![0.0; offsets.width - n]].concat();
            padded = a.chunks(n).take(m).flat_map(row).collect();
            &padded
        };
        // SAFETY: the caller vouches for the memory; the source is there until the copy is done.
        unsafe {
            driver::memcpy_htod_async(at, source, self.stream).map_err(not_copied)?;
            driver::stream::synchronize(self.stream).map_err(not_copied)
        }
    }

    /// # Safety
    /// As for [`Self::spectrum`], and A is in place.
    unsafe fn eigen(&self, blas: &Blas, m: usize, n: usize, offsets: &Scratch, scratch: CUdeviceptr) -> Result<()> {
        let at = |offset: usize| scratch + offset as u64;
        let rows = extent(m)?;
        // Every row of A is a state here: the product is A·Aᵀ.
        let shape = Shape {
            rows: m,
            columns: n,
            states: m,
        };
        // SAFETY: the caller vouches for the memory.
        unsafe {
            blas.matrix_times::<f64>(shape, at(offsets.a), at(offsets.a), at(offsets.vectors))?;
            let status = (self.functions.syevd)(
                self.handle,
                VECTORS,
                LOWER,
                rows,
                at(offsets.vectors),
                rows,
                at(offsets.values),
                at(offsets.work),
                offsets.lwork,
                at(offsets.info),
            );
            done("factorise A·Aᵀ", status)
        }
    }

    /// To cuSOLVER the row-major A is Aᵀ = V·S·Uᵀ: its right singular vectors are the rows of Uᵀ. The left ones are
    /// computed too although nobody needs them: `gesvd` is used and tested with vectors on both sides nearly everywhere,
    /// and with vectors on one side nearly nowhere.
    ///
    /// # Safety
    /// As for [`Self::spectrum`], and A is in place.
    unsafe fn singular(&self, m: usize, offsets: &Scratch, scratch: CUdeviceptr) -> Result<()> {
        let at = |offset: usize| scratch + offset as u64;
        let (rows, columns) = (extent(offsets.width)?, extent(m)?);
        let thin = b'S' as c_schar;
        let no_superdiagonal = 0;
        // SAFETY: the caller vouches for the memory.
        unsafe {
            let status = (self.functions.gesvd)(
                self.handle,
                thin,
                thin,
                rows,
                columns,
                at(offsets.a),
                rows,
                at(offsets.values),
                at(offsets.left),
                rows,
                at(offsets.vectors),
                columns,
                at(offsets.work),
                offsets.lwork,
                no_superdiagonal,
                at(offsets.info),
            );
            done("factorise A", status)
        }
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is used by nobody any more. Nothing can be done about a failure.
            let _ = unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}

/// `CUSOLVER_EIG_MODE_VECTOR`
const VECTORS: c_int = 1;
/// `CUBLAS_FILL_MODE_LOWER`
const LOWER: c_int = 0;

/// What a status means.
fn done(what: &str, status: c_int) -> Result<()> {
    let name = match status {
        0 => return Ok(()),
        1 => "NOT_INITIALIZED",
        2 => "ALLOC_FAILED",
        3 => "INVALID_VALUE",
        4 => "ARCH_MISMATCH",
        5 => "MAPPING_ERROR",
        6 => "EXECUTION_FAILED",
        7 => "INTERNAL_ERROR",
        _ => return Err(Error::Device(format!("cuSOLVER cannot {what}: status {status}"))),
    };
    Err(Error::Device(format!("cuSOLVER cannot {what}: CUSOLVER_STATUS_{name}")))
}

fn not_copied(error: driver::DriverError) -> Error {
    Error::Device(format!("the spectrum of A cannot be computed on the GPU: {error}"))
}

fn extent(value: usize) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| Error::Device(format!("a matrix of {value} rows is too large for cuSOLVER")))
}

/// `[m, m]` row-major from columns stored one after the other, the last one first.
fn columns_reversed(columns: &[f64], m: usize) -> Vec<f64> {
    let entry = |at: usize| columns[(m - 1 - at % m) * m + at / m];
    (0..m * m).map(entry).collect()
}

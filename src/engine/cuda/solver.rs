//! The spectrum of A by cuSOLVER: U and the eigenvalues of A·Aᵀ, once per problem.

use std::ffi::{c_int, c_schar, c_void};

use cudarc::cusolver::result::{self, CusolverError};
use cudarc::cusolver::sys::{self, cublasFillMode_t, cusolverEigMode_t};
use cudarc::driver::result as driver;
use cudarc::driver::sys::{CUdeviceptr, CUstream};

use super::blas::{Blas, Shape};
use super::library::require;
use crate::problem::Spectrum;
use crate::{Error, Result};

/// Distance of the arrays in the scratch memory: what device allocations are aligned to.
const ALIGNMENT: usize = 256;
const DOUBLE: usize = size_of::<f64>();

const FUNCTIONS: [&str; 7] = [
    "cusolverDnCreate",
    "cusolverDnDestroy",
    "cusolverDnSetStream",
    "cusolverDnDsyevd_bufferSize",
    "cusolverDnDsyevd",
    "cusolverDnDgesvd_bufferSize",
    "cusolverDnDgesvd",
];

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
    handle: sys::cusolverDnHandle_t,
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
        // SAFETY: looks for the library and closes it again; `culib` is called only if it was found.
        unsafe {
            let has = |function: &[u8]| sys::culib().get::<*const c_void>(function).is_ok();
            require("libcusolver", sys::is_culib_present(), &FUNCTIONS, has)?;
        }
        let handle = result::dn_create().map_err(failed("start"))?;
        let solver = Self { handle, stream };
        // SAFETY: the handle was just made; the caller vouches for the stream.
        unsafe { result::dn_set_stream(handle, stream.cast()) }.map_err(failed("use the stream"))?;
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
                    let (a, values) = (std::ptr::null(), std::ptr::null());
                    sys::cusolverDnDsyevd_bufferSize(self.handle, VECTORS, LOWER, rows, a, rows, values, &mut lwork)
                }
                Factorisation::Singular => sys::cusolverDnDgesvd_bufferSize(self.handle, columns, rows, &mut lwork),
            }
        };
        query.result().map_err(failed("tell the size of its workspace"))?;
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
            sys::cusolverDnDsyevd(
                self.handle,
                VECTORS,
                LOWER,
                rows,
                at(offsets.vectors) as *mut f64,
                rows,
                at(offsets.values) as *mut f64,
                at(offsets.work) as *mut f64,
                offsets.lwork,
                at(offsets.info) as *mut c_int,
            )
        }
        .result()
        .map_err(failed("factorise A·Aᵀ"))
    }

    /// To cuSOLVER the row-major A is Aᵀ = V·S·Uᵀ: its right singular vectors are the rows of Uᵀ. The left ones are
    /// computed too although nobody needs them: `gesvd` is used and tested with vectors on both sides nearly everywhere,
    /// and with vectors on one side nearly nowhere.
    ///
    /// # Safety
    /// As for [`Self::spectrum`], and A is in place.
    unsafe fn singular(&self, m: usize, offsets: &Scratch, scratch: CUdeviceptr) -> Result<()> {
        let at = |offset: usize| (scratch + offset as u64) as *mut f64;
        let (rows, columns) = (extent(offsets.width)?, extent(m)?);
        let thin = b'S' as c_schar;
        let no_superdiagonal = std::ptr::null_mut();
        // SAFETY: the caller vouches for the memory.
        unsafe {
            sys::cusolverDnDgesvd(
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
                at(offsets.info).cast(),
            )
        }
        .result()
        .map_err(failed("factorise A"))
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the handle is used by nobody any more. Nothing can be done about a failure.
        let _ = unsafe { result::dn_destroy(self.handle) };
    }
}

const VECTORS: cusolverEigMode_t = cusolverEigMode_t::CUSOLVER_EIG_MODE_VECTOR;
const LOWER: cublasFillMode_t = cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;

fn failed(what: &'static str) -> impl Fn(CusolverError) -> Error {
    move |e| Error::Device(format!("cuSOLVER cannot {what}: {:?}", e.0))
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

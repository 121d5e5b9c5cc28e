//! cuSOLVER, dense part: eigenvectors of a symmetric matrix, and the singular value decomposition.
//!
//! The work goes back and forth between host and device in the library, so it cannot be captured.

use super::eigen::symmetric_eigen;
use super::handles::Handles;
use super::matrix::{Operand, check};
use super::refuse;
use super::svd::{Decomposition, singular};
use crate::device::memory::POISON;
use crate::driver::state::{Ready, ready, ready_outside_capture};
use crate::driver::{DevicePtr, Handle, INVALID_CONTEXT, NOT_INITIALIZED, Status};
use std::ffi::{c_char, c_int};

/// `cusolverStatus_t`.
pub type SolverStatus = c_int;

pub const CUSOLVER_SUCCESS: SolverStatus = 0;
pub const CUSOLVER_NOT_INITIALIZED: SolverStatus = 1;
pub const CUSOLVER_INVALID_VALUE: SolverStatus = 3;
pub const CUSOLVER_EXECUTION_FAILED: SolverStatus = 6;

const EIGENVECTORS: c_int = 1;
const LOWER: c_int = 0;
const UPPER: c_int = 1;
const DOUBLE: usize = size_of::<f64>();

/// A handle knows nothing here: all work is done at once.
static HANDLES: Handles<()> = Handles::new();

/// The driver, if the handle is live, the context healthy and nothing is being captured.
fn enter(function: &str, handle: Handle) -> Result<Ready, SolverStatus> {
    if HANDLES.get(handle).is_none() {
        let reason = "the handle is null, destroyed, of another context or not of cuSOLVER";
        return Err(refuse(function, CUSOLVER_NOT_INITIALIZED, reason));
    }
    ready_outside_capture(function).map_err(|status| no_context(function, status))
}

fn no_context(function: &str, status: Status) -> SolverStatus {
    let status_here = match status {
        NOT_INITIALIZED | INVALID_CONTEXT => CUSOLVER_NOT_INITIALIZED,
        _ => CUSOLVER_EXECUTION_FAILED,
    };
    refuse(function, status_here, format!("the driver reports error {status}"))
}

fn finish(result: Result<(), SolverStatus>) -> SolverStatus {
    result.err().unwrap_or(CUSOLVER_SUCCESS)
}

/// # Safety
/// `handle` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnCreate(handle: *mut Handle) -> SolverStatus {
    const NAME: &str = "cusolverDnCreate";
    // The library allocates device memory for itself.
    let mut state = match ready_outside_capture(NAME) {
        Ok(state) => state,
        Err(status) => return no_context(NAME, status),
    };
    if handle.is_null() {
        return refuse(NAME, CUSOLVER_INVALID_VALUE, "no place for the handle");
    }
    state.count_call(NAME);
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { handle.write(HANDLES.create()) };
    CUSOLVER_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cusolverDnDestroy(handle: Handle) -> SolverStatus {
    const NAME: &str = "cusolverDnDestroy";
    finish(enter(NAME, handle).map(|mut state| {
        HANDLES.destroy(handle);
        state.count_call(NAME);
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cusolverDnSetStream(handle: Handle, _stream: Handle) -> SolverStatus {
    const NAME: &str = "cusolverDnSetStream";
    if HANDLES.get(handle).is_none() {
        return refuse(
            NAME,
            CUSOLVER_NOT_INITIALIZED,
            "the handle is null, destroyed, of another context or not of cuSOLVER",
        );
    }
    finish(ready().map(drop).map_err(|status| no_context(NAME, status)))
}

/// Elements of workspace that `cusolverDnDsyevd` asks for, as LAPACK's `dsyevd` does.
fn syevd_work(n: usize) -> usize {
    1 + 6 * n + 2 * n * n
}

/// Elements of workspace that `cusolverDnDgesvd` asks for.
fn gesvd_work(m: usize, n: usize) -> usize {
    m + 5 * n + n * n
}

/// A dimension, or why it is none.
fn extent(name: &str, value: c_int) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("{name} is negative"))
}

/// The workspace of a call, if it is as large as the query said.
fn workspace(at: DevicePtr, given: c_int, needed: usize) -> Result<Operand, String> {
    let given = extent("lwork", given)?;
    if given < needed {
        return Err(format!("lwork is {given}, and the query says {needed}"));
    }
    Ok(Operand::vector("the workspace", at, given, DOUBLE))
}

/// # Safety
/// The operand lies in device memory that nothing else uses now.
unsafe fn contents<'a>(operand: &Operand) -> &'a mut [f64] {
    if operand.bytes() == 0 {
        return &mut [];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts_mut(operand.at as *mut f64, operand.bytes() / DOUBLE) }
}

/// Leaves nothing of use where the library says that it destroys the contents.
///
/// # Safety
/// As [`contents`].
unsafe fn destroy_contents(operand: &Operand) {
    // SAFETY: the caller vouches for it.
    for column in unsafe { contents(operand) }.chunks_mut(operand.leading.max(1)) {
        let rows = operand.rows.min(column.len());
        column[..rows].fill(f64::from_ne_bytes([POISON; 8]));
    }
}

/// Checks the arguments that the query and the computation share: the order of A and its operand.
fn symmetric(mode: c_int, triangle: c_int, n: c_int, a: DevicePtr, lda: c_int) -> Result<Operand, String> {
    if mode != EIGENVECTORS {
        return Err("only eigenvalues with eigenvectors are emulated".into());
    }
    if ![LOWER, UPPER].contains(&triangle) {
        return Err("the triangle is neither the lower nor the upper one".into());
    }
    let (n, leading) = (extent("n", n)?, extent("lda", lda)?);
    if leading < n.max(1) {
        return Err(format!("lda {leading} is less than n = {n}"));
    }
    Ok(Operand {
        name: "A",
        at: a,
        rows: n,
        columns: n,
        leading,
        element: DOUBLE,
    })
}

/// # Safety
/// `lwork` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnDsyevd_bufferSize(
    handle: Handle,
    mode: c_int,
    triangle: c_int,
    n: c_int,
    a: DevicePtr,
    lda: c_int,
    _values: DevicePtr,
    lwork: *mut c_int,
) -> SolverStatus {
    const NAME: &str = "cusolverDnDsyevd_bufferSize";
    let elements = symmetric(mode, triangle, n, a, lda).map(|a| syevd_work(a.rows));
    // SAFETY: the caller vouches for the pointer.
    unsafe { answer_query(NAME, handle, elements, lwork) }
}

/// # Safety
/// `lwork` is null or valid for a write.
unsafe fn answer_query(
    function: &'static str,
    handle: Handle,
    elements: Result<usize, String>,
    lwork: *mut c_int,
) -> SolverStatus {
    let mut state = match enter(function, handle) {
        Ok(state) => state,
        Err(status) => return status,
    };
    let elements = elements.and_then(|n| c_int::try_from(n).map_err(|_| "the workspace is too large".into()));
    match elements {
        Ok(_) if lwork.is_null() => refuse(function, CUSOLVER_INVALID_VALUE, "no place for the size"),
        Ok(elements) => {
            // SAFETY: not null, and the caller vouches for the rest.
            unsafe { lwork.write(elements) };
            state.count_call(function);
            CUSOLVER_SUCCESS
        }
        Err(reason) => refuse(function, CUSOLVER_INVALID_VALUE, reason),
    }
}

/// Eigenvalues, smallest first, in `values`; eigenvectors, as columns, in place of A.
///
/// # Safety
/// None beyond the device addresses, which are checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnDsyevd(
    handle: Handle,
    mode: c_int,
    triangle: c_int,
    n: c_int,
    a: DevicePtr,
    lda: c_int,
    values: DevicePtr,
    work: DevicePtr,
    lwork: c_int,
    info: DevicePtr,
) -> SolverStatus {
    const NAME: &str = "cusolverDnDsyevd";
    let operands = || {
        let a = symmetric(mode, triangle, n, a, lda)?;
        let values = Operand::vector("W", values, a.rows, DOUBLE);
        let work = workspace(work, lwork, syevd_work(a.rows))?;
        Ok([a, values, work, Operand::vector("info", info, 1, size_of::<c_int>())])
    };
    compute(NAME, handle, operands(), |[a, values, work, _]| {
        // SAFETY: all ranges were checked, and none overlaps another.
        let (stored, values) = unsafe {
            destroy_contents(work);
            (contents(a), contents(values))
        };
        let n = a.rows;
        let mut whole = vec![0.0; n * n];
        for (row, column) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            // Only the given triangle is read.
            let at = if triangle == LOWER {
                row + column * a.leading
            } else {
                column + row * a.leading
            };
            whole[row * n + column] = stored[at];
            whole[column * n + row] = stored[at];
        }
        match symmetric_eigen(&mut whole, n) {
            Ok(sorted) => {
                values.copy_from_slice(&sorted);
                for (column, vector) in whole.chunks(n.max(1)).enumerate() {
                    stored[column * a.leading..][..n].copy_from_slice(vector);
                }
                0
            }
            Err(number) => number as c_int,
        }
    })
}

/// # Safety
/// `lwork` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnDgesvd_bufferSize(
    handle: Handle,
    m: c_int,
    n: c_int,
    lwork: *mut c_int,
) -> SolverStatus {
    const NAME: &str = "cusolverDnDgesvd_bufferSize";
    let elements = tall(m, n).map(|(m, n)| gesvd_work(m, n));
    // SAFETY: the caller vouches for the pointer.
    unsafe { answer_query(NAME, handle, elements, lwork) }
}

/// The extents of a matrix that `gesvd` takes: cuSOLVER's is for at least as many rows as columns.
fn tall(m: c_int, n: c_int) -> Result<(usize, usize), String> {
    let (m, n) = (extent("m", m)?, extent("n", n)?);
    if m < n {
        return Err(format!("{m} rows are fewer than {n} columns"));
    }
    Ok((m, n))
}

/// Singular values, largest first, in `values`; left singular vectors, as columns, in `u` and right ones, as rows, in
/// `vt`. A is destroyed.
///
/// # Safety
/// None beyond the device addresses, which are checked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cusolverDnDgesvd(
    handle: Handle,
    left: c_char,
    right: c_char,
    m: c_int,
    n: c_int,
    a: DevicePtr,
    lda: c_int,
    values: DevicePtr,
    u: DevicePtr,
    ldu: c_int,
    vt: DevicePtr,
    ldvt: c_int,
    work: DevicePtr,
    lwork: c_int,
    _rwork: DevicePtr,
    info: DevicePtr,
) -> SolverStatus {
    const NAME: &str = "cusolverDnDgesvd";
    let operands = || {
        let (m, n) = tall(m, n)?;
        if (left as u8, right as u8) != (b'S', b'S') {
            return Err("only as many singular vectors as columns on either side (S, S) are emulated".into());
        }
        let matrix = |name, at, rows, leading: c_int| {
            let leading = extent("a leading dimension", leading)?;
            Ok::<_, String>(Operand {
                name,
                at,
                rows,
                columns: n,
                leading,
                element: DOUBLE,
            })
        };
        let (a, u, vt) = (
            matrix("A", a, m, lda)?,
            matrix("U", u, m, ldu)?,
            matrix("VT", vt, n, ldvt)?,
        );
        let values = Operand::vector("S", values, n, DOUBLE);
        let work = workspace(work, lwork, gesvd_work(m, n))?;
        let info = Operand::vector("info", info, 1, size_of::<c_int>());
        Ok([a, values, u, vt, work, info])
    };
    compute(NAME, handle, operands(), |[a, values, u, vt, work, _]| {
        // SAFETY: all ranges were checked, and none overlaps another.
        let (stored, stored_values, stored_u, stored_vt) = unsafe {
            destroy_contents(work);
            (contents(a), contents(values), contents(u), contents(vt))
        };
        let (m, n) = (a.rows, a.columns);
        let columns = (0..n).flat_map(|column| &stored[column * a.leading..][..m]);
        let packed: Vec<f64> = columns.copied().collect();
        // SAFETY: as above.
        unsafe { destroy_contents(a) };
        let Decomposition { values, left, right } = match singular(packed, m, n) {
            Ok(decomposition) => decomposition,
            Err(number) => return number as c_int,
        };
        stored_values.copy_from_slice(&values);
        for (k, vector) in left.chunks(m.max(1)).enumerate() {
            stored_u[k * u.leading..][..m].copy_from_slice(vector);
        }
        for (k, vector) in right.chunks(n.max(1)).enumerate() {
            let entries = vector.iter().enumerate();
            entries.for_each(|(column, entry)| stored_vt[column * vt.leading + k] = *entry);
        }
        0
    })
}

/// Checks a computation's operands, all of which it writes, runs it and stores its result in the last one, `info`.
fn compute<const N: usize>(
    function: &'static str,
    handle: Handle,
    operands: Result<[Operand; N], String>,
    work: impl FnOnce(&[Operand; N]) -> c_int,
) -> SolverStatus {
    let mut state = match enter(function, handle) {
        Ok(state) => state,
        Err(status) => return status,
    };
    let checked = operands.and_then(|operands| check(&[], &operands, state.memory()).map(|()| operands));
    let operands = match checked {
        Ok(operands) => operands,
        Err(reason) => return refuse(function, CUSOLVER_INVALID_VALUE, reason),
    };
    state.count_call(function);
    state.count_run(function);
    drop(state);
    let result = work(&operands);
    // SAFETY: `info` was checked with the other operands.
    unsafe { (operands[N - 1].at as *mut c_int).write(result) };
    CUSOLVER_SUCCESS
}

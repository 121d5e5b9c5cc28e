//! C = alpha·op(A)·op(B) + beta·C, as a command that can be run any number of times.

use super::matrix::Operand;
use crate::device::memory::POISON;
use crate::driver::DevicePtr;
use crate::driver::state::driver;
use std::ops::{Add, Mul};

/// A product with everything it needs, scalars included: cuBLAS reads them when it is called.
#[derive(Clone, Debug)]
pub struct Gemm {
    pub function: &'static str,
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// Terms of each sum.
    pub k: usize,
    pub alpha: f64,
    pub beta: f64,
    pub a: Operand,
    pub b: Operand,
    pub c: Operand,
    /// Memory that the library may use as it likes.
    pub workspace: Option<Operand>,
}

impl Gemm {
    /// The device memory it touches.
    pub fn ranges(&self) -> Vec<(DevicePtr, usize)> {
        let operands = [self.a, self.b, self.c].into_iter().chain(self.workspace);
        operands.map(|operand| (operand.at, operand.bytes())).collect()
    }

    /// Computes the product. The ranges were checked.
    pub fn run(&self) {
        driver().count_run(self.function);
        if let Some(workspace) = &self.workspace {
            // A program that keeps something in there must notice.
            // SAFETY: the range was checked.
            unsafe { std::ptr::write_bytes(workspace.at as *mut u8, POISON, workspace.bytes()) };
        }
        if self.c.bytes() == 0 {
            return;
        }
        match self.c.element {
            4 => self.multiply::<f32>(),
            _ => self.multiply::<f64>(),
        }
    }

    fn multiply<T: Real>(&self) {
        let (alpha, beta) = (T::from_f64(self.alpha), T::from_f64(self.beta));
        // As in BLAS, what is multiplied by zero is not read.
        let k = if self.alpha == 0.0 { 0 } else { self.k };
        let left = lines::<T>(&self.a, self.transpose_a, self.c.rows, k);
        let right = lines::<T>(&self.b, !self.transpose_b, self.c.columns, k);
        for column in 0..self.c.columns {
            for row in 0..self.c.rows {
                let product = alpha * dot(&left[row * k..][..k], &right[column * k..][..k]);
                // SAFETY: the element lies within C, whose range was checked.
                unsafe {
                    let element = (self.c.at as *mut T).add(column * self.c.leading + row);
                    element.write(if self.beta == 0.0 {
                        product
                    } else {
                        product + beta * element.read()
                    });
                }
            }
        }
    }
}

/// The `count` lines of length `k` along which an operand is summed, one after the other: its columns, or its rows.
fn lines<T: Real>(operand: &Operand, columns: bool, count: usize, k: usize) -> Vec<T> {
    let (line_step, step) = if columns {
        (operand.leading, 1)
    } else {
        (1, operand.leading)
    };
    let mut packed = Vec::with_capacity(count * k);
    for line in 0..count {
        for term in 0..k {
            // SAFETY: the element lies within the operand, whose range was checked.
            packed.push(unsafe { (operand.at as *const T).add(line * line_step + term * step).read() });
        }
    }
    packed
}

/// Eight partial sums: an order that depends on the length only, and fills a vector register.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut partial = [T::default(); 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a.remainder().iter().zip(b.remainder());
    let mut sum = rest.fold(T::default(), |sum, (a, b)| sum + *a * *b);
    for (a, b) in a.zip(b) {
        for lane in 0..8 {
            partial[lane] = partial[lane] + a[lane] * b[lane];
        }
    }
    for value in partial {
        sum = sum + value;
    }
    sum
}

pub trait Real: Copy + Default + Add<Output = Self> + Mul<Output = Self> {
    fn from_f64(value: f64) -> Self;
}

impl Real for f32 {
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }
}

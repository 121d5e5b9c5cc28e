//! Every kernel × shape as a test case, for any device: `cases()` is the list, a [`Gpu`] is where they run.
//!
//! A case uploads its inputs, launches its kernel with NaN-filled outputs, and compares what comes back with the twin
//! that stands beside the kernel. It knows its work and the error that rounding allows.

mod conv;
mod fused_norm;
mod likelihood;
mod network;
mod sampler;
mod tensor;
mod values;

use qcs_kernels::global::Global;
use qcs_kernels::launch::{Arguments, Launch};
use std::marker::PhantomData;

/// A device that can run kernels.
pub trait Gpu {
    /// Memory of exactly that size, every byte 0xff: NaN as a float, out of bounds as an index.
    fn allocate(&self, bytes: usize) -> Result<u64, String>;
    /// Frees what `allocate` gave.
    fn free(&self, address: u64);
    /// Copies to the device.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), String>;
    /// Copies from the device, after all launches.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), String>;
    /// Starts a kernel with one argument.
    fn launch(&self, kernel: &str, launch: Launch, argument: &[u8]) -> Result<(), String>;
    /// Whether memory beside the allocations is as it was.
    fn guards_intact(&self) -> bool;
}

/// One kernel on one shape.
pub struct Case {
    /// The op and its shape.
    pub name: String,
    /// Floating-point operations of its products, 0 for ops bound by memory.
    pub flops: u64,
    /// The largest error that counts as correct.
    pub bound: f64,
    /// The least compute capability it runs on, times ten.
    pub architecture: u32,
    run: Box<Run>,
}

type Run = dyn Fn(&dyn Gpu) -> Result<f64, String>;

impl Case {
    fn new(name: String, flops: u64, bound: f64, run: impl Fn(&dyn Gpu) -> Result<f64, String> + 'static) -> Self {
        Self {
            name,
            flops,
            bound,
            architecture: 70,
            run: Box::new(run),
        }
    }

    fn needs(self, architecture: u32) -> Self {
        Self { architecture, ..self }
    }

    /// Runs the case and gives its error, infinite where a value is NaN and should not be.
    ///
    /// # Errors
    /// What the device says of a failed launch or copy, or that a kernel wrote outside its arrays.
    pub fn run(&self, gpu: &dyn Gpu) -> Result<f64, String> {
        let error = (self.run)(gpu)?;
        if !gpu.guards_intact() {
            return Err("wrote outside its arrays".into());
        }
        Ok(error)
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut cases = network::cases();
    cases.extend(conv::cases());
    cases.extend(tensor::cases());
    cases.extend(fused_norm::cases());
    cases.extend(likelihood::cases());
    cases.extend(sampler::cases());
    cases
}

/// An array in device memory.
struct Array<'a, T> {
    gpu: &'a dyn Gpu,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

/// Numbers of which any bits are a value.
trait Plain: Copy + Default {}
impl Plain for u32 {}
impl Plain for f32 {}
impl Plain for f64 {}

impl<'a, T: Plain> Array<'a, T> {
    /// `len` elements of 0xff bytes.
    fn unset(gpu: &'a dyn Gpu, len: usize) -> Result<Self, String> {
        Ok(Self {
            gpu,
            address: gpu.allocate(len * size_of::<T>())?,
            len,
            element: PhantomData,
        })
    }

    fn new(gpu: &'a dyn Gpu, values: &[T]) -> Result<Self, String> {
        let array = Self::unset(gpu, values.len())?;
        // SAFETY: plain numbers have no padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        gpu.write(array.address, bytes)?;
        Ok(array)
    }

    fn read(&self) -> Result<Vec<T>, String> {
        let mut values = vec![T::default(); self.len];
        // SAFETY: plain numbers have no padding, and any bytes are a value.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), self.len * size_of::<T>()) };
        self.gpu.read(self.address, bytes)?;
        Ok(values)
    }

    fn global(&self) -> Global<T> {
        Global::new(self.address)
    }

    /// The same memory as another type.
    fn cast<U>(&self) -> Global<U> {
        Global::new(self.address)
    }
}

impl<T> Drop for Array<'_, T> {
    fn drop(&mut self) {
        self.gpu.free(self.address);
    }
}

fn launch<A: Arguments>(gpu: &dyn Gpu, args: A) -> Result<(), String> {
    gpu.launch(args.kernel(), args.launch(), args.bytes())
}

/// The part of an array that belongs to one of the images of a batch.
fn part(values: &[f32], images: usize, image: usize) -> &[f32] {
    let len = values.len() / images;
    &values[image * len..(image + 1) * len]
}

/// The largest difference, in units of the largest expected magnitude, infinite where only one of the two is NaN or the
/// infinities differ.
fn relative_error<T: Copy + Into<f64>>(actual: &[T], expected: &[T]) -> f64 {
    let scale = expected
        .iter()
        .map(|&e| e.into().abs())
        .filter(|e| e.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    absolute_error(actual, expected) / scale
}

/// The largest difference.
fn absolute_error<T: Copy + Into<f64>>(actual: &[T], expected: &[T]) -> f64 {
    assert_eq!(actual.len(), expected.len(), "the case compares arrays of one length");
    let pairs = actual.iter().zip(expected).map(|(&a, &e)| (a.into(), e.into()));
    let error = |(a, e): (f64, f64)| {
        if a == e || a.is_nan() && e.is_nan() {
            0.0
        } else if (a - e).is_nan() {
            f64::INFINITY
        } else {
            (a - e).abs()
        }
    };
    pairs.map(error).fold(0.0, f64::max)
}

//! Loaded modules, launch dimensions and kernel parameters.

use super::buffer::{Buffer, Plain};
use super::memory::GlobalMemory;
use crate::error::LaunchError;
use crate::ir::{Kernel, Module};
use std::sync::Arc;

/// A module whose variables lie in device memory.
pub struct LoadedModule {
    pub module: Module,
    addresses: Vec<u64>,
    memory: Arc<GlobalMemory>,
}

impl LoadedModule {
    pub fn new(module: Module, memory: &Arc<GlobalMemory>) -> LoadedModule {
        let place = |bytes: usize| {
            memory
                .allocate(bytes.max(1))
                .expect("the host has memory for module variables")
        };
        let addresses: Vec<u64> = module.globals.iter().map(|g| place(g.bytes.len())).collect();
        for (global, address) in module.globals.iter().zip(&addresses) {
            let mut bytes = global.bytes.clone();
            for (offset, target) in &global.relocations {
                let at = &mut bytes[*offset..*offset + 8];
                let addend = u64::from_le_bytes(at.try_into().expect("eight bytes"));
                at.copy_from_slice(&addend.wrapping_add(addresses[*target as usize]).to_le_bytes());
            }
            // SAFETY: at least as many bytes were just allocated there.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
        }
        LoadedModule {
            module,
            addresses,
            memory: memory.clone(),
        }
    }

    pub(crate) fn globals(&self) -> &[u64] {
        &self.addresses
    }

    /// Address and size of a module variable.
    pub fn global(&self, name: &str) -> Option<(u64, usize)> {
        let index = self.module.globals.iter().position(|g| g.name == name)?;
        Some((self.addresses[index], self.module.globals[index].bytes.len()))
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        for address in &self.addresses {
            self.memory.free(*address);
        }
    }
}

/// Dimensions of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: usize,
}

impl LaunchConfig {
    /// One-dimensional, without dynamic shared memory.
    pub fn linear(blocks: u32, threads: u32) -> LaunchConfig {
        LaunchConfig {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared: 0,
        }
    }
}

/// Kernel parameters in order.
#[derive(Clone, Default, Debug)]
pub struct Params(Vec<Vec<u8>>);

impl Params {
    pub fn new() -> Params {
        Params::default()
    }

    /// The address of a buffer.
    pub fn buffer<T: Plain>(self, buffer: &Buffer<T>) -> Params {
        self.value(buffer.address())
    }

    /// A number.
    pub fn value<T: Plain>(self, value: T) -> Params {
        // SAFETY: `T` is plain bits without padding.
        unsafe { self.structure(&value) }
    }

    /// A struct passed by value.
    ///
    /// # Safety
    /// `T` is `#[repr(C)]` and has no padding bytes, whose reading is undefined.
    pub unsafe fn structure<T: Copy>(self, value: &T) -> Params {
        // SAFETY: the caller vouches for the bytes; they are copied at once.
        let bytes = unsafe { std::slice::from_raw_parts((value as *const T).cast::<u8>(), size_of::<T>()) };
        self.bytes(bytes)
    }

    /// A parameter as bytes, laid out as the kernel expects it.
    pub fn bytes(mut self, bytes: &[u8]) -> Params {
        self.0.push(bytes.to_vec());
        self
    }

    /// The parameter block of a kernel, or what does not fit.
    pub(super) fn block(&self, kernel: &Kernel) -> Result<Vec<u64>, LaunchError> {
        let invalid = |message: String| Err(LaunchError::Invalid(format!("kernel {}: {message}", kernel.name)));
        if self.0.len() != kernel.params.len() {
            return invalid(format!(
                "{} parameters given, {} expected",
                self.0.len(),
                kernel.params.len()
            ));
        }
        let mut block = vec![0; kernel.param_bytes];
        for (n, (bytes, param)) in self.0.iter().zip(&kernel.params).enumerate() {
            if bytes.len() != param.bytes {
                return invalid(format!(
                    "parameter {n} has {} bytes, {} expected",
                    bytes.len(),
                    param.bytes
                ));
            }
            block[param.offset..param.offset + param.bytes].copy_from_slice(bytes);
        }
        Ok(words(&block))
    }
}

/// Bytes as words, padded with zeros: the executor reads parameters with aligned accesses.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

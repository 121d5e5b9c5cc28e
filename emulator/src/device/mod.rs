//! The library's device: memory, loaded modules and launches, without the driver API.

mod buffer;
mod launch;
pub mod memory;
pub mod occupancy;
mod report;

pub use buffer::{Buffer, Plain};
pub(crate) use launch::words;
pub use launch::{LaunchConfig, LoadedModule, Params};
pub use report::Report;

use crate::error::{LaunchError, LoadError};
use crate::exec::{self, Environment, Options};
use crate::ir::Module;
use memory::GlobalMemory;
use std::sync::Arc;

/// An emulated GPU.
#[derive(Clone, Default)]
pub struct Device {
    memory: Arc<GlobalMemory>,
    /// What launches check and count.
    pub options: Options,
}

impl Device {
    pub fn new(options: Options) -> Device {
        Device {
            memory: Arc::default(),
            options,
        }
    }

    /// Another device of the same machine: memory of its own, and the host memory that both reach.
    pub fn beside(&self) -> Device {
        Device {
            memory: Arc::new(self.memory.beside()),
            options: self.options.clone(),
        }
    }

    /// Parses a module and places its variables in device memory.
    pub fn load(&self, ptx: &str) -> Result<LoadedModule, LoadError> {
        Ok(LoadedModule::new(Module::parse(ptx)?, &self.memory))
    }

    /// A buffer with these contents.
    pub fn buffer<T: Plain>(&self, data: &[T]) -> Buffer<T> {
        let buffer = Buffer::new(&self.memory, data.len());
        buffer.write(data);
        buffer
    }

    /// A buffer whose elements nobody has set: NaN in every float format.
    pub fn poisoned<T: Plain>(&self, len: usize) -> Buffer<T> {
        Buffer::new(&self.memory, len)
    }

    pub fn memory(&self) -> &Arc<GlobalMemory> {
        &self.memory
    }

    /// Runs a kernel to its end.
    pub fn launch(
        &self,
        module: &LoadedModule,
        kernel: &str,
        config: LaunchConfig,
        params: &Params,
    ) -> Result<Report, LaunchError> {
        let Some(kernel) = module.module.kernel(kernel) else {
            return Err(LaunchError::Invalid(format!("no kernel '{kernel}' in the module")));
        };
        let ranges = self.memory.ranges();
        let env = Environment {
            kernel,
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.dynamic_shared,
            params: params.block(kernel)?,
            globals: module.globals(),
            ranges: &ranges,
            options: &self.options,
        };
        let start = std::time::Instant::now();
        let profile = exec::run(&env)?;
        Ok(Report::new(&env, profile, start.elapsed()))
    }
}

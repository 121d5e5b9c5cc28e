//! The emulator as a device for the cases.

use qcs_conformance::Gpu;
use qcs_emulator::{Buffer, Device, LaunchConfig, LoadedModule, Options, Params, Report};
use qcs_kernels::launch::Launch;
use std::cell::RefCell;
use std::collections::HashMap;

pub struct Emulated {
    device: Device,
    module: LoadedModule,
    buffers: RefCell<HashMap<u64, Buffer<u8>>>,
    /// Of every launch so far.
    pub reports: RefCell<Vec<Report>>,
}

impl Emulated {
    pub fn new(ptx: &str, profile: bool) -> Self {
        let device = Device::new(Options {
            profile,
            ..Options::default()
        });
        let module = device.load(ptx).expect("the committed PTX loads");
        Self {
            device,
            module,
            buffers: RefCell::default(),
            reports: RefCell::default(),
        }
    }
}

impl Gpu for Emulated {
    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let buffer = self.device.poisoned::<u8>(bytes);
        let address = buffer.address();
        self.buffers.borrow_mut().insert(address, buffer);
        Ok(address)
    }

    fn free(&self, address: u64) {
        self.buffers.borrow_mut().remove(&address);
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.buffers.borrow()[&address].write(bytes);
        Ok(())
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        bytes.copy_from_slice(&self.buffers.borrow()[&address].read());
        Ok(())
    }

    fn launch(&self, kernel: &str, launch: Launch, argument: &[u8]) -> Result<(), String> {
        let config = LaunchConfig {
            grid: [launch.grid[0], launch.grid[1], 1],
            block: [launch.threads, 1, 1],
            dynamic_shared: 0,
        };
        let params = Params::new().bytes(argument);
        let report = self.device.launch(&self.module, kernel, config, &params);
        self.reports.borrow_mut().push(report.map_err(|e| e.to_string())?);
        Ok(())
    }

    fn guards_intact(&self) -> bool {
        self.buffers.borrow().values().all(Buffer::guards_intact)
    }
}

//! All cases on the emulator, with the PTX of each architecture.

use qcs_conformance::{Gpu, cases};
use qcs_emulator::{Buffer, Device, LaunchConfig, LoadedModule, Options, Params};
use qcs_kernels::launch::Launch;
use qcs_kernels::{PTX_SM_70, PTX_SM_80};
use std::cell::RefCell;
use std::collections::HashMap;

struct Emulated {
    device: Device,
    module: LoadedModule,
    buffers: RefCell<HashMap<u64, Buffer<u8>>>,
}

impl Emulated {
    fn new(ptx: &str) -> Self {
        let device = Device::new(Options::default());
        let module = device.load(ptx).expect("the committed PTX loads");
        Self {
            device,
            module,
            buffers: RefCell::default(),
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
        self.device
            .launch(&self.module, kernel, config, &params)
            .map(|_| ())
            .map_err(|e| e.to_string())
    }

    fn guards_intact(&self) -> bool {
        self.buffers.borrow().values().all(Buffer::guards_intact)
    }
}

fn every_case_is_correct(architecture: &str, ptx: &str) {
    let gpu = Emulated::new(ptx);
    let mut failures = Vec::new();
    for case in cases() {
        let verdict = match case.run(&gpu) {
            Ok(error) if error <= case.bound => format!("ok, error {error:.1e} of {:.1e}", case.bound),
            Ok(error) => format!("WRONG, error {error:.3e} of {:.1e}", case.bound),
            Err(reason) => format!("FAILED: {reason}"),
        };
        println!("{architecture} {:45} {verdict}", case.name);
        if !verdict.starts_with("ok") {
            failures.push(format!("{}: {verdict}", case.name));
        }
    }
    assert!(failures.is_empty(), "{architecture}:\n{}", failures.join("\n"));
}

#[test]
fn every_case_is_correct_on_sm_70() {
    every_case_is_correct("sm_70", PTX_SM_70);
}

#[test]
fn every_case_is_correct_on_sm_80() {
    every_case_is_correct("sm_80", PTX_SM_80);
}

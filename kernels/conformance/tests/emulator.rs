//! All cases on the emulator, with the PTX of each architecture.

use qcs_conformance::{Gpu, cases};
use qcs_emulator::{Buffer, Device, LaunchConfig, LoadedModule, Options, Params, Report};
use qcs_kernels::launch::Launch;
use qcs_kernels::{PTX_SM_70, PTX_SM_80};
use std::cell::RefCell;
use std::collections::HashMap;

struct Emulated {
    device: Device,
    module: LoadedModule,
    buffers: RefCell<HashMap<u64, Buffer<u8>>>,
    reports: RefCell<Vec<Report>>,
}

impl Emulated {
    fn new(ptx: &str, profile: bool) -> Self {
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

fn every_case_is_correct(architecture: u32, ptx: &str) {
    let gpu = Emulated::new(ptx, false);
    let mut failures = Vec::new();
    for case in cases().into_iter().filter(|case| case.architecture <= architecture) {
        let verdict = match case.run(&gpu) {
            Ok(error) if error <= case.bound => format!("ok, error {error:.1e} of {:.1e}", case.bound),
            Ok(error) => format!("WRONG, error {error:.3e} of {:.1e}", case.bound),
            Err(reason) => format!("FAILED: {reason}"),
        };
        println!("sm_{architecture} {:45} {verdict}", case.name);
        if !verdict.starts_with("ok") {
            failures.push(format!("{}: {verdict}", case.name));
        }
    }
    assert!(failures.is_empty(), "sm_{architecture}:\n{}", failures.join("\n"));
}

#[test]
fn every_case_is_correct_on_sm_70() {
    every_case_is_correct(70, PTX_SM_70);
}

#[test]
fn every_case_is_correct_on_sm_80() {
    every_case_is_correct(80, PTX_SM_80);
}

#[test]
fn convolutions_move_full_sectors_without_bank_conflicts() {
    for (architecture, ptx) in [(70, PTX_SM_70), (80, PTX_SM_80)] {
        let gpu = Emulated::new(ptx, true);
        // One layer for each tile and activation.
        let layers = [
            "5×8→72×64×65",
            "1×16→16×28×28",
            "3×16→16×16×16",
            "1×16→32×14×14 1 taps",
            "1×16→8×9×9",
            "5×16→32×14×14 9 taps",
            "1×128→128×16×16",
        ];
        let named = |name: &str| layers.iter().any(|layer| name.contains(layer));
        for case in cases()
            .into_iter()
            .filter(|case| case.architecture <= architecture && named(&case.name))
        {
            case.run(&gpu).expect("the case runs");
        }
        for report in gpu.reports.borrow().iter() {
            let kernel = &report.kernel;
            assert_eq!(report.memory.shared_conflicts, 0, "{kernel}");
            // A pixel of eight halves is half a sector, and a shifted row may begin in the middle of one.
            let least = if kernel == "conv_f16_128x128" { 0.9 } else { 1.0 };
            let full = report.sector_efficiency();
            assert!(full >= least, "{kernel}: {full}");
        }
        assert!(gpu.reports.borrow().len() >= layers.len());
    }
}

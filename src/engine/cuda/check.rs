//! The kernels' test cases on a real device: the first thing to run on a new GPU.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use qcs_conformance::{Gpu, cases};
use qcs_kernels::launch::Launch;

use super::driver::{Device, Memory};
use crate::Result;

/// What became of one case.
pub struct Verdict {
    /// The op and its shape
    pub name: String,
    /// The largest error that counts as correct
    pub bound: f64,
    /// The error, or what the device said
    pub error: Result<f64, String>,
}

impl Verdict {
    pub fn is_correct(&self) -> bool {
        self.error.as_ref().is_ok_and(|&error| error <= self.bound)
    }
}

/// Runs every case that the GPU can run and whose name contains `filter`.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) if there is no such GPU. A case that fails is a verdict, not an error; after a
/// fault the device is of no more use, and so are the cases that follow.
pub fn check(ordinal: usize, filter: &str, report: &mut dyn FnMut(Verdict)) -> Result<String> {
    let device = Rc::new(Device::open(ordinal)?);
    let capability = device.properties.capability;
    let name = format!("cuda:{ordinal}, {}, sm_{capability}", device.properties.name);
    let bench = Bench {
        device,
        arrays: RefCell::default(),
    };
    let wanted = |name: &str| name.contains(filter);
    for case in cases()
        .into_iter()
        .filter(|c| c.architecture <= capability && wanted(&c.name))
    {
        report(Verdict {
            error: case.run(&bench),
            bound: case.bound,
            name: case.name,
        });
    }
    Ok(name)
}

/// Bytes before and after each array that no kernel may touch.
const GUARD: usize = 512;
const GUARD_BYTE: u8 = 0xff;

/// A device and the arrays that are in use, each between two guards.
struct Bench {
    device: Rc<Device>,
    arrays: RefCell<HashMap<u64, (Memory, usize)>>,
}

impl Gpu for Bench {
    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let memory = self.device.allocate(bytes + 2 * GUARD).map_err(|e| e.to_string())?;
        let all = vec![GUARD_BYTE; bytes + 2 * GUARD];
        memory.write(0, &all).map_err(|e| e.to_string())?;
        let address = memory.address() + GUARD as u64;
        self.arrays.borrow_mut().insert(address, (memory, bytes));
        Ok(address)
    }

    fn free(&self, address: u64) {
        self.arrays.borrow_mut().remove(&address);
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.arrays.borrow()[&address]
            .0
            .write(GUARD, bytes)
            .map_err(|e| e.to_string())
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        self.arrays.borrow()[&address]
            .0
            .read(GUARD, bytes)
            .map_err(|e| e.to_string())
    }

    fn launch(&self, kernel: &str, launch: Launch, argument: &[u8]) -> Result<(), String> {
        let function = self.device.function(kernel).map_err(|e| e.to_string())?;
        // SAFETY: the case made the argument for this kernel from arrays that are alive.
        unsafe { self.device.launch(function, launch, argument) }.map_err(|e| e.to_string())
    }

    fn guards_intact(&self) -> bool {
        let intact = |(memory, bytes): &(Memory, usize)| {
            let mut guard = [0; GUARD];
            [0, GUARD + bytes]
                .iter()
                .all(|&at| memory.read(at, &mut guard).is_ok() && guard == [GUARD_BYTE; GUARD])
        };
        self.arrays.borrow().values().all(intact)
    }
}

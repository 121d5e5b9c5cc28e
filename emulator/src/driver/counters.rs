//! What the program asked of the device, as JSON: at exit, and on request.

use super::state::{State, driver};
use crate::device::Report;
use crate::device::memory::GlobalMemory;
use crate::json::{Object, array};
use crate::libraries::{Uses, nvtx};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::io::Write;

/// Counts since start or since the last reset, of all devices.
#[derive(Clone, Default, Debug)]
pub struct Counters {
    pub host_to_device: Traffic,
    pub device_to_host: Traffic,
    pub device_to_device: Traffic,
    pub memsets: Traffic,
    /// Copies and fills that reached memory of another device than the current one; they are among the others, too.
    pub foreign: Traffic,
    /// Calls that wait for the device: streams, events, contexts, and copies without a stream.
    pub synchronisations: u64,
    pub kernel_launches: u64,
    pub graph_launches: u64,
    pub graph_instantiations: u64,
    /// Streams that came to take part in a capture
    pub forks: u64,
    pub module_loads: u64,
    /// Images that were not PTX, which are refused
    pub machine_code_loads: u64,
    pub allocations: u64,
    pub frees: u64,
    pub profiler_starts: u64,
    pub profiler_stops: u64,
    /// Uses of each library function.
    pub libraries: BTreeMap<&'static str, Uses>,
    /// How often each range was opened, by its name and those of the ranges around it.
    pub ranges: BTreeMap<String, u64>,
    pub ranges_closed: u64,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Traffic {
    pub calls: u64,
    pub bytes: u64,
}

impl Traffic {
    pub fn add(&mut self, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes as u64;
    }

    fn json(&self) -> String {
        Object::new()
            .integer("calls", self.calls)
            .integer("bytes", self.bytes)
            .finish()
    }
}

/// Launches of one kernel, added up.
pub type KernelTotals = BTreeMap<String, (u64, Report)>;

impl State {
    pub fn to_json(&self) -> String {
        let c = &self.counters;
        let kernels = self.kernels.values().map(|(launches, report)| {
            Object::new()
                .integer("launches", *launches)
                .raw("total", &report.to_json())
                .finish()
        });
        let libraries = c.libraries.iter().map(|(function, uses)| {
            Object::new()
                .text("function", function)
                .integer("calls", uses.calls)
                .integer("runs", uses.runs)
                .finish()
        });
        let ranges = c
            .ranges
            .iter()
            .map(|(name, opened)| Object::new().text("range", name).integer("opened", *opened).finish());
        let devices = self.gpus.iter().map(|gpu| {
            let memory = gpu.device.memory();
            Object::new()
                .integer("kernel_launches", gpu.kernel_launches)
                .integer("graph_launches", gpu.graph_launches)
                .integer("bytes_in_use", memory.in_use() as u64)
                .integer("peak_bytes", memory.peak() as u64)
                .finish()
        });
        let sum =
            |bytes: fn(&GlobalMemory) -> usize| self.gpus.iter().map(|gpu| bytes(gpu.device.memory()) as u64).sum();
        Object::new()
            .raw("host_to_device", &c.host_to_device.json())
            .raw("device_to_host", &c.device_to_host.json())
            .raw("device_to_device", &c.device_to_device.json())
            .raw("memsets", &c.memsets.json())
            .raw("foreign", &c.foreign.json())
            .integer("synchronisations", c.synchronisations)
            .integer("kernel_launches", c.kernel_launches)
            .integer("graph_launches", c.graph_launches)
            .integer("graph_instantiations", c.graph_instantiations)
            .integer("forks", c.forks)
            .integer("module_loads", c.module_loads)
            .integer("machine_code_loads", c.machine_code_loads)
            .integer("allocations", c.allocations)
            .integer("frees", c.frees)
            .integer("bytes_in_use", sum(GlobalMemory::in_use))
            .integer("peak_bytes", sum(GlobalMemory::peak))
            .raw("devices", &array(devices))
            .integer("profiler_starts", c.profiler_starts)
            .integer("profiler_stops", c.profiler_stops)
            .raw("libraries", &array(libraries))
            .raw("ranges", &array(ranges))
            .integer("ranges_closed", c.ranges_closed)
            .raw("kernels", &array(kernels))
            .finish()
    }

    /// Appends the report of a launch, with the NVTX range that it happened in, where `QCS_EMU_LAUNCHES` says.
    pub fn write_launch(&mut self, report: &Report) {
        let Some(file) = &mut self.launches else { return };
        let line = Object::new()
            .text("range", &nvtx::innermost())
            .integer("ranges_opened", self.counters.ranges.values().sum())
            .raw("report", &report.to_json());
        if let Err(error) = writeln!(file, "{}", line.finish()) {
            eprintln!("qcs-emulator: a launch cannot be written down: {error}");
            self.launches = None;
        }
    }

    /// Writes the statistics where `QCS_EMU_STATS` says.
    pub fn write_stats(&self) {
        let Some(path) = &self.config.stats else { return };
        if let Err(error) = std::fs::write(path, self.to_json() + "\n") {
            eprintln!("qcs-emulator: cannot write {}: {error}", path.display());
        }
    }
}

/// Copies the statistics as JSON, with a terminating zero, into `buffer` of `size` bytes and
/// returns the size the whole text needs.
///
/// # Safety
/// `buffer` is null or valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qcs_emu_stats_json(buffer: *mut c_char, size: usize) -> usize {
    let text = driver().to_json();
    if !buffer.is_null() && size > 0 {
        let count = text.len().min(size - 1);
        // SAFETY: `count + 1` bytes fit, and the caller vouches for the buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), count);
            buffer.add(count).write(0);
        }
    }
    text.len() + 1
}

/// Sets all counters to zero; memory in use and its peak stay.
#[unsafe(no_mangle)]
pub extern "C" fn qcs_emu_reset_stats() {
    let mut state = driver();
    state.counters = Counters::default();
    state.kernels.clear();
    for gpu in &mut state.gpus {
        (gpu.kernel_launches, gpu.graph_launches) = (0, 0);
    }
}

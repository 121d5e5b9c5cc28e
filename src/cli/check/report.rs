//! What `qcs check --report` leaves: everything that we would ask about a device.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use qcs::engine::Engine;
use qcs::engine::cases::Verdict;
use qcs::engine::cuda::{CudaEngine, KernelResources, Properties};
use qcs::files::write_atomically;
use qcs::{Error, Result};

use crate::cli::table;

#[derive(Default, Serialize)]
pub struct Report {
    version: Version,
    /// "cuda:0, Tesla V100-SXM2-16GB, sm_70"
    pub device: Option<String>,
    pub gpu: Option<Gpu>,
    cases: Vec<Case>,
    /// Why the check failed, or did not begin
    pub error: Option<String>,
}

#[derive(Serialize)]
struct Version {
    qcs: &'static str,
    build: &'static str,
}

impl Default for Version {
    fn default() -> Self {
        Self {
            qcs: env!("CARGO_PKG_VERSION"),
            build: env!("QCS_BUILD"),
        }
    }
}

/// A GPU as its driver describes it.
#[derive(Serialize)]
pub struct Gpu {
    name: String,
    /// Times ten: 70 is a V100, 80 an A100
    compute_capability: u32,
    multiprocessors: u32,
    clock_khz: u32,
    total_bytes: usize,
    /// 12080 is CUDA 12.8
    driver_version: i32,
    /// Where the kernels come from
    image: Option<String>,
    kernels: Vec<KernelResources>,
}

#[derive(Serialize)]
struct Case {
    name: String,
    engine: String,
    /// Absent where there is a reason instead
    error: Option<f64>,
    bound: f64,
    correct: bool,
    /// What went wrong, if it was not the error
    reason: Option<String>,
    /// From the first upload to the last comparison, the twin on the CPU included
    seconds: f64,
}

impl Gpu {
    pub fn of(engine: &CudaEngine) -> Result<Self> {
        let Properties {
            name,
            capability,
            multiprocessors,
            clock,
            total_bytes,
            driver,
        } = engine.properties().clone();
        Ok(Self {
            name,
            compute_capability: capability,
            multiprocessors,
            clock_khz: clock,
            total_bytes,
            driver_version: driver,
            image: engine.kernels(),
            kernels: engine.kernel_resources()?,
        })
    }

    /// Registers and local memory in words; as a table of all kernels if asked for, else of those that should not be so.
    pub fn kernels(&self, all: bool) -> String {
        let shown: Vec<&KernelResources> = self.kernels.iter().filter(|k| all || k.local > 0).collect();
        let spilling = self.kernels.iter().filter(|k| k.local > 0).count();
        let most = self.kernels.iter().map(|k| k.registers).max().unwrap_or(0);
        let mut text = String::new();
        if !shown.is_empty() {
            let head = ["kernel", "registers", "local bytes", "shared bytes", "threads"];
            let row = |k: &&KernelResources| {
                let numbers = [k.registers, k.local, k.shared, k.most_threads].map(|n| n.to_string());
                [vec![k.name.clone()], numbers.to_vec()].concat()
            };
            let rows = std::iter::once(head.map(str::to_owned).to_vec()).chain(shown.iter().map(row));
            text += &table::aligned(&rows.collect::<Vec<_>>());
        }
        let local = match spilling {
            0 => "none uses local memory".to_owned(),
            _ => format!("{spilling} use local memory: please send us a --report"),
        };
        text + &format!("{} kernels, at most {most} registers, {local}\n\n", self.kernels.len())
    }
}

impl Report {
    pub fn add(&mut self, engine: &dyn Engine, verdict: &Verdict, time: Duration) {
        self.cases.push(Case {
            name: verdict.name.clone(),
            engine: engine.describe(),
            // JSON has no infinity.
            error: verdict.error.as_ref().ok().copied().filter(|error| error.is_finite()),
            bound: verdict.bound,
            correct: verdict.is_correct(),
            reason: match &verdict.error {
                Ok(error) if error.is_finite() => None,
                Ok(_) => Some("a value is not a number, or infinite, and should not be".into()),
                Err(reason) => Some(reason.clone()),
            },
            seconds: time.as_secs_f64(),
        });
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        write_atomically(path, |file| {
            serde_json::to_writer_pretty(file, self).map_err(|e| Error::io(path, "write", e.into()))
        })
    }
}

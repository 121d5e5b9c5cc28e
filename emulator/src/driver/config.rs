//! Settings from the environment, fault injection included.

use crate::device::occupancy::{Multiprocessor, SM_70, SM_80, SM_90};
use crate::exec::Options;
use std::path::PathBuf;
use std::str::FromStr;

/// A kernel whose n-th launch is to fail; `*` stands for any.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelFault {
    pub kernel: String,
    pub launch: u64,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub multiprocessor: Multiprocessor,
    pub driver_version: i32,
    /// How many devices there are
    pub devices: usize,
    pub no_device: bool,
    /// Bytes of each device
    pub memory: usize,
    /// Number of the allocation that fails, counted from 1.
    pub fail_allocation: Option<u64>,
    pub kernel_fault: Option<KernelFault>,
    /// Number of the first cuBLAS product that fails, as all after it, counted from 1.
    pub fail_gemm: Option<u64>,
    /// Bytes of device memory that a cuBLAS handle keeps.
    pub blas_bytes: usize,
    /// What the JIT compiler says of every module, which is then refused.
    pub jit_error: Option<String>,
    pub no_jit: bool,
    pub stats: Option<PathBuf>,
    /// Where every launch leaves a line.
    pub launches: Option<PathBuf>,
    pub options: Options,
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    if value.is_none() {
        eprintln!("qcs-emulator: cannot read {name}={text}; ignored");
    }
    value
}

fn switch(name: &str, default: bool) -> bool {
    variable::<u32>(name).map_or(default, |v| v != 0)
}

impl Config {
    pub fn from_env() -> Config {
        let defaults = Options::default();
        let multiprocessor = match variable("QCS_EMU_SM") {
            Some(70) => SM_70,
            Some(90) => SM_90,
            None | Some(80) => SM_80,
            Some(other) => {
                eprintln!("qcs-emulator: QCS_EMU_SM={other} is unknown (70, 80, 90); using 80");
                SM_80
            }
        };
        Config {
            multiprocessor,
            driver_version: variable("QCS_EMU_DRIVER_VERSION").unwrap_or(12080),
            devices: variable("QCS_EMU_DEVICES").unwrap_or(1).max(1),
            no_device: switch("QCS_EMU_NO_DEVICE", false),
            memory: variable("QCS_EMU_MEMORY").unwrap_or(16 << 30),
            fail_allocation: variable("QCS_EMU_FAIL_ALLOC"),
            kernel_fault: std::env::var("QCS_EMU_FAULT_KERNEL")
                .ok()
                .map(|text| kernel_fault(&text)),
            fail_gemm: variable("QCS_EMU_FAIL_GEMM"),
            blas_bytes: variable("QCS_EMU_BLAS_BYTES").unwrap_or(0),
            jit_error: std::env::var("QCS_EMU_JIT_ERROR").ok(),
            no_jit: switch("QCS_EMU_NO_JIT", false),
            stats: std::env::var_os("QCS_EMU_STATS").map(PathBuf::from),
            launches: std::env::var_os("QCS_EMU_LAUNCHES").map(PathBuf::from),
            options: Options {
                workers: variable("QCS_EMU_WORKERS").unwrap_or(defaults.workers),
                check_races: switch("QCS_EMU_RACES", true),
                profile: switch("QCS_EMU_PROFILE", false),
                max_instructions: variable("QCS_EMU_MAX_INSTRUCTIONS").unwrap_or(defaults.max_instructions),
                sample: variable("QCS_EMU_SAMPLE"),
            },
        }
    }

    /// The newest PTX ISA that a driver of this version compiles.
    pub fn newest_ptx(&self) -> (u32, u32) {
        let (major, minor) = (
            self.driver_version as u32 / 1000,
            self.driver_version as u32 % 1000 / 10,
        );
        match major {
            0..=9 => (6, 0),
            10 => (6, 3 + minor),
            11 => (7, minor),
            12 => (8, minor.saturating_sub((minor > 5) as u32)),
            _ => (9, minor),
        }
    }
}

/// `name` or `name:n`.
fn kernel_fault(text: &str) -> KernelFault {
    let (kernel, launch) = match text.rsplit_once(':') {
        Some((kernel, n)) if n.parse::<u64>().is_ok() => (kernel, n.parse().unwrap_or(1)),
        _ => (text, 1),
    };
    KernelFault {
        kernel: kernel.into(),
        launch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_fault_names_its_launch() {
        let fault = |kernel: &str, launch| KernelFault {
            kernel: kernel.into(),
            launch,
        };
        assert_eq!(kernel_fault("conv"), fault("conv", 1));
        assert_eq!(kernel_fault("conv:3"), fault("conv", 3));
        assert_eq!(kernel_fault("*:2"), fault("*", 2));
    }

    #[test]
    fn drivers_know_the_ptx_of_their_release() {
        let newest = |driver_version| {
            Config {
                driver_version,
                ..Config::from_env()
            }
            .newest_ptx()
        };
        // From the release table of the PTX ISA manual.
        assert_eq!(newest(10010), (6, 4));
        assert_eq!(newest(11000), (7, 0));
        assert_eq!(newest(12040), (8, 4));
        assert_eq!(newest(12080), (8, 7));
        assert_eq!(newest(13000), (9, 0));
    }
}

//! Which driver and which GPUs are there.

use std::sync::OnceLock;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::engine::cuda::library::Library;
use crate::error::Remedy;
use crate::{Error, Result};

/// The oldest driver that has every function the engine calls: CUDA 11.4.
const OLDEST_DRIVER: i32 = 11_040;

/// What a device is.
#[derive(Clone, Debug)]
pub struct Properties {
    pub name: String,
    /// Compute capability times ten: 70 is a V100, 80 an A100.
    pub capability: u32,
    pub multiprocessors: u32,
    /// In kHz
    pub clock: u32,
    pub total_bytes: usize,
    /// The CUDA version that the driver is for: 12080 is 12.8
    pub driver: i32,
}

/// Whether the machine has a CUDA driver at all.
pub fn driver_is_installed() -> bool {
    // Held from the first question on: cudarc closes what it has found and opens it again, and a driver should not be
    // started twice.
    static HELD: OnceLock<Option<Library>> = OnceLock::new();
    let held = HELD.get_or_init(|| Library::open("cuda", &[1]).ok());
    // SAFETY: looks for the library and closes it again.
    held.is_some() && unsafe { sys::is_culib_present() }
}

/// How many GPUs there are.
///
/// # Errors
/// [`Error::Device`] if there is no usable driver, with the reason and what to do.
pub fn count() -> Result<usize> {
    if !driver_is_installed() {
        let reason = "no NVIDIA driver: libcuda.so.1 was not found; install the driver";
        return Err(Error::Device(reason.into()).or(Remedy::Cpu));
    }
    result::init().map_err(|e| match e.0 {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => no_device(),
        _ => Error::Device(format!(
            "the NVIDIA driver does not start ({}); nvidia-smi may say more",
            name(e)
        ))
        .or(Remedy::Cpu),
    })?;
    let version = driver_version()
        .map_err(|e| Error::Device(format!("the NVIDIA driver does not say its version ({})", name(e))))?;
    if version < OLDEST_DRIVER {
        let dotted = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
        return Err(Error::Device(format!(
            "the NVIDIA driver is too old: it is for CUDA {}, qcs needs {}; update it",
            dotted(version),
            dotted(OLDEST_DRIVER)
        ))
        .or(Remedy::Cpu));
    }
    match result::device::get_count() {
        Ok(n) if n > 0 => Ok(n as usize),
        Ok(_) => Err(no_device()),
        Err(e) => Err(Error::Device(format!("the NVIDIA driver fails ({})", name(e)))),
    }
}

fn driver_version() -> Result<i32, DriverError> {
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

fn no_device() -> Error {
    Error::Device("no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES may hide it)".into()).or(Remedy::Cpu)
}

impl Properties {
    pub(super) fn of(device: sys::CUdevice) -> Result<Self, DriverError> {
        use sys::CUdevice_attribute_enum as Attribute;
        // SAFETY: the device is there.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Self {
            name: result::device::get_name(device)?,
            capability: (10 * major + minor) as u32,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as u32,
            // SAFETY: the device is there.
            total_bytes: unsafe { result::device::total_mem(device)? },
            driver: driver_version()?,
        })
    }
}

/// The name of a driver error.
pub fn name(error: DriverError) -> String {
    let name = error.error_name().ok().and_then(|name| name.to_str().ok());
    name.map_or_else(|| format!("error {}", error.0 as i32), str::to_owned)
}

//! From what a user asks for to an engine.

use std::fmt;
use std::str::FromStr;

use super::cpu::CpuEngine;
use super::cuda::{self, CudaEngine};
use super::{Engine, Precision, SeveralEngines};
use crate::{Error, Result};

/// Which device computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The first GPU if it is usable, else the CPU
    #[default]
    Auto,
    Cpu,
    /// GPUs by number, which share the work
    Cuda(Vec<usize>),
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::setting(
                "device",
                format!("{text}: use auto, cpu, cuda, cuda:N or several like cuda:0,1"),
            )
        };
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(vec![0])),
            _ => {
                let list = text.strip_prefix("cuda:").ok_or_else(bad)?;
                let numbers = list.split(',').map(|n| n.parse::<usize>().map_err(|_| bad()));
                let numbers = numbers.collect::<Result<Vec<_>>>()?;
                match numbers.iter().enumerate().find(|(i, n)| numbers[..*i].contains(n)) {
                    Some((_, n)) => Err(Error::setting("device", format!("{text}: GPU {n} is named twice"))),
                    None => Ok(Self::Cuda(numbers)),
                }
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

/// An engine, and why it is not the one that `auto` might have been expected to find.
pub struct Opened {
    pub engine: Box<dyn Engine>,
    pub note: Option<String>,
}

/// Opens what was asked for. Without a precision the CPU takes fp32 and a GPU the fastest that keeps the quality: see
/// [`cuda::DEFAULT_PRECISION`]. The CPU gains nothing by another one, and rounds as a GPU would.
///
/// # Errors
/// [`Error::Device`] if a GPU was asked for by name and cannot be used, with the reason.
pub fn open(device: &Device, precision: Option<Precision>, threads: usize) -> Result<Opened> {
    let cpu = |note: Option<String>| {
        Ok(Opened {
            engine: Box::new(CpuEngine::new(threads).rounding(precision.unwrap_or_default())) as Box<dyn Engine>,
            note,
        })
    };
    match device {
        Device::Cpu => cpu(None),
        Device::Auto if !cuda::driver_is_installed() => cpu(None),
        Device::Auto => match CudaEngine::new(0, precision) {
            Ok(engine) => Ok(Opened {
                engine: Box::new(engine),
                note: None,
            }),
            Err(reason) => cpu(Some(format!("computing on the CPU: {reason}"))),
        },
        Device::Cuda(numbers) => {
            let open = |&n: &usize| CudaEngine::new(n, precision).map(|e| Box::new(e) as Box<dyn Engine>);
            let mut engines = numbers.iter().map(open).collect::<Result<Vec<_>>>()?;
            let engine = match engines.len() {
                1 => engines.remove(0),
                _ => Box::new(SeveralEngines::new(engines)),
            };
            Ok(Opened { engine, note: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_shown() {
        for text in ["auto", "cpu", "cuda:0", "cuda:3,1"] {
            assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(vec![0]));
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:0,", "cuda:1,1", "cuda:-1"] {
            assert!(text.parse::<Device>().is_err(), "{text}");
        }
    }
}

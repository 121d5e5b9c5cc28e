//! The kernels as the driver gets them: PTX, which it compiles, or machine code where it does not.
//!
//! PTX comes first: it is what the emulator executes in every test, and a driver knows its GPU better than we do. Machine
//! code is for containers that have the driver without its compiler, and for drivers older than the PTX.

use std::ffi::{CString, c_void};
use std::fmt;
use std::io::Read;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use flate2::read::GzDecoder;

use super::driver::{Device, name};

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// For this architecture and later ones
    Ptx(u32),
    /// For this architecture and later minor ones
    MachineCode(u32),
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ptx(sm) => write!(f, "PTX for sm_{sm}, compiled by the driver"),
            Self::MachineCode(sm) => write!(f, "machine code for sm_{sm}, because the driver refused our PTX"),
        }
    }
}

impl Image {
    /// The PTX for a GPU, whose compute capability is at least 7.0.
    pub fn ptx(capability: u32) -> Self {
        Self::Ptx(if capability < 80 { 70 } else { 80 })
    }

    /// The machine code that a GPU of this compute capability executes, if we have some.
    fn machine_code(capability: u32) -> Option<Self> {
        let fits = |sm: &u32| sm / 10 == capability / 10 && *sm <= capability;
        let fitting = qcs_kernels::CUBINS.iter().map(|(sm, _)| *sm).filter(fits);
        fitting.max().map(Self::MachineCode)
    }

    /// The names of the kernels for a GPU.
    pub fn kernels(capability: u32) -> Vec<&'static str> {
        let entries = text(capability).split(".entry ").skip(1);
        entries.filter_map(|rest| rest.split('(').next()).collect()
    }

    /// As the driver takes it: text that ends with NUL, or an ELF file.
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Ptx(sm) => CString::new(text(sm)).expect("PTX has no NUL").into_bytes_with_nul(),
            Self::MachineCode(sm) => {
                let packed = qcs_kernels::CUBINS.iter().find(|(of, _)| *of == sm);
                let mut bytes = Vec::new();
                let read = packed.map(|(_, packed)| GzDecoder::new(*packed).read_to_end(&mut bytes));
                assert!(matches!(read, Some(Ok(_))), "the committed machine code is a gzip file");
                bytes
            }
        }
    }
}

fn text(capability: u32) -> &'static str {
    if capability < 80 {
        qcs_kernels::PTX_SM_70
    } else {
        qcs_kernels::PTX_SM_80
    }
}

/// Why the driver refuses an image, and what its compiler says of it.
pub struct Refusal {
    image: Image,
    error: DriverError,
    log: String,
}

/// Loads the PTX into the current context, or else the machine code for the GPU.
///
/// # Errors
/// All refusals, in order.
pub fn load(ptx: Image, capability: u32) -> Result<(sys::CUmodule, Image), Vec<Refusal>> {
    let mut refusals = Vec::new();
    for image in [Some(ptx), Image::machine_code(capability)].into_iter().flatten() {
        match load_image(image) {
            Ok(module) => return Ok((module, image)),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(refusals)
}

/// Room for each of the compiler's logs.
const LOG_BYTES: usize = 8 << 10;

/// Loads one image. cudarc's own call has no room for the compiler's words.
fn load_image(image: Image) -> Result<sys::CUmodule, Refusal> {
    use sys::CUjit_option_enum as Jit;
    let mut logs = [vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]];
    let [errors, notes] = logs.each_mut().map(|log| log.as_mut_ptr().cast::<c_void>());
    let room = std::ptr::without_provenance_mut(LOG_BYTES);
    let mut options = [
        Jit::CU_JIT_ERROR_LOG_BUFFER,
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_INFO_LOG_BUFFER,
        Jit::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [errors, room, notes, room];
    let mut module = std::ptr::null_mut();
    let bytes = image.bytes();
    // SAFETY: PTX, ended by NUL, or a whole ELF file; as many values as options, and the logs are as large as is said.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            bytes.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.result().map(|()| module).map_err(|error| Refusal {
        image,
        error,
        log: logs.iter().flat_map(|log| words(log)).collect::<Vec<_>>().join("; "),
    })
}

/// The lines of a log that ends with its first NUL.
fn words(log: &[u8]) -> Vec<String> {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// The refusals in one line, and what to do.
pub fn explained(refusals: &[Refusal], device: &Device) -> String {
    let mut text = String::new();
    for refusal in refusals {
        let what_to_do = match refusal.error.0 {
            sys::CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => {
                "the driver's PTX compiler, libnvidia-ptxjitcompiler.so.1, is not installed; the CPU works".to_owned()
            }
            sys::CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED => "unset CUDA_DISABLE_PTX_JIT".to_owned(),
            _ if refusal.log.is_empty() => "the compiler says no more".to_owned(),
            _ => format!("the compiler says: {}", refusal.log),
        };
        text += &match refusal.image {
            Image::Ptx(_) => format!("{}; {what_to_do}", device.failed("load the kernels", refusal.error)),
            Image::MachineCode(sm) => {
                format!("; machine code for sm_{sm} is refused too: {}", name(refusal.error))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_gets_machine_code_of_its_own_generation_or_none() {
        let code = |capability| Image::machine_code(capability);
        if qcs_kernels::CUBINS.is_empty() {
            // Kernels that were changed since the machine code was made: the build has warned.
            return;
        }
        assert_eq!(code(70), Some(Image::MachineCode(70)));
        assert_eq!(code(72), Some(Image::MachineCode(70)));
        assert_eq!(code(87), Some(Image::MachineCode(86)));
        assert_eq!(code(90), Some(Image::MachineCode(90)));
        assert_eq!(code(120), None);
        for (sm, _) in qcs_kernels::CUBINS {
            let bytes = Image::MachineCode(*sm).bytes();
            // An ELF file, whose flags begin with the architecture.
            assert_eq!((&bytes[..4], u32::from(bytes[48])), (&b"\x7fELF"[..], *sm));
        }
    }

    #[test]
    fn kernels_are_listed_by_their_names() {
        let (volta, ampere) = (Image::kernels(70), Image::kernels(86));
        assert!(volta.contains(&"conv_f16_64x64") && volta.contains(&"advance_step"));
        assert!(ampere.contains(&"conv_tf32_64x64") && !volta.contains(&"conv_tf32_64x64"));
        assert!(
            volta
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        );
    }
}

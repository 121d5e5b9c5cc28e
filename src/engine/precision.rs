//! In which precision the network multiplies.

use std::fmt;
use std::str::FromStr;

use qcs_kernels::network::conv::rounding::Rounding;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What the inner convolutions of the network round their inputs and weights to; sums are f32. EP is f64 and the Langevin
/// step f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Hash)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    #[default]
    Fp32,
    /// 11 bits, the range of f32; tensor cores of compute capability 8.0
    Tf32,
    /// 11 bits, up to 65504; tensor cores of compute capability 7.0
    Fp16,
    /// 8 bits, the range of f32; AVX-512 BF16. Rounded are the transformed inputs and filters of layers that go through Winograd's
    /// algorithm, the others stay in f32.
    Bf16,
}

impl Precision {
    pub const ALL: [Self; 4] = [Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16];

    /// What a convolution between so many channels multiplies, where that is not f32.
    ///
    /// The first and the last layer stay in f32: they are a hundredth of the work, the one sees noise of any size, and the
    /// other would leave most of a tensor-core tile empty.
    pub fn of_conv(self, inputs: usize, outputs: usize) -> Option<Rounding> {
        match self {
            Self::Tf32 if is_inner(inputs, outputs) => Some(Rounding::Tf32),
            Self::Fp16 if is_inner(inputs, outputs) => Some(Rounding::F16),
            _ => None,
        }
    }

    /// Whether a GPU of this compute capability (80 for 8.0) multiplies so.
    pub fn on_gpu(self, capability: u32) -> bool {
        match self {
            Self::Fp32 | Self::Fp16 => true,
            Self::Tf32 => capability >= 80,
            Self::Bf16 => false,
        }
    }

    /// Whether such a convolution multiplies in bf16 where it goes through Winograd's algorithm.
    pub fn is_bf16(self, inputs: usize, outputs: usize) -> bool {
        self == Self::Bf16 && is_inner(inputs, outputs)
    }
}

fn is_inner(inputs: usize, outputs: usize) -> bool {
    inputs >= 8 && outputs >= 8
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|p| p.to_string() == text);
        known.ok_or_else(|| Error::usage(format!("{text} is no precision: fp32, tf32, fp16 or bf16")))
    }
}

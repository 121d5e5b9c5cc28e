//! What a value passes on its way into a layer, behind its norm if it has one.

use super::elu::elu;

/// The function; a kernel gets its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    /// The value itself
    Identity = 0,
    /// [`elu`](super::elu)
    Elu = 1,
    /// x·sigmoid(x)
    Silu = 2,
    /// max(x, 0)
    Relu = 3,
}

impl Function {
    /// The function of a code; of an unknown one, the last.
    #[inline(always)]
    pub const fn of(code: u32) -> Self {
        match code {
            0 => Self::Identity,
            1 => Self::Elu,
            2 => Self::Silu,
            _ => Self::Relu,
        }
    }

    /// What a kernel gets.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Of a value.
    #[inline(always)]
    pub fn at(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Elu => elu(x),
            Self::Silu => silu(x),
            // In this order a NaN passes.
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
        }
    }
}

/// x·sigmoid(x), correctly rounded but for one unit in the last place.
#[cfg(not(target_arch = "nvptx64"))]
pub fn silu(x: f32) -> f32 {
    let x = f64::from(x);
    (x / (1.0 + (-x).exp())) as f32
}

/// On the device, with a relative error below 1e-6: e^−|x| is at most 1, so nothing overflows.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    let small = crate::device::exp2(-x.abs() * core::f32::consts::LOG2_E);
    let numerator = if x > 0.0 { x } else { x * small };
    numerator / (1.0 + small)
}

//! Numbers as the tensor cores take them.

/// What the tensor cores multiply; they always add in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// IEEE half precision: 11 bits, up to 65504.
    F16,
    /// f32 with 11 bits; compute capability 8.0 and later.
    Tf32,
}

impl Rounding {
    /// As argument structs carry it.
    pub const fn code(self) -> u32 {
        match self {
            Self::F16 => 16,
            Self::Tf32 => 19,
        }
    }

    /// Channels of a *unit*, the depth of one matrix instruction: 32 bytes.
    pub const fn unit(self) -> usize {
        match self {
            Self::F16 => 16,
            Self::Tf32 => 8,
        }
    }

    /// Units that hold so many channels.
    pub const fn units(self, channels: usize) -> usize {
        channels.div_ceil(self.unit())
    }
}

/// The nearest TF32 number, ties away from zero, as `cvt.rna.tf32.f32` gives it.
#[inline(always)]
pub fn tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    if bits & 0x7f80_0000 == 0x7f80_0000 {
        return x;
    }
    f32::from_bits(bits.wrapping_add(0x1000) & !0x1fff)
}

/// The bits of the nearest half-precision number, ties to even.
#[cfg(not(target_arch = "nvptx64"))]
pub fn f16_bits(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = x.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    // 65520 is half way from the largest number to the one that would follow it.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // Below 2⁻¹⁴ numbers are multiples of 2⁻²⁴; above, of the exponent's spacing. Adding a number with that spacing
    // rounds to it, ties to even.
    let exponent = (magnitude.to_bits() >> 23).max(113);
    let spacing = f32::from_bits((exponent + 13) << 23);
    let rounded = (magnitude + spacing) - spacing;
    if rounded < f32::from_bits(113 << 23) {
        return sign | (rounded * 16_777_216.0) as u16;
    }
    let bits = rounded.to_bits();
    sign | (((bits >> 23) - 112) << 10 | bits >> 13 & 0x3ff) as u16
}

/// The value of half-precision bits.
#[cfg(not(target_arch = "nvptx64"))]
pub fn f16_value(bits: u16) -> f32 {
    let (sign, exponent, mantissa) = (bits >> 15, u32::from(bits >> 10 & 31), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa as f32 / 16_777_216.0,
        31 if mantissa == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => f32::from_bits((exponent + 112) << 23 | mantissa << 13),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The value that a number becomes.
#[cfg(not(target_arch = "nvptx64"))]
pub fn round(precision: Rounding, x: f32) -> f32 {
    match precision {
        Rounding::F16 => f16_value(f16_bits(x)),
        Rounding::Tf32 => tf32(x),
    }
}

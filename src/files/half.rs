//! Numbers of 16 bits: IEEE's half precision and bfloat16. Files hold them; nothing here computes with them.
//!
//! The crate `half` would bring zerocopy and its derive, twelve seconds of the build, for these conversions; the tests
//! compare with it.

/// IEEE 754's binary16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16(pub u16);

impl F16 {
    pub fn from_le_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_le_bytes(bytes))
    }

    pub fn from_be_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }

    pub fn to_le_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    pub fn is_finite(self) -> bool {
        self.0 & 0x7c00 != 0x7c00
    }

    /// Exact; a signalling NaN becomes a quiet one.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let (exponent, fraction) = (u32::from(self.0 >> 10 & 0x1f), u32::from(self.0 & 0x3ff));
        let magnitude = match exponent {
            // Subnormal: a multiple of 2⁻²⁴, which f32 holds exactly.
            0 => (fraction as f32 / 16_777_216.0).to_bits(),
            31 if fraction == 0 => 0x7f80_0000,
            31 => 0x7fc0_0000 | fraction << 13,
            _ => (exponent + 127 - 15) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }

    /// Rounded to the nearest, ties to even; beyond 65504 infinity.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        let rounded = if magnitude > 0x7f80_0000 {
            // NaN keeps what fits of its payload, and is quiet.
            0x7e00 | (magnitude >> 13 & 0x3ff) as u16
        } else if magnitude >= 0x4780_0000 {
            // 65536 and beyond.
            0x7c00
        } else if magnitude < 0x3880_0000 {
            // Below 2⁻¹⁴: a multiple of 2⁻²⁴. Adding 2⁻¹ leaves exactly these bits, rounded by the addition.
            (f32::from_bits(magnitude) + 0.5).to_bits() as u16
        } else {
            let even = magnitude >> 13 & 1;
            // A carry moves into the exponent, as it should.
            ((magnitude + 0xfff + even) >> 13).wrapping_sub((127 - 15) << 10) as u16
        };
        Self(sign | rounded)
    }
}

/// The upper half of an f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16(pub u16);

impl Bf16 {
    pub fn from_le_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_le_bytes(bytes))
    }

    pub fn from_be_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }

    /// Exact.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_16_bits_is_the_one_that_the_half_crate_reads() {
        for bits in 0..=u16::MAX {
            let ours = (F16(bits).to_f32(), Bf16(bits).to_f32());
            let theirs = (
                half::f16::from_bits(bits).to_f32(),
                half::bf16::from_bits(bits).to_f32(),
            );
            if theirs.0.is_nan() {
                assert!(ours.0.is_nan(), "{bits:#x}");
            } else {
                assert_eq!(ours.0.to_bits(), theirs.0.to_bits(), "{bits:#x}");
                assert_eq!(F16::from_f32(ours.0), F16(bits));
            }
            assert_eq!(F16(bits).is_finite(), half::f16::from_bits(bits).is_finite());
            assert!(ours.1.to_bits() == theirs.1.to_bits() || theirs.1.is_nan() && ours.1.is_nan());
        }
    }

    #[test]
    fn rounding_is_that_of_the_half_crate() {
        // Every upper half of an f32, with lower halves around the ties of every exponent.
        for upper in 0..=u16::MAX {
            for lower in [
                0, 1, 0x0fff, 0x1000, 0x1001, 0x2000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff,
            ] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let (ours, theirs) = (F16::from_f32(value), half::f16::from_f32(value));
                let same = ours.0 == theirs.to_bits() || theirs.is_nan() && ours.to_f32().is_nan();
                assert!(same, "{value:e}: {:#x}, not {:#x}", ours.0, theirs.to_bits());
            }
        }
    }
}

//! Quick conversions of the short formats, to nearest even. The exact module covers the other modes.

/// Every f16 is an f32.
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = (bits as u32 & 0x8000) << 16;
    let magnitude = (bits & 0x7fff) as u32;
    let value = match magnitude >> 10 {
        0 => (magnitude as f32 * 2f32.powi(-24)).to_bits(),
        31 => 0x7f80_0000 | (magnitude & 0x3ff) << 13,
        _ => (magnitude << 13) + (112 << 23),
    };
    f32::from_bits(sign | value)
}

pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    // Below 2^-14 results are subnormal: adding 0.5 aligns the last place of f16 with that of f32.
    if magnitude < 113 << 23 {
        return sign
            | (f32::from_bits(magnitude) + 0.5)
                .to_bits()
                .wrapping_sub(0.5f32.to_bits()) as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    sign | ((rounded - (112 << 23)) >> 13).min(0x7c00) as u16
}

/// Rounds a double once (not through f32), which makes f16 `fma` computed in f64 correct.
pub fn f64_to_f16(x: f64) -> u16 {
    let nearest = x as f32;
    if nearest as f64 == x || x.is_nan() {
        return f32_to_f16(nearest);
    }
    // Round to odd in f32: a tie of the second rounding can then only be a true tie.
    let truncated = if nearest.is_infinite() {
        f32::MAX.copysign(nearest)
    } else if (nearest as f64).abs() > x.abs() {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    };
    f32_to_f16(f32::from_bits(truncated.to_bits() | 1))
}

pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

pub fn f32_to_bf16(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fff;
    }
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// What a tensor core reads of a TF32 operand: the low 13 bits are ignored.
pub fn tf32_operand(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}

#[cfg(test)]
mod tests {
    use super::super::exact::{self, BF16, F16, F32, F64, Rounding};
    use super::*;

    fn exact_f16(x: f32) -> u16 {
        exact::encode(exact::decode(x.to_bits() as u64, F32), F16, Rounding::Nearest) as u16
    }

    #[test]
    fn every_f16_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let x = f16_to_f32(bits);
            if x.is_nan() {
                assert_eq!(f32_to_f16(x), 0x7fff);
            } else {
                assert_eq!(f32_to_f16(x), bits, "{bits:#x}");
                assert_eq!(f64_to_f16(x as f64), bits);
            }
        }
    }

    #[test]
    fn known_halves() {
        assert_eq!(f16_to_f32(0x3c00), 1.0);
        assert_eq!(f16_to_f32(0x7bff), 65504.0);
        assert_eq!(f16_to_f32(0x0001), 5.960_464_5e-8);
        assert_eq!(f16_to_f32(0xc000), -2.0);
        assert_eq!(f32_to_f16(65519.99), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_bf16(1.0), 0x3f80);
        assert_eq!(
            f32_to_bf16(1.003_906_4),
            0x3f81,
            "just above the tie between 3f80 and 3f81"
        );
    }

    #[test]
    fn quick_conversions_agree_with_exact_rounding() {
        // Every 1009th f32, which visits all exponents and both sides of ties.
        for bits in (0..=u32::MAX).step_by(1009) {
            let x = f32::from_bits(bits);
            assert_eq!(f32_to_f16(x), exact_f16(x), "{x:e}");
            let bf = exact::encode(exact::decode(bits as u64, F32), BF16, Rounding::Nearest) as u16;
            assert_eq!(f32_to_bf16(x), bf, "{x:e}");
        }
    }

    #[test]
    fn a_double_is_rounded_once() {
        // One half-ulp of f16 above 1 plus a crumb that f32 would lose.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f64_to_f16(x), 0x3c01);
        assert_eq!(f32_to_f16(x as f32), 0x3c00);
        for bits in (0..u64::MAX - (1 << 52)).step_by(1 << 50) {
            let x = f64::from_bits(bits + 0x1234_5678_9abc);
            let expected = exact::encode(exact::decode(x.to_bits(), F64), F16, Rounding::Nearest) as u16;
            assert_eq!(f64_to_f16(x), expected, "{x:e}");
        }
    }
}

//! Numbers in PTX text and the bits they stand for in a typed operand.

use crate::ir::Type;
use crate::number::half;

/// Decimal, hexadecimal, binary and octal integers, with or without the `U` suffix.
pub fn integer(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches('U');
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    i128::from_str_radix(digits, radix).ok()
}

/// A floating-point literal: `0f`/`0d` bit patterns or decimal with a point or exponent.
fn float(text: &str) -> Option<f64> {
    match text.as_bytes() {
        [b'0', b'f' | b'F', ..] if text.len() == 10 => u32::from_str_radix(&text[2..], 16)
            .ok()
            .map(|b| f32::from_bits(b) as f64),
        [b'0', b'd' | b'D', ..] if text.len() == 18 => u64::from_str_radix(&text[2..], 16).ok().map(f64::from_bits),
        [b'0', b'x' | b'X', ..] => None,
        _ if text.contains(['.', 'e', 'E']) => text.parse().ok(),
        _ => None,
    }
}

/// The bits of a literal in an operand or initialiser of type `ty`.
pub fn bits(text: &str, negative: bool, ty: Type) -> Option<u64> {
    if let Some(exact) = bit_pattern(text, ty) {
        let sign = 1u64 << (ty.bits() - 1);
        return Some(if negative { exact ^ sign } else { exact });
    }
    if let Some(value) = float(text) {
        return Some(float_bits(if negative { -value } else { value }, ty));
    }
    let value = integer(text)?;
    let value = if negative { -value } else { value };
    Some(if ty.is_float() && !text.starts_with("0x") {
        float_bits(value as f64, ty)
    } else {
        value as u64 & ty.mask()
    })
}

/// `0f…` in a 32-bit and `0d…` in a 64-bit operand are bits: going through a value would quiet NaNs.
fn bit_pattern(text: &str, ty: Type) -> Option<u64> {
    let wanted = match ty.bytes() {
        4 => 10,
        8 => 18,
        _ => return None,
    };
    let prefix = if wanted == 10 { ["0f", "0F"] } else { ["0d", "0D"] };
    if text.len() != wanted || !prefix.iter().any(|p| text.starts_with(p)) {
        return None;
    }
    u64::from_str_radix(&text[2..], 16).ok()
}

fn float_bits(value: f64, ty: Type) -> u64 {
    match ty {
        Type::F64 | Type::B64 | Type::U64 | Type::S64 => value.to_bits(),
        Type::F16 | Type::B16 | Type::U16 => half::f64_to_f16(value) as u64,
        Type::BF16 => half::f32_to_bf16(value as f32) as u64,
        _ => (value as f32).to_bits() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_the_bits_of_their_type() {
        assert_eq!(bits("0f3F800000", false, Type::F32), Some(0x3f80_0000));
        assert_eq!(bits("0f3F800000", true, Type::B32), Some(0xbf80_0000));
        assert_eq!(bits("0d3FF0000000000000", false, Type::F64), Some(1f64.to_bits()));
        assert_eq!(bits("0f3F800000", false, Type::F64), Some(1f64.to_bits()));
        assert_eq!(bits("1.5", false, Type::F32), Some(1.5f32.to_bits() as u64));
        assert_eq!(bits("1", true, Type::S32), Some(0xffff_ffff));
        assert_eq!(bits("0x3C00", false, Type::F16), Some(0x3c00));
        assert_eq!(bits("1", true, Type::B64), Some(u64::MAX));
        assert_eq!(bits("nonsense", false, Type::B32), None);
    }

    #[test]
    fn integers_come_in_four_bases() {
        assert_eq!(
            ["10", "0x10", "0b10", "010", "7U"].map(integer),
            [10, 16, 2, 8, 7].map(Some)
        );
    }
}

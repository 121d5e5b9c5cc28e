//! Rounding to the numbers of the tensor cores.

use qcs_kernels::network::conv::rounding::{f16_bits, f16_value, tf32};

#[test]
fn every_half_is_its_own_nearest() {
    for bits in 0..=u16::MAX {
        let value = f16_value(bits);
        if value.is_nan() {
            assert!(f16_value(f16_bits(value)).is_nan());
        } else {
            assert_eq!(f16_bits(value), bits, "{value}");
        }
    }
}

#[test]
fn a_number_between_two_halves_goes_to_the_nearer_and_a_tie_to_the_even() {
    for bits in 0..0x7bffu16 {
        let (low, high) = (f16_value(bits), f16_value(bits + 1));
        let middle = (low + high) / 2.0;
        let even = if bits % 2 == 0 { bits } else { bits + 1 };
        assert_eq!(f16_bits(middle), even);
        assert_eq!(f16_bits(middle.next_down()), bits);
        assert_eq!(f16_bits(middle.next_up()), bits + 1);
        assert_eq!(f16_bits(-middle), even | 0x8000);
    }
}

#[test]
fn halves_end_at_65504() {
    assert_eq!(f16_value(f16_bits(65519.996)), 65504.0);
    assert_eq!(f16_value(f16_bits(65520.0)), f32::INFINITY);
    assert_eq!(f16_value(f16_bits(f32::NEG_INFINITY)), f32::NEG_INFINITY);
}

#[test]
fn tf32_keeps_eleven_bits_and_rounds_ties_away_from_zero() {
    let ulp = 1.0 / 1024.0;
    assert_eq!(tf32(1.0 + ulp), 1.0 + ulp);
    assert_eq!(tf32(1.0 + 0.5 * ulp), 1.0 + ulp);
    assert_eq!(tf32(-1.0 - 0.5 * ulp), -1.0 - ulp);
    assert_eq!(tf32((1.0 + 0.5 * ulp).next_down()), 1.0);
    assert_eq!(tf32(f32::INFINITY), f32::INFINITY);
    assert!(tf32(f32::NAN).is_nan());
    for exponent in -120..120 {
        let x = 1.2345678f32 * 2f32.powi(exponent);
        assert!((tf32(x) - x).abs() <= x * ulp / 2.0);
    }
}

//! What a multiprocessor can do in a clock, by NVIDIA's white papers.

use crate::engine::Precision;

/// Floating-point operations of a multiprocessor in a clock, sums in f32, no sparsity; `None` for an architecture that is not
/// known here. GeForce cards have half of the tensor cores' figures of 7.5, 8.6, 8.9 and 12.0.
pub fn flop_per_clock(capability: u32, precision: Precision) -> Option<u32> {
    let (single, half) = match capability {
        70 | 75 => (128, 1024),
        80 => (128, 2048),
        86 | 89 | 120 => (256, 1024),
        90 => (256, 4096),
        100 => (256, 8192),
        _ => return None,
    };
    match precision {
        Precision::Fp32 => Some(single),
        Precision::Fp16 => Some(half),
        Precision::Tf32 if capability >= 80 => Some(half / 2),
        Precision::Tf32 | Precision::Bf16 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_clocks_and_multiprocessors_they_are_the_published_peaks() {
        let tera = |capability, precision, multiprocessors: u32, gigahertz: f64| {
            let per_clock = flop_per_clock(capability, precision).unwrap();
            f64::from(per_clock * multiprocessors) * gigahertz / 1e3
        };
        for (computed, published) in [
            (tera(70, Precision::Fp32, 80, 1.53), 15.7),
            (tera(70, Precision::Fp16, 80, 1.53), 125.0),
            // T4
            (tera(75, Precision::Fp16, 40, 1.59), 65.0),
            (tera(80, Precision::Tf32, 108, 1.41), 156.0),
            (tera(80, Precision::Fp16, 108, 1.41), 312.0),
            // A40
            (tera(86, Precision::Fp32, 84, 1.74), 37.4),
            (tera(86, Precision::Fp16, 84, 1.74), 149.7),
            // L40S
            (tera(89, Precision::Fp32, 142, 2.52), 91.6),
            (tera(89, Precision::Fp16, 142, 2.52), 362.0),
            // H100 SXM
            (tera(90, Precision::Fp16, 132, 1.83), 989.4),
            // B200
            (tera(100, Precision::Fp16, 148, 1.85), 2250.0),
            // RTX PRO 6000 Blackwell
            (tera(120, Precision::Fp32, 188, 2.617), 126.0),
            (tera(120, Precision::Fp16, 188, 2.617), 503.8),
        ] {
            assert!(
                (computed / published - 1.0f64).abs() < 0.02,
                "{computed} for {published}"
            );
        }
        assert_eq!(flop_per_clock(75, Precision::Tf32), None);
        assert_eq!(flop_per_clock(61, Precision::Fp32), None);
    }
}

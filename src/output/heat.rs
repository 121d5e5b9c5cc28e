//! A perceptual heat map from black through violet and orange to pale yellow.

use super::picture::Colour;

/// Matplotlib's "inferno" at nine evenly spaced values; between them it is close to linear.
const STOPS: [[u8; 3]; 9] = [
    [0, 0, 4],
    [33, 12, 74],
    [86, 16, 110],
    [137, 34, 106],
    [187, 55, 84],
    [227, 89, 50],
    [249, 140, 10],
    [249, 201, 50],
    [252, 255, 164],
];

/// The colour of a value; outside [0, 1] that of the nearest end, NaN as 0.
pub(super) fn colour(value: f32) -> Colour {
    let position = value.clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    // A cast takes NaN to 0.
    let below = (position as usize).min(STOPS.len() - 2);
    let share = (position - below as f32).max(0.0);
    std::array::from_fn(|channel| {
        let (low, high) = (STOPS[below][channel], STOPS[below + 1][channel]);
        (f32::from(low) + share * (f32::from(high) - f32::from(low))).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_rises_with_the_value() {
        let lightness = |value: f32| {
            let [r, g, b] = colour(value);
            0.2126 * f32::from(r) + 0.7152 * f32::from(g) + 0.0722 * f32::from(b)
        };
        for step in 0..100 {
            assert!(lightness(step as f32 / 100.0) < lightness((step + 1) as f32 / 100.0));
        }
    }

    #[test]
    fn values_outside_the_range_take_the_ends() {
        assert_eq!(colour(-3.0), STOPS[0]);
        assert_eq!(colour(f32::NAN), STOPS[0]);
        assert_eq!(colour(7.0), STOPS[8]);
    }
}

//! Mean and standard error of a metric over images.

/// A metric over several images, as it is reported: mean ± standard error.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Infinite where one image is (its PSNR is, if it equals the truth), NaN where one is NaN.
    #[serde(with = "super::number")]
    pub mean: f64,
    /// sd/√n with n − 1 in the variance; `None` for a single image or a mean that is not finite.
    pub standard_error: Option<f64>,
    /// Number of images.
    pub count: usize,
}

impl Summary {
    /// `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean = values.iter().sum::<f64>() / n;
        let standard_error = (count > 1 && mean.is_finite()).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (n - 1.0) / n).sqrt()
        });
        Some(Self {
            mean,
            standard_error,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_error_is_the_sample_deviation_over_root_n() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((summary.mean, summary.count), (2.5, 4));
        let expected = (5.0f64 / 3.0).sqrt() / 2.0;
        assert!((summary.standard_error.unwrap() - expected).abs() < 1e-15);
    }

    #[test]
    fn one_image_has_a_mean_but_no_error_and_none_has_nothing() {
        assert_eq!(
            Summary::of(&[3.0]),
            Some(Summary {
                mean: 3.0,
                standard_error: None,
                count: 1
            })
        );
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn an_infinite_value_makes_the_mean_infinite_and_the_error_unknown() {
        let summary = Summary::of(&[20.0, f64::INFINITY]).unwrap();
        assert_eq!((summary.mean, summary.standard_error), (f64::INFINITY, None));
        assert!(Summary::of(&[20.0, f64::NAN]).unwrap().mean.is_nan());
    }
}

//! What a measurement is, inside and on disk: the interval in which A·x + n lies.

use crate::error::{Error, Result};

/// The intervals `[lower, upper)` of B images with M measurements each, row-major `[B, M]`.
///
/// Every interval holds `lower < upper`; −inf and +inf are legal, and (−inf, +inf) is a lost
/// measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    m: usize,
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Cells {
    /// Takes `lower` and `upper`, both `[B, M]`.
    ///
    /// # Errors
    /// [`Error::Usage`] if M or B is 0, if the lengths are not the same multiple of M, or, naming
    /// the image and the measurement, if a bound is NaN or a cell is empty (lower ≥ upper).
    pub fn new(m: usize, lower: Vec<f64>, upper: Vec<f64>) -> Result<Self> {
        if m == 0 || lower.is_empty() {
            return Err(Error::usage("there are no measurements: lower and upper are empty"));
        }
        if lower.len() != upper.len() || !lower.len().is_multiple_of(m) {
            return Err(Error::usage(format!(
                "lower and upper hold {} and {} bounds: both need the same multiple of M = {m}",
                lower.len(),
                upper.len()
            )));
        }
        // NaN fails every comparison; +inf below and −inf above leave nothing between.
        let empty = lower
            .iter()
            .zip(&upper)
            .position(|(lo, up)| lo.partial_cmp(up) != Some(std::cmp::Ordering::Less));
        if let Some(i) = empty {
            return Err(Error::usage(format!(
                "measurement {} of image {} is the empty cell [{}, {}): lower must be below upper (-inf and inf are allowed)",
                i % m,
                i / m,
                lower[i],
                upper[i]
            )));
        }
        Ok(Self { m, lower, upper })
    }

    /// The cells of signs, `[B, M]`: 0 and more count as positive.
    ///
    /// # Errors
    /// As [`Cells::new`], and if a sign is NaN.
    pub fn from_signs(m: usize, signs: &[f64]) -> Result<Self> {
        if let Some(at) = signs.iter().position(|sign| sign.is_nan()) {
            return Err(Error::usage(format!("sign {at} is not a number")));
        }
        let codes: Vec<usize> = signs.iter().map(|&sign| usize::from(sign >= 0.0)).collect();
        Self::from_codes(m, &codes, &[0.0])
    }

    /// The cells of a quantiser of your own: `codes`, `[B, M]`, count how many of the rising `thresholds` a value has reached.
    ///
    /// ```
    /// let cells = qcs::Cells::from_codes(3, &[0, 1, 2], &[-0.5, 0.5])?;
    /// assert_eq!(cells.image(0).0[1..], [-0.5, 0.5]);
    /// # Ok::<(), qcs::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cells::new`], if the thresholds do not rise, or if there is no such code.
    pub fn from_codes(m: usize, codes: &[usize], thresholds: &[f64]) -> Result<Self> {
        if thresholds.is_empty() || !thresholds.iter().all(|t| t.is_finite()) || !thresholds.is_sorted_by(|a, b| a < b)
        {
            return Err(Error::usage(
                "the quantiser's thresholds must be finite numbers that rise",
            ));
        }
        if let Some(at) = codes.iter().position(|&code| code > thresholds.len()) {
            let (code, most) = (codes[at], thresholds.len());
            return Err(Error::usage(format!(
                "code {at} is {code}, but {most} thresholds have the codes 0 to {most}"
            )));
        }
        let below = |code: &usize| code.checked_sub(1).map_or(f64::NEG_INFINITY, |k| thresholds[k]);
        let above = |code: &usize| thresholds.get(*code).copied().unwrap_or(f64::INFINITY);
        Self::new(m, codes.iter().map(below).collect(), codes.iter().map(above).collect())
    }

    /// M, the number of measurements of one image.
    pub fn m(&self) -> usize {
        self.m
    }

    /// B, the number of images.
    pub fn count(&self) -> usize {
        self.lower.len() / self.m
    }

    /// All lower bounds, `[B, M]`.
    pub fn lower(&self) -> &[f64] {
        &self.lower
    }

    /// All upper bounds, `[B, M]`.
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }

    /// Whether nothing but signs was kept: every cell ends at 0 and nowhere else, but for lost ones. They do not tell how much
    /// contrast an image has.
    pub fn are_signs(&self) -> bool {
        let is_sign = |(&lower, &upper): (&f64, &f64)| {
            let ends = [lower, upper].map(|end| if end.is_infinite() { 0.0 } else { end });
            ends == [0.0; 2] && (lower.is_infinite() || upper.is_infinite())
        };
        self.lower.iter().zip(&self.upper).all(is_sign)
    }

    /// Whether a measurement is lost in every image.
    pub(super) fn is_lost(&self, measurement: usize) -> bool {
        let of = |bounds: &[f64], end: f64| {
            bounds
                .iter()
                .skip(measurement)
                .step_by(self.m)
                .all(|&bound| bound == end)
        };
        of(&self.lower, f64::NEG_INFINITY) && of(&self.upper, f64::INFINITY)
    }

    /// Whether a measurement's cell is a half-line, or wider than this, in any image; a lost one says nothing.
    pub(super) fn is_coarse(&self, measurement: usize, width: f64) -> bool {
        let of = |bounds: &'_ [f64]| {
            bounds
                .iter()
                .skip(measurement)
                .step_by(self.m)
                .copied()
                .collect::<Vec<f64>>()
        };
        let (lower, upper) = (of(&self.lower), of(&self.upper));
        let coarse = |(lower, upper): (&f64, &f64)| {
            let lost = lower.is_infinite() && upper.is_infinite();
            !lost && upper - lower > width
        };
        lower.iter().zip(&upper).any(coarse)
    }

    /// The lower and the upper bounds of one image, M each.
    ///
    /// # Panics
    /// If `index` is not below [`Cells::count`].
    pub fn image(&self, index: usize) -> (&[f64], &[f64]) {
        let of_image = index * self.m..(index + 1) * self.m;
        (&self.lower[of_image.clone()], &self.upper[of_image])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn signs_are_told_from_thresholds_elsewhere_and_from_cells_with_two_ends() {
        let are_signs = |cells: &[(f64, f64)]| {
            let (lower, upper) = cells.iter().copied().unzip();
            Cells::new(cells.len(), lower, upper).unwrap().are_signs()
        };
        assert!(are_signs(&[(0.0, INF), (-INF, 0.0), (-INF, -0.0), (-INF, INF)]));
        for other in [(0.1, INF), (-INF, 0.1), (0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0)] {
            assert!(!are_signs(&[(0.0, INF), other]), "{other:?}");
        }
    }

    #[test]
    fn codes_and_signs_are_cells() {
        let cells = Cells::from_codes(2, &[0, 1, 2, 3], &[-1.0, 0.0, 2.5]).unwrap();
        assert_eq!(cells.image(0), (&[-INF, -1.0][..], &[-1.0, 0.0][..]));
        assert_eq!(cells.image(1), (&[0.0, 2.5][..], &[2.5, INF][..]));
        let signs = Cells::from_signs(3, &[1.0, -1.0, 0.0]).unwrap();
        assert!(signs.are_signs());
        assert_eq!(signs.image(0), (&[0.0, -INF, 0.0][..], &[INF, 0.0, INF][..]));
        for thresholds in [&[][..], &[0.0, 0.0], &[1.0, 0.0], &[f64::NAN], &[INF]] {
            assert!(Cells::from_codes(1, &[0], thresholds).is_err(), "{thresholds:?}");
        }
        let message = Cells::from_codes(1, &[0, 2], &[0.5]).unwrap_err().to_string();
        assert!(message.contains("code 1 is 2"), "{message}");
        assert!(Cells::from_signs(1, &[f64::NAN]).is_err());
    }

    fn refusal(lower: &[f64], upper: &[f64]) -> String {
        Cells::new(2, lower.to_vec(), upper.to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn half_lines_and_lost_measurements_are_cells() {
        let cells = Cells::new(2, vec![-INF, -INF, 0.0, -1.5], vec![0.0, INF, INF, -0.5]).unwrap();
        assert_eq!((cells.m(), cells.count()), (2, 2));
        assert_eq!(cells.image(1), (&[0.0, -1.5][..], &[INF, -0.5][..]));
    }

    #[test]
    fn an_empty_cell_is_refused_by_image_and_measurement() {
        for (lo, up) in [
            (1.0, 1.0),
            (1.0, 0.5),
            (f64::NAN, 1.0),
            (0.0, f64::NAN),
            (INF, INF),
            (-INF, -INF),
            (INF, -INF),
        ] {
            let message = refusal(&[0.0, 0.0, 0.0, lo], &[1.0, 1.0, 1.0, up]);
            assert!(message.contains("measurement 1 of image 1"), "{message}");
        }
    }

    #[test]
    fn bounds_that_are_no_whole_images_are_refused() {
        assert!(refusal(&[0.0; 3], &[1.0; 3]).contains("multiple of M = 2"));
        assert!(refusal(&[0.0; 4], &[1.0; 2]).contains("4 and 2 bounds"));
        assert!(refusal(&[], &[]).contains("no measurements"));
    }
}

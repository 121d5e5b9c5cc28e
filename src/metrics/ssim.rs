//! The structural similarity index, as scikit-image computes it by default.

use super::clamped;
use crate::ImageShape;

/// Side of the uniform window.
const WINDOW: usize = 7;
/// (K1·L)² and (K2·L)² for the data range L = 1.
const C1: f64 = 0.01 * 0.01;
const C2: f64 = 0.03 * 0.03;

/// Mean structural similarity of an image clamped to [0, 1] and the truth, averaged over channels.
///
/// Equals `structural_similarity(x, truth, data_range=1, channel_axis=0)` of scikit-image on float64:
/// 7×7 uniform window, sample covariance, the 3-pixel border left out of the mean, so that exactly the
/// windows inside the image count. `None` for images smaller than the window. Panics if a length is
/// not the shape's.
pub fn ssim(x: &[f32], truth: &[f32], shape: ImageShape) -> Option<f64> {
    assert!(
        x.len() == shape.len() && truth.len() == shape.len(),
        "image and truth must have the given shape"
    );
    if shape.is_empty() || shape.height < WINDOW || shape.width < WINDOW {
        return None;
    }
    let plane = shape.height * shape.width;
    let total: f64 = x
        .chunks_exact(plane)
        .zip(truth.chunks_exact(plane))
        .map(|(x, truth)| channel_ssim(x, truth, shape.width))
        .sum();
    Some(total / shape.channels as f64)
}

/// Window sums of x, y, x², y² and xy.
type Moments = [f64; 5];

fn channel_ssim(x: &[f32], y: &[f32], width: usize) -> f64 {
    let rows: Vec<Vec<Moments>> = x
        .chunks_exact(width)
        .zip(y.chunks_exact(width))
        .map(|(x, y)| row_sums(x, y))
        .collect();
    let mut total = 0.0;
    for band in rows.windows(WINDOW) {
        for column in 0..band[0].len() {
            total += window_ssim(sum(band.iter().map(|row| row[column])));
        }
    }
    let windows = (rows.len() - WINDOW + 1) * (width - WINDOW + 1);
    total / windows as f64
}

/// Sums over every seven neighbours of one row. Summed afresh for each window: a running sum would
/// carry rounding along, and the variances are differences of these sums.
fn row_sums(x: &[f32], y: &[f32]) -> Vec<Moments> {
    let products: Vec<Moments> = x
        .iter()
        .zip(y)
        .map(|(&x, &y)| {
            let (x, y) = (clamped(x), clamped(y));
            [x, y, x * x, y * y, x * y]
        })
        .collect();
    products
        .windows(WINDOW)
        .map(|window| sum(window.iter().copied()))
        .collect()
}

fn sum(moments: impl Iterator<Item = Moments>) -> Moments {
    moments.fold([0.0; 5], |total, one| std::array::from_fn(|i| total[i] + one[i]))
}

fn window_ssim(sums: Moments) -> f64 {
    const N: f64 = (WINDOW * WINDOW) as f64;
    let [mean_x, mean_y, mean_xx, mean_yy, mean_xy] = sums.map(|sum| sum / N);
    let sample = N / (N - 1.0);
    let variance_x = sample * (mean_xx - mean_x * mean_x);
    let variance_y = sample * (mean_yy - mean_y * mean_y);
    let covariance = sample * (mean_xy - mean_x * mean_y);
    let luminance = (2.0 * mean_x * mean_y + C1) / (mean_x * mean_x + mean_y * mean_y + C1);
    let structure = (2.0 * covariance + C2) / (variance_x + variance_y + C2);
    luminance * structure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(shape: ImageShape) -> Vec<f32> {
        (0..shape.len()).map(|i| (i * 37 % 101) as f32 / 100.0).collect()
    }

    #[test]
    fn an_image_is_wholly_similar_to_itself() {
        let shape = ImageShape::new(3, 9, 11);
        let x = ramp(shape);
        assert!((ssim(&x, &x, shape).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn similarity_is_symmetric() {
        let shape = ImageShape::new(1, 12, 8);
        let x = ramp(shape);
        let y: Vec<f32> = x.iter().rev().copied().collect();
        let (forward, backward) = (ssim(&x, &y, shape).unwrap(), ssim(&y, &x, shape).unwrap());
        assert!((forward - backward).abs() < 1e-14 && forward < 0.9);
    }

    #[test]
    fn images_smaller_than_the_window_have_no_ssim() {
        let small = ImageShape::new(1, 6, 20);
        assert_eq!(ssim(&ramp(small), &ramp(small), small), None);
        let smallest = ImageShape::new(1, 7, 7);
        assert!(ssim(&ramp(smallest), &ramp(smallest), smallest).is_some());
    }
}

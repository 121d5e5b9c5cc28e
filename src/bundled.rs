//! What comes with the program: the default prior, ten digits to try it on, a prior for photographs with one of them, and what the
//! baselines need. It is part of the binary unless the feature `bundled` is off; then asking for it is an error that says so.

pub use crate::files::bundled::{CLASSIFIER, DIGITS, GENERATOR, PHOTO_PRIOR, PHOTOGRAPH, PRIOR, file, is_name};
use crate::files::{LoadOptions, load_images};
use crate::{Images, Result};

/// The ten digits, `count` of them from `first` on (all that follow if absent); digit d is image d. They are MNIST test images
/// 101, 107, 106, 112, 103, 102, 100, 111, 110 and 104: the first of each class after the first 100.
///
/// ```
/// let digits = qcs::bundled::digits(3, Some(2))?;
/// assert_eq!((digits.count(), digits.shape.len()), (2, 784));
/// # Ok::<(), qcs::Error>(())
/// ```
///
/// # Errors
/// If there are not so many, or the build has none.
pub fn digits(first: usize, count: Option<usize>) -> Result<Images> {
    images(DIGITS, first, count)
}

/// Bundled images, `count` of them from `first` on (all that follow if absent).
///
/// # Errors
/// If there are not so many, the name is not that of images, or the build has none.
pub fn images(name: &str, first: usize, count: Option<usize>) -> Result<Images> {
    let options = LoadOptions {
        first,
        count,
        ..LoadOptions::default()
    };
    load_images(name, &options)
}

/// The photograph, 3×256×256.
///
/// # Errors
/// If the build has none.
pub fn photograph() -> Result<Images> {
    images(PHOTOGRAPH, 0, None)
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use crate::ImageShape;

    #[test]
    fn the_file_holds_ten_digits_of_28_by_28_as_its_header_says() {
        let all = digits(0, None).unwrap();
        assert_eq!((all.count(), all.shape), (10, ImageShape::new(1, 28, 28)));
        assert!(
            all.iter().all(|digit| digit.iter().copied().fold(0.0, f32::max) > 0.9),
            "a digit has ink"
        );
        assert_eq!(digits(3, Some(2)).unwrap().data, all.data[3 * 784..5 * 784]);
        assert!(digits(3, Some(8)).is_err() && digits(11, None).is_err() && digits(0, Some(0)).is_err());
    }

    #[test]
    fn the_photograph_is_a_cat_in_colour() {
        let photo = photograph().unwrap();
        assert_eq!((photo.count(), photo.shape), (1, ImageShape::new(3, 256, 256)));
        // Fur is red before it is blue.
        let mean = |channel: &[f32]| channel.iter().sum::<f32>() / channel.len() as f32;
        let colours: Vec<f32> = photo.data.chunks(256 * 256).map(mean).collect();
        assert!(colours[0] > colours[1] && colours[1] > colours[2], "{colours:?}");
        for other in [PRIOR, "bundled:dog"] {
            assert!(images(other, 0, None).is_err());
        }
    }
}

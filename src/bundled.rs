//! What comes with the program: the default prior, ten digits to try it on, and what the baselines need. It is part of the
//! binary unless the feature `bundled` is off; then asking for it is an error that says so.

use crate::{Error, ImageShape, Images, Result};

/// What names the default prior where a path could stand: a U-Net trained on the MNIST training images.
pub const PRIOR: &str = "bundled:mnist";
/// What names the ten digits.
pub const DIGITS: &str = "bundled:digits";
/// What names the generator that the baselines project onto.
pub const GENERATOR: &str = "bundled:mnist-vae";
/// What names the classifier that tells whether a reconstruction shows the right digit.
pub const CLASSIFIER: &str = "bundled:mnist-digits";

#[cfg(feature = "bundled")]
const FILES: [(&str, &[u8]); 4] = [
    (PRIOR, include_bytes!("../weights/mnist-unet.safetensors")),
    (DIGITS, include_bytes!("../weights/demo-digits.idx3-ubyte")),
    (GENERATOR, include_bytes!("../weights/mnist-vae.safetensors")),
    (CLASSIFIER, include_bytes!("../weights/mnist-digits.safetensors")),
];
#[cfg(not(feature = "bundled"))]
const FILES: [(&str, &[u8]); 0] = [];

/// The file of this name.
///
/// # Errors
/// [`Error::Usage`] if there is none.
pub fn file(name: &str) -> Result<&'static [u8]> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, bytes)| *bytes).ok_or_else(|| {
        let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        Error::usage(match names.len() {
            0 => format!("{name} is not part of this build, which was made without the feature `bundled`: name a file"),
            _ => format!("there is no {name}: there are {}", names.join(", ")),
        })
    })
}

/// An idx file: 16 bytes of header, then the pixels.
const HEADER: usize = 16;
const SHAPE: ImageShape = ImageShape::new(1, 28, 28);

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
    let pixels = file(DIGITS)?[HEADER..].iter().map(|&byte| f32::from(byte) / 255.0);
    let all = Images::new(SHAPE, pixels.collect());
    let available = all.count();
    let count = count.unwrap_or(available.saturating_sub(first));
    let end = first.checked_add(count).filter(|&end| end <= available && count > 0);
    let end = end.ok_or_else(|| {
        Error::usage(format!(
            "{DIGITS} holds {available} images, so {count} from index {first} on cannot be taken"
        ))
    })?;
    Ok(all.part(first, end - first))
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_ten_digits_of_28_by_28_as_its_header_says() {
        let sides: Vec<u32> = file(DIGITS).unwrap()[..HEADER]
            .chunks(4)
            .map(|b| u32::from_be_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(sides, [0x803, 10, 28, 28]);
        let all = digits(0, None).unwrap();
        assert_eq!(all.count(), 10);
        assert!(
            all.iter().all(|digit| digit.iter().copied().fold(0.0, f32::max) > 0.9),
            "a digit has ink"
        );
        assert_eq!(digits(3, Some(2)).unwrap().data, all.data[3 * 784..5 * 784]);
        assert!(digits(3, Some(8)).is_err() && digits(11, None).is_err() && digits(0, Some(0)).is_err());
    }
}

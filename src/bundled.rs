//! What comes with the program: the default prior, ten digits to try it on, a prior for photographs with one of them, and what the
//! baselines need. It is part of the binary unless the feature `bundled` is off; then asking for it is an error that says so.

use crate::{Error, ImageShape, Images, Result};

/// What names the default prior where a path could stand: a U-Net trained on the MNIST training images.
pub const PRIOR: &str = "bundled:mnist";
/// What names the ten digits.
pub const DIGITS: &str = "bundled:digits";
/// What names the prior for photographs of any size.
pub const PHOTO_PRIOR: &str = "bundled:photo";
/// What names a photograph of 256×256 pixels to try it on: scikit-image's chelsea, a cat.
pub const PHOTOGRAPH: &str = "bundled:chelsea";
/// What names the generator that the baselines project onto.
pub const GENERATOR: &str = "bundled:mnist-vae";
/// What names the classifier that tells whether a reconstruction shows the right digit.
pub const CLASSIFIER: &str = "bundled:mnist-digits";

#[cfg(feature = "bundled")]
const FILES: [(&str, &[u8]); 6] = [
    (PRIOR, include_bytes!("../weights/mnist-unet.safetensors")),
    (DIGITS, include_bytes!("../weights/demo-digits.idx3-ubyte")),
    (PHOTO_PRIOR, include_bytes!("../weights/photo.safetensors")),
    (PHOTOGRAPH, include_bytes!("../weights/demo-photo.png")),
    (GENERATOR, include_bytes!("../weights/mnist-vae.safetensors")),
    (CLASSIFIER, include_bytes!("../weights/mnist-digits.safetensors")),
];
#[cfg(not(feature = "bundled"))]
const FILES: [(&str, &[u8]); 0] = [];

/// Whether this names something bundled rather than a file.
pub fn is_name(text: &str) -> bool {
    text.starts_with("bundled:")
}

/// Bundled images, `count` of them from `first` on (all that follow if absent).
///
/// # Errors
/// If there are not so many, the name is not that of images, or the build has none.
pub fn images(name: &str, first: usize, count: Option<usize>) -> Result<Images> {
    let all = match name {
        DIGITS => all_digits()?,
        PHOTOGRAPH => photograph()?,
        _ => {
            file(name)?;
            return Err(Error::usage(format!(
                "{name} is not images: {DIGITS} and {PHOTOGRAPH} are"
            )));
        }
    };
    let available = all.count();
    let count = count.unwrap_or(available.saturating_sub(first));
    let end = first.checked_add(count).filter(|&end| end <= available && count > 0);
    let end = end.ok_or_else(|| {
        Error::usage(format!(
            "{name} holds {available} images, so {count} from index {first} on cannot be taken"
        ))
    })?;
    Ok(all.part(first, end - first))
}

/// The photograph, 3×256×256.
///
/// # Errors
/// If the build has none.
pub fn photograph() -> Result<Images> {
    let bytes = file(PHOTOGRAPH)?;
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
        .read_info()
        .expect("ours");
    let mut rgb = vec![0; reader.output_buffer_size().expect("a small picture")];
    let info = reader.next_frame(&mut rgb).expect("ours");
    let (height, width) = (info.height as usize, info.width as usize);
    let plane = |channel: usize| rgb.iter().skip(channel).step_by(3).map(|&byte| f32::from(byte) / 255.0);
    Ok(Images::new(
        ImageShape::new(3, height, width),
        (0..3).flat_map(plane).collect(),
    ))
}

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
    images(DIGITS, first, count)
}

fn all_digits() -> Result<Images> {
    let pixels = file(DIGITS)?[HEADER..].iter().map(|&byte| f32::from(byte) / 255.0);
    Ok(Images::new(SHAPE, pixels.collect()))
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

    #[test]
    fn the_photograph_is_a_cat_in_colour() {
        let photo = images(PHOTOGRAPH, 0, None).unwrap();
        assert_eq!((photo.count(), photo.shape), (1, ImageShape::new(3, 256, 256)));
        // Fur is red before it is blue.
        let mean = |channel: &[f32]| channel.iter().sum::<f32>() / channel.len() as f32;
        let colours: Vec<f32> = photo.data.chunks(256 * 256).map(mean).collect();
        assert!(colours[0] > colours[1] && colours[1] > colours[2], "{colours:?}");
        assert!(images(PRIOR, 0, None).is_err() && images("bundled:dog", 0, None).is_err());
    }
}

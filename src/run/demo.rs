//! The demonstration: ten digits from 400 one-bit measurements each, by every method.

use super::{Batch, MeasureConfig, RunConfig};
use crate::methods;
use crate::problem::Measurements;
use crate::{Error, ImageShape, Images, Result};

/// What names the ten digits where a path of images could stand.
pub const DIGITS: &str = "bundled:digits";

/// MNIST test images 101, 107, 106, 112, 103, 102, 100, 111, 110, 104: the first of each class, 0 to 9, after the
/// first 100. An idx file: 16 bytes of header, then the pixels.
const FILE: &[u8] = include_bytes!("../../weights/demo-digits.idx3-ubyte");
const HEADER: usize = 16;
const SHAPE: ImageShape = ImageShape::new(1, 28, 28);

/// The demo: every method with the shipped prior and its own settings.
pub fn config() -> RunConfig {
    RunConfig {
        methods: methods::own().iter().map(|kind| kind.key().to_owned()).collect(),
        batch: Batch::Of(10),
        measure: Some(MeasureConfig {
            images: Some(DIGITS.to_owned()),
            matrix: Some("ill-conditioned".to_owned()),
            kappa: Some(1000.0),
            measurements: Some(Measurements::Count(400)),
            ..MeasureConfig::default()
        }),
        ..RunConfig::default()
    }
}

/// The bundled digits, `count` of them from `first` on (all that follow if absent); digit d is image d.
///
/// # Errors
/// If there are not so many.
pub fn digits(first: usize, count: Option<usize>) -> Result<Images> {
    let pixels: Vec<f32> = FILE[HEADER..].iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let all = Images::new(SHAPE, pixels);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_ten_digits_of_28_by_28_as_its_header_says() {
        let sides: Vec<u32> = FILE[..HEADER]
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
    fn the_configuration_survives_toml() {
        let text = config().to_toml().unwrap();
        assert_eq!(toml::from_str::<RunConfig>(&text).unwrap(), config(), "{text}");
    }
}

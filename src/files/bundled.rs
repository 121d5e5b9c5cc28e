//! The files that come with the program, by the names that stand for them where a path could stand.

use crate::{Error, Result};

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
    (PRIOR, include_bytes!("../../weights/mnist-unet.safetensors")),
    (DIGITS, include_bytes!("../../weights/demo-digits.idx3-ubyte")),
    (PHOTO_PRIOR, include_bytes!("../../weights/photo.safetensors")),
    (PHOTOGRAPH, include_bytes!("../../weights/demo-photo.png")),
    (GENERATOR, include_bytes!("../../weights/mnist-vae.safetensors")),
    (CLASSIFIER, include_bytes!("../../weights/mnist-digits.safetensors")),
];
#[cfg(not(feature = "bundled"))]
const FILES: [(&str, &[u8]); 0] = [];

/// Whether this names something bundled rather than a file.
pub fn is_name(text: &str) -> bool {
    text.starts_with("bundled:")
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

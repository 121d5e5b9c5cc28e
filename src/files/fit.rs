//! Images cut to their middle and made smaller, before anything is measured.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ImageShape, Images};

/// Width and height in pixels: "640x480", or "256" for a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    pub width: usize,
    pub height: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let side = |text: &str| text.trim().parse().ok().filter(|side| (1..=65536).contains(side));
        let (width, height) = text.split_once(['x', '×']).unwrap_or((text, text));
        match (side(width), side(height)) {
            (Some(width), Some(height)) => Ok(Self { width, height }),
            _ => Err(format!(
                "{text:?} is no size in pixels: write WIDTHxHEIGHT like 640x480, or 256 for a square"
            )),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// A square may be written as a number.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Side(u64),
            Text(String),
        }
        let text = match Written::deserialize(from)? {
            Written::Side(side) => side.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// What is done to each image: first its middle is cut out, then that is made smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fit {
    /// The middle that is kept
    pub crop: Option<Size>,
    /// The size that is left; a pixel is the mean of the area that it covers
    pub resize: Option<Size>,
}

impl Fit {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The images as they are to be.
    ///
    /// # Errors
    /// The reason in words: an image is too small, or would be squeezed.
    pub fn apply(&self, images: Images) -> Result<Images, String> {
        if self.is_nothing() {
            return Ok(images);
        }
        let shape = self.shape(images.shape)?;
        let mut data = Vec::new();
        super::reserve(&mut data, shape.len() * images.count())?;
        for image in images.iter() {
            self.append(images.shape, image, &mut data);
        }
        Ok(Images::new(shape, data))
    }

    /// The shape of what becomes of images of this one.
    fn shape(&self, of: ImageShape) -> Result<ImageShape, String> {
        let mut there = Size {
            width: of.width,
            height: of.height,
        };
        if let Some(crop) = self.crop {
            if crop.width > there.width || crop.height > there.height {
                return Err(format!("is {there}, too small to cut {crop} out of it"));
            }
            there = crop;
        }
        if let Some(size) = self.resize {
            if size.width > there.width || size.height > there.height {
                return Err(format!("is {there}, smaller than {size}: it is not enlarged"));
            }
            // As near to its own proportions as whole pixels allow.
            let (across, down) = (there.width * size.height, there.height * size.width);
            if across.abs_diff(down) > there.width.max(there.height) {
                let by = (there.width / size.width).min(there.height / size.height);
                return Err(format!(
                    "is {there} and would be squeezed to {size}: cut a part of these proportions out first, {}x{} for example",
                    size.width * by,
                    size.height * by
                ));
            }
            there = size;
        }
        Ok(ImageShape::new(of.channels, there.height, there.width))
    }

    /// Appends what becomes of an image; its shape was looked at.
    fn append(&self, shape: ImageShape, image: &[f32], data: &mut Vec<f32>) {
        let crop = self.crop.unwrap_or(Size {
            width: shape.width,
            height: shape.height,
        });
        let (top, left) = ((shape.height - crop.height) / 2, (shape.width - crop.width) / 2);
        for plane in image.chunks_exact(shape.height * shape.width) {
            let rows = plane.chunks_exact(shape.width).skip(top).take(crop.height);
            let middle: Vec<f32> = rows.flat_map(|row| &row[left..left + crop.width]).copied().collect();
            match self.resize {
                None => data.extend_from_slice(&middle),
                Some(size) => data.extend(averaged(&middle, crop, size)),
            }
        }
    }
}

/// The plane made smaller: each pixel is the mean over the area that it covers.
fn averaged(plane: &[f32], from: Size, to: Size) -> Vec<f32> {
    let (columns, rows) = (shares(from.width, to.width), shares(from.height, to.height));
    let mut narrow = Vec::with_capacity(to.width * from.height);
    for row in plane.chunks_exact(from.width) {
        let mean = |shares: &Vec<(usize, f64)>| {
            shares
                .iter()
                .map(|&(at, share)| share * f64::from(row[at]))
                .sum::<f64>()
        };
        narrow.extend(columns.iter().map(mean));
    }
    let mut small = Vec::with_capacity(to.width * to.height);
    for shares in &rows {
        for column in 0..to.width {
            let mean: f64 = shares
                .iter()
                .map(|&(at, share)| share * narrow[at * to.width + column])
                .sum();
            // Means of numbers from 0 to 1; the last bit of a sum may say otherwise.
            small.push(mean.clamp(0.0, 1.0) as f32);
        }
    }
    small
}

/// For each of `to` parts of a line of `from` pixels, the pixels that it covers and their shares of it, which add up to 1.
fn shares(from: usize, to: usize) -> Vec<Vec<(usize, f64)>> {
    // In units of 1/to of a pixel every bound is a whole number.
    let part = |index: usize| {
        let (begin, end) = (index * from, (index + 1) * from);
        let covered = |at: usize| end.min((at + 1) * to) - begin.max(at * to);
        (begin / to..end.div_ceil(to))
            .map(|at| (at, covered(at) as f64 / from as f64))
            .collect()
    };
    (0..to).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Option<Size> {
        Some(text.parse().unwrap())
    }

    fn counting(height: usize, width: usize) -> Images {
        let n = 2 * height * width;
        let data = (0..n).map(|i| i as f32 / n as f32).collect();
        Images::new(ImageShape::new(1, height, width), data)
    }

    #[test]
    fn a_size_is_two_numbers_or_one_for_both() {
        assert_eq!(
            size("640x480"),
            Some(Size {
                width: 640,
                height: 480
            })
        );
        assert_eq!(size("256"), size("256x256"));
        assert_eq!(size("640x480").unwrap().to_string(), "640x480");
        for wrong in ["", "x", "0", "640x", "640x480x3", "-4", "1e3", "70000", "a"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_middle_is_cut_out() {
        let fit = Fit {
            crop: size("2x3"),
            resize: None,
        };
        let images = counting(5, 6);
        let cut = fit.apply(images.clone()).unwrap();
        assert_eq!((cut.shape, cut.count()), (ImageShape::new(1, 3, 2), 2));
        let at = |image: usize, y: usize, x: usize| images.image(image)[y * 6 + x];
        assert_eq!(cut.image(1)[..2], [at(1, 1, 2), at(1, 1, 3)]);
        assert_eq!(cut.image(0)[4..], [at(0, 3, 2), at(0, 3, 3)]);
    }

    #[test]
    fn a_smaller_pixel_is_the_mean_of_what_it_covers() {
        let fit = |crop: Option<Size>, to: &str| Fit { crop, resize: size(to) };
        let images = counting(4, 4);
        let half = fit(None, "2").apply(images.clone()).unwrap();
        let image = images.image(0);
        let mean = (image[0] + image[1] + image[4] + image[5]) / 4.0;
        assert!((half.image(0)[0] - mean).abs() < 1e-7);
        // Three pixels into two: the middle one is shared.
        let line = averaged(
            &[0.0, 0.6, 0.3],
            Size { width: 3, height: 1 },
            Size { width: 2, height: 1 },
        );
        assert!((line[0] - 0.2).abs() < 1e-7 && (line[1] - 0.4).abs() < 1e-7, "{line:?}");
        // The mean of the whole stays what it is, and the same size is the same image.
        for to in [1, 3, 5, 7] {
            let images = counting(7, 7);
            let small = fit(None, &to.to_string()).apply(images.clone()).unwrap();
            let mean = |image: &[f32]| image.iter().map(|&x| f64::from(x)).sum::<f64>() / image.len() as f64;
            assert!((mean(small.image(1)) - mean(images.image(1))).abs() < 1e-6, "{to}");
        }
        assert_eq!(fit(None, "4").apply(images.clone()).unwrap(), images);
        let both = fit(size("2"), "1").apply(images).unwrap();
        assert_eq!(both.shape, ImageShape::new(1, 1, 1));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let words = |crop: &str, resize: &str| {
            let of = |text: &str| (!text.is_empty()).then(|| size(text)).flatten();
            let fit = Fit {
                crop: of(crop),
                resize: of(resize),
            };
            fit.apply(counting(48, 64)).map(|images| images.shape.to_string())
        };
        assert!(
            words("65x48", "")
                .unwrap_err()
                .contains("is 64x48, too small to cut 65x48")
        );
        assert!(words("", "128x96").unwrap_err().contains("not enlarged"));
        let squeezed = words("", "16").unwrap_err();
        assert!(
            squeezed.contains("squeezed to 16x16") && squeezed.contains("48x48"),
            "{squeezed}"
        );
        assert_eq!(words("48", "16").unwrap(), "1,16,16");
        // Rounded proportions are no squeezing.
        assert_eq!(words("", "33x25").unwrap(), "1,25,33");
    }
}

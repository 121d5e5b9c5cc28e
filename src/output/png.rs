//! Images as PNG files.

use std::path::Path;

use image::codecs::png::PngEncoder;
use image::{DynamicImage, GrayImage, ImageError, RgbImage};

use crate::files::write_atomically;
use crate::{Error, ImageShape, Images, Result};

/// Writes one `[C, H, W]` image, grey or RGB, clamped to [0, 1] and rounded to 8 bits; NaN becomes black.
pub fn write_image(path: impl AsRef<Path>, shape: ImageShape, image: &[f32]) -> Result<()> {
    let picture = if shape.channels == 1 {
        let bytes = image.iter().map(|&value| byte(value)).collect();
        // The length is height × width by the shape.
        let grey = GrayImage::from_raw(shape.width as u32, shape.height as u32, bytes);
        DynamicImage::from(grey.expect("an image has its shape"))
    } else {
        to_rgb(shape, image).into()
    };
    write_picture(path, &picture)
}

/// Writes every image into `folder`, as `0000.png`, `0001.png`, …, so that their names sort as they do.
pub fn write_images(folder: impl AsRef<Path>, images: &Images) -> Result<()> {
    let folder = folder.as_ref();
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", e))?;
    let digits = images.count().saturating_sub(1).to_string().len().max(4);
    for (index, image) in images.iter().enumerate() {
        write_image(folder.join(format!("{index:0digits$}.png")), images.shape, image)?;
    }
    Ok(())
}

/// Writes a finished picture.
pub fn write_picture(path: impl AsRef<Path>, picture: &DynamicImage) -> Result<()> {
    let path = path.as_ref();
    write_atomically(path, |w| {
        picture
            .write_with_encoder(PngEncoder::new(w))
            .map_err(|error| match error {
                ImageError::IoError(source) => Error::io(path, "write", source),
                other => Error::Failed(format!("{}: cannot write: {other}", path.display())),
            })
    })
}

/// The picture of a grey or RGB image. Panics if it has another number of channels.
pub(super) fn to_rgb(shape: ImageShape, image: &[f32]) -> RgbImage {
    assert!(matches!(shape.channels, 1 | 3), "pictures are grey or RGB");
    assert_eq!(image.len(), shape.len(), "an image has its shape");
    let plane = shape.height * shape.width;
    RgbImage::from_fn(shape.width as u32, shape.height as u32, |x, y| {
        let pixel = y as usize * shape.width + x as usize;
        image::Rgb(std::array::from_fn(|channel| {
            byte(image[channel % shape.channels * plane + pixel])
        }))
    })
}

/// Clamps and rounds; the cast takes NaN to 0.
fn byte(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

//! Images as PNG files.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use png::{BitDepth, ColorType, Compression, Encoder, EncodingError, Filter};

use super::picture::Picture;
use crate::files::write_atomically;
use crate::{Error, ImageShape, Images, Result};

/// Writes one `[C, H, W]` image, grey or RGB, clamped to [0, 1] and rounded to 8 bits; NaN becomes black.
pub fn write_image(path: impl AsRef<Path>, shape: ImageShape, image: &[f32]) -> Result<()> {
    if shape.channels == 1 {
        assert_eq!(image.len(), shape.len(), "an image has its shape");
        let bytes: Vec<u8> = image.iter().map(|&value| byte(value)).collect();
        let size = (shape.width as u32, shape.height as u32);
        return write(path.as_ref(), size, ColorType::Grayscale, &bytes);
    }
    write_picture(path, &to_rgb(shape, image))
}

/// Writes every image into `folder` under its [`stem`]: `numbers` begins with that of the first and ends where the last of all
/// such pictures will, and `names` are those of the images' files, where they have some.
pub fn write_images(
    folder: impl AsRef<Path>,
    images: &Images,
    numbers: Range<usize>,
    names: Option<&[String]>,
) -> Result<()> {
    let folder = folder.as_ref();
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "create", e))?;
    let all = numbers.end;
    for (at, (number, image)) in numbers.zip(images.iter()).enumerate() {
        let stem = stem(number, all, names.map(|names| names[at].as_str()));
        write_image(folder.join(format!("{stem}.png")), images.shape, image)?;
    }
    Ok(())
}

/// What the picture of image `number` of `all` is called, without its ending: "0007", or "0007-cat" where its file was cat.jpg.
/// The number comes first, so that equal names stay apart and pictures sort as images do; what a file's name should not hold
/// becomes a low line.
pub fn stem(number: usize, all: usize, name: Option<&str>) -> String {
    /// Bytes of a name that are kept: most systems take 255, and endings come after it.
    const LONGEST: usize = 120;
    let digits = all.saturating_sub(1).to_string().len().max(4);
    let mut stem = format!("{number:0digits$}");
    let own = name.and_then(|name| Path::new(name).file_stem());
    for (at, c) in own.unwrap_or_default().to_string_lossy().chars().enumerate() {
        let kept = if c.is_alphanumeric() || "-_.+=".contains(c) {
            c
        } else {
            '_'
        };
        if stem.len() + 1 + kept.len_utf8() > digits + LONGEST {
            break;
        }
        if at == 0 {
            stem.push('-');
        }
        stem.push(kept);
    }
    stem
}

/// Writes a finished picture.
pub fn write_picture(path: impl AsRef<Path>, picture: &Picture) -> Result<()> {
    let size = (picture.width(), picture.height());
    write(path.as_ref(), size, ColorType::Rgb, picture.pixels().as_flattened())
}

/// Refuses a name that promises a picture of another kind than PNG.
///
/// # Errors
/// [`Error::Usage`] naming the file and what to call it.
pub fn check_name(path: impl AsRef<Path>) -> Result<()> {
    const OTHERS: [&str; 9] = ["jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp", "pdf", "svg"];
    let path = path.as_ref();
    let promises = |kind: &&str| path.extension().is_some_and(|name| name.eq_ignore_ascii_case(kind));
    match OTHERS.iter().find(|kind| promises(kind)) {
        None => Ok(()),
        Some(_) => Err(Error::usage(format!(
            "{}: pictures are written as PNG: call it {}",
            path.display(),
            path.with_extension("png").display()
        ))),
    }
}

fn write(path: &Path, size: (u32, u32), colour: ColorType, bytes: &[u8]) -> Result<()> {
    check_name(path)?;
    write_atomically(path, |out| {
        encode(out, size, colour, bytes).map_err(|error| match error {
            EncodingError::IoError(source) => Error::io(path, "write", source),
            other => Error::Failed(format!("{}: cannot write: {other}", path.display())),
        })
    })
}

fn encode(out: &mut dyn Write, size: (u32, u32), colour: ColorType, bytes: &[u8]) -> Result<(), EncodingError> {
    let mut encoder = Encoder::new(out, size.0, size.1);
    encoder.set_color(colour);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(bytes)?;
    writer.finish()
}

/// The picture of a grey or RGB image. Panics if it has another number of channels.
pub(super) fn to_rgb(shape: ImageShape, image: &[f32]) -> Picture {
    assert!(matches!(shape.channels, 1 | 3), "pictures are grey or RGB");
    assert_eq!(image.len(), shape.len(), "an image has its shape");
    let plane = shape.height * shape.width;
    Picture::from_fn(shape.width as u32, shape.height as u32, |x, y| {
        let pixel = y as usize * shape.width + x as usize;
        std::array::from_fn(|channel| byte(image[channel % shape.channels * plane + pixel]))
    })
}

/// Clamps and rounds; the cast takes NaN to 0.
fn byte(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

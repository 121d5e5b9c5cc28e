//! PNG and JPEG pictures, one or a folder of them.

use std::fs;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageReader, Limits};

use crate::{Error, ImageShape, Result};

/// A picture larger than this in either direction is refused before it is decompressed.
const MAX_SIDE: u32 = 1 << 14;
/// Bytes a decoder may allocate for one picture.
const MAX_ALLOCATION: u64 = 1 << 29;

/// The pictures of a folder, sorted by name; hidden files and other kinds are passed over.
pub(super) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| Error::io(folder, "read", e))? {
        let path = entry.map_err(|e| Error::io(folder, "read", e))?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_picture = path.extension().is_some_and(|extension| {
            ["png", "jpg", "jpeg"]
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known))
        });
        if is_picture && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(Error::bad_file(folder, "holds no .png, .jpg or .jpeg files"));
    }
    Ok(paths)
}

/// Decodes one picture and appends its planes, in [0, 1], to `planes`.
pub(super) fn append(path: &Path, planes: &mut Vec<f32>) -> Result<ImageShape> {
    let picture = decode(path)?;
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    if picture.color().has_alpha() && picture.to_rgba16().pixels().any(|p| p[3] != u16::MAX) {
        return Err(Error::bad_file(
            path,
            "has transparent pixels: flatten it onto a background",
        ));
    }
    // 16 bits hold both depths: v·257/65535 and v/255 are the same quotient, so they round alike.
    let unit = |value: &u16| f32::from(*value) / f32::from(u16::MAX);
    let channels = if picture.color().has_color() {
        let pixels = picture.into_rgb16();
        for channel in 0..3 {
            planes.extend(pixels.as_raw()[channel..].iter().step_by(3).map(unit));
        }
        3
    } else {
        planes.extend(picture.into_luma16().as_raw().iter().map(unit));
        1
    };
    Ok(ImageShape::new(channels, height, width))
}

fn decode(path: &Path) -> Result<DynamicImage> {
    let (file, _) = super::open(path)?;
    let mut reader = ImageReader::new(file)
        .with_guessed_format()
        .map_err(|e| Error::io(path, "read", e))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_ALLOCATION);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| {
        let reason = error.to_string().replace('\n', " ");
        Error::bad_file(path, format!("cannot be decoded: {reason}"))
    })?;
    if picture.width() == 0 || picture.height() == 0 {
        return Err(Error::bad_file(path, "is an empty picture"));
    }
    Ok(picture)
}

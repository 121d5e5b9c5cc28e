//! PNG and JPEG pictures, one or a folder of them.

mod jpeg;
mod orientation;
mod png;

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, ImageShape, Result};
use orientation::Orientation;

/// A picture larger than this in either direction is refused before it is decompressed.
const MAX_SIDE: usize = 1 << 14;
/// Bytes that the samples of one picture may take.
const MAX_SAMPLES: usize = 1 << 29;

/// A picture as it was stored.
struct Picture {
    width: usize,
    height: usize,
    /// 1 is grey, 3 is RGB; 2 and 4 are the same with alpha as the last.
    channels: usize,
    samples: Samples,
    orientation: Orientation,
}

/// Row by row, the channels of a pixel side by side.
enum Samples {
    Bytes(Vec<u8>),
    /// 16 bits, the high byte first.
    Words(Vec<u8>),
}

/// The pictures of a folder, sorted by name, numbers in it by their worth; hidden files and other kinds are passed over.
pub fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
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
        // A pipe of that name would be waited for.
        if is_picture && !hidden && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort_by_cached_key(|path| natural(&path.file_name().unwrap_or_default().to_string_lossy()));
    if paths.is_empty() {
        return Err(Error::bad_file(folder, "holds no .png, .jpg or .jpeg files"));
    }
    Ok(paths)
}

/// A name as people sort it: numbers by what they are worth, so that img2 comes before img10; then as it is spelled.
fn natural(name: &str) -> (Vec<(String, u128)>, String) {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - text);
        let number = rest[text..text + digits].parse().unwrap_or(u128::MAX);
        parts.push((rest[..text].to_owned(), number));
        rest = &rest[text + digits..];
    }
    (parts, name.to_owned())
}

/// Decodes one picture, turns it upright and appends its planes, in [0, 1], to `planes`.
pub(super) fn append(path: &Path, planes: &mut Vec<f32>) -> Result<ImageShape> {
    let bytes = super::map(path)?;
    append_bytes(&bytes, planes).map_err(|reason| Error::bad_file(path, reason))
}

/// The same of a picture in memory.
pub(super) fn append_bytes(bytes: &[u8], planes: &mut Vec<f32>) -> Result<ImageShape, String> {
    let picture = match bytes {
        [0x89, b'P', b'N', b'G', ..] => png::decode(bytes),
        [0xff, 0xd8, ..] => jpeg::decode(bytes),
        _ => Err("is neither a PNG nor a JPEG picture, whatever its name says".into()),
    };
    picture?.append(planes)
}

/// The two sides of a picture as it is stored, from its first bytes: height and width, or width and height where it is to be turned.
/// `None` for what is no picture.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn sides(path: &Path) -> Result<Option<(usize, usize)>> {
    let of = |bytes: &[u8]| match bytes {
        [0x89, b'P', b'N', b'G', ..] => png::sides(bytes).map(Some),
        [0xff, 0xd8, ..] => jpeg::sides(bytes).map(Some),
        _ => Ok(None),
    };
    let sides = match path.to_str().filter(|name| super::bundled::is_name(name)) {
        Some(name) => of(super::bundled::file(name)?),
        None if path.is_file() => of(&super::map(path)?),
        None => Ok(None),
    };
    sides.map_err(|reason| Error::bad_file(path, reason))
}

impl Picture {
    fn append(&self, planes: &mut Vec<f32>) -> Result<ImageShape, String> {
        match &self.samples {
            Samples::Bytes(samples) => self.append_samples(samples, |v| f32::from(v) / f32::from(u8::MAX), planes),
            Samples::Words(samples) => {
                let unit = |v| f32::from(u16::from_be_bytes(v)) / f32::from(u16::MAX);
                self.append_samples(samples.as_chunks().0, unit, planes)
            }
        }
    }

    fn append_samples<T: Copy>(
        &self,
        samples: &[T],
        unit: impl Fn(T) -> f32,
        planes: &mut Vec<f32>,
    ) -> Result<ImageShape, String> {
        let pixels = samples.chunks_exact(self.channels);
        if self.channels.is_multiple_of(2) && pixels.clone().any(|pixel| unit(pixel[self.channels - 1]) < 1.0) {
            return Err("has transparent pixels: flatten it onto a background".into());
        }
        let (height, width) = self.orientation.size(self.height, self.width);
        let shape = ImageShape::new(if self.channels < 3 { 1 } else { 3 }, height, width);
        super::reserve(planes, shape.len())?;
        for channel in 0..shape.channels {
            for row in 0..height {
                planes.extend((0..width).map(|column| {
                    let (row, column) = self.orientation.source(row, column, self.height, self.width);
                    unit(samples[(row * self.width + column) * self.channels + channel])
                }));
            }
        }
        Ok(shape)
    }
}

/// Refuses a picture for its size alone. `file` is the length of the file, of which `pixels_per_byte` is the most that
/// a byte can stand for.
fn check_size(width: usize, height: usize, file: usize, pixels_per_byte: usize) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err("is an empty picture".into());
    }
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!(
            "is {width}×{height} pixels large; the limit is {MAX_SIDE} in each direction"
        ));
    }
    if width * height > file.saturating_mul(pixels_per_byte) {
        return Err(format!(
            "announces {width}×{height} pixels, more than its {file} bytes can hold"
        ));
    }
    Ok(())
}

/// Room for the samples of a picture.
fn room(bytes: usize) -> Result<Vec<u8>, String> {
    if bytes > MAX_SAMPLES {
        let (bytes, limit) = (bytes >> 20, MAX_SAMPLES >> 20);
        return Err(format!(
            "takes {bytes} MiB when it is decoded; the limit is {limit} MiB"
        ));
    }
    let mut samples = Vec::new();
    super::reserve(&mut samples, bytes)?;
    samples.resize(bytes, 0);
    Ok(samples)
}

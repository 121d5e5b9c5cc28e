//! Loading images from whatever people have: pictures, folders of them, idx, npy and npz files.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::array::{ArrayStream, Skip};
use super::fit::Fit;
use super::layout::Layout;
use super::npy::{self, NpyData};
use super::npy_header::Header;
use super::npz::{self, Npz};
use super::{MAX_INFLATED, MAX_INFLATION, bundled, idx, on_one_line, open, pictures, quoted, reserve};
use crate::{Error, ImageShape, Images, Result};

/// Which images to load, and what they must be.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Index of the first image taken.
    pub first: usize,
    /// How many are taken; all that follow `first` if absent.
    pub count: Option<usize>,
    /// The shape the images must have. It also decides between the readings of an ambiguous array.
    pub shape: Option<ImageShape>,
    pub range: ValueRange,
    /// How each is cut and made smaller, before its shape is looked at.
    pub fit: Fit,
}

/// Images, and what is known of them beside their pixels.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub images: Images,
    /// The names of their files, where each has one of its own.
    pub names: Option<Vec<String>>,
    /// The array that was taken out of an archive of several, where nobody named it.
    pub array: Option<String>,
}

impl From<Images> for Loaded {
    fn from(images: Images) -> Self {
        Self {
            images,
            names: None,
            array: None,
        }
    }
}

/// Which floating-point values an image may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueRange {
    /// [0, 1], for images that are measured or serve as truth.
    #[default]
    Unit,
    /// As a sampler leaves them: a little outside [0, 1] in places, and non-finite where it diverged.
    Estimate,
}

/// Rounding of other programs may leave values this far outside [0, 1]; they are clamped.
const SLACK: f32 = 1e-6;

/// Of images in 0 to 255, the brightest pixel is brighter than this.
const BRIGHT: f32 = 16.0;

/// Loads grey or RGB images as `[B, C, H, W]` in [0, 1].
///
/// `path` names something [`bundled`], or is a folder of PNG and JPEG files (in the order of their names), one such file, an idx file,
/// plain or gzipped, an `.npy` array or an `.npz` archive (its first array that looks like images, or
/// the one named by `file.npz:name`). Only the images asked for are read. Arrays are `[B,H,W]`, `[B,C,H,W]` or `[B,H,W,C]`. Bytes are divided
/// by 255; floats must lie in [0, 1] already.
pub fn load_images(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Images> {
    load_named(path, options).map(|loaded| loaded.images)
}

/// The same, with the names of the images.
///
/// # Errors
/// As [`load_images`].
pub fn load_named(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Loaded> {
    if let Some(name) = path.as_ref().to_str().filter(|name| bundled::is_name(name)) {
        return load_bundled(name, options);
    }
    let (path, array_name) = npz::split_name(path.as_ref());
    if path.is_dir() {
        return load_pictures(&path, &pictures::in_folder(&path)?, options);
    }
    let bad = |reason: String| Error::bad_file(&path, reason);
    // The shape that is asked for is that of what the images become.
    let before = &LoadOptions {
        shape: options.shape.filter(|_| options.fit.is_nothing()),
        ..*options
    };
    let loaded = match (Kind::of(&path)?, array_name) {
        (Kind::Picture, None) => return load_pictures(&path, std::slice::from_ref(&path), options),
        (Kind::Npz, name) => load_npz(&path, name.as_deref(), before)?,
        (Kind::Npy, None) => from_stream(&path, npy::stream(&path)?, None, before, bad)?.into(),
        (Kind::Idx, None) => {
            let (mut file, length) = open(&path)?;
            let stream = idx::read_header(&mut file, length)
                .and_then(|header| ArrayStream::new(header, file, Some(length)))
                .map_err(bad)?;
            from_stream(&path, stream, None, before, bad)?.into()
        }
        (Kind::Gzip, None) => {
            let (file, length) = open(&path)?;
            let mut file = MultiGzDecoder::new(file);
            let stream = idx::read_header(&mut file, length.saturating_mul(MAX_INFLATION))
                .and_then(|header| ArrayStream::new(header, file, None))
                .map_err(bad)?;
            from_stream(&path, stream, Some(MAX_INFLATED), before, bad)?.into()
        }
        (_, Some(name)) => return Err(bad(format!("is no .npz archive, so it has no array {}", quoted(&name)))),
    };
    let images = fitted(&path, loaded.images, options)?;
    Ok(Loaded { images, ..loaded })
}

/// Images of the binary: a picture, or digits as an idx file.
fn load_bundled(name: &str, options: &LoadOptions) -> Result<Loaded> {
    let (path, mut bytes) = (Path::new(name), bundled::file(name)?);
    let bad = |reason: String| Error::bad_file(path, reason);
    let images = match name {
        bundled::PHOTOGRAPH => {
            range(path, 1, options)?;
            let mut planes = Vec::new();
            let shape = pictures::append_bytes(bytes, &mut planes).map_err(bad)?;
            Images::new(shape, planes)
        }
        bundled::DIGITS => {
            let length = bytes.len() as u64;
            let stream = idx::read_header(&mut bytes, length)
                .and_then(|header| ArrayStream::new(header, bytes, Some(length)))
                .map_err(bad)?;
            let before = LoadOptions {
                shape: None,
                ..*options
            };
            from_stream(path, stream, None, &before, bad)?
        }
        _ => {
            let (digits, photograph) = (bundled::DIGITS, bundled::PHOTOGRAPH);
            return Err(Error::usage(format!(
                "{name} is not images: {digits} and {photograph} are"
            )));
        }
    };
    fitted(path, images, options).map(Loaded::from)
}

/// The images cut and made smaller, of the shape that is asked for.
fn fitted(path: &Path, images: Images, options: &LoadOptions) -> Result<Images> {
    let bad = |reason: String| Error::bad_file(path, reason);
    let images = options.fit.apply(images).map_err(bad)?;
    match options.shape.filter(|&shape| shape != images.shape) {
        Some(shape) => Err(bad(format!(
            "has images of shape {} (C,H,W), not {shape}",
            images.shape
        ))),
        None => Ok(images),
    }
}

/// What a file is, told from its first bytes: names lie.
enum Kind {
    Picture,
    Idx,
    /// An idx file, by all experience.
    Gzip,
    Npy,
    Npz,
}

impl Kind {
    fn of(path: &Path) -> Result<Self> {
        let (file, _) = open(path)?;
        let mut start = Vec::new();
        file.take(8)
            .read_to_end(&mut start)
            .map_err(|e| Error::io(path, "read", e))?;
        match start.as_slice() {
            [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => Ok(Self::Picture),
            [0, 0, 0x08..=0x0e, ..] => Ok(Self::Idx),
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Ok(Self::Npy),
            [b'P', b'K', 3, 4, ..] => Ok(Self::Npz),
            [] => Err(Error::bad_file(path, "is empty")),
            _ => Err(Error::bad_file(
                path,
                "holds no images: give a PNG, JPEG, idx, npy or npz file, or a folder of pictures",
            )),
        }
    }
}

fn load_pictures(source: &Path, paths: &[PathBuf], options: &LoadOptions) -> Result<Loaded> {
    let chosen = &paths[range(source, paths.len(), options)?];
    let mut planes = Vec::new();
    let mut shape = options.shape;
    for path in chosen {
        let found = if options.fit.is_nothing() {
            pictures::append(path, &mut planes)?
        } else {
            let mut own = Vec::new();
            let shape = pictures::append(path, &mut own)?;
            let fitted = options.fit.apply(Images::new(shape, own));
            let mut fitted = fitted.map_err(|reason| Error::bad_file(path, reason))?;
            planes.append(&mut fitted.data);
            fitted.shape
        };
        let expected = *shape.get_or_insert(found);
        if found != expected {
            let whose = match options.shape {
                Some(_) => "what is asked for",
                None => "the first picture's",
            };
            let reason = format!(
                "has shape {found} (C,H,W), not {whose} {expected}: {}",
                if (found.height, found.width) == (expected.height, expected.width) {
                    "convert it"
                } else {
                    "cut or resize them all to one size"
                }
            );
            return Err(Error::bad_file(path, reason));
        }
    }
    match shape {
        Some(shape) => Ok(Loaded {
            images: Images::new(shape, planes),
            names: Some(chosen.iter().map(|path| name_of(path)).collect()),
            array: None,
        }),
        None => Err(no_images(source)),
    }
}

/// A file's name as people read it.
fn name_of(path: &Path) -> String {
    on_one_line(&path.file_name().unwrap_or_default().to_string_lossy())
}

fn load_npz(path: &Path, name: Option<&str>, options: &LoadOptions) -> Result<Loaded> {
    let mut archive = Npz::open(path)?;
    let looks_like_images =
        |header: &Header| !header.dtype.is_other_integer() && Layout::of(&header.shape, options.shape).is_ok();
    let several = archive.arrays() > 1;
    let chosen = name.is_none() && several;
    let name = match name {
        Some(name) => name.to_owned(),
        None => archive.find(looks_like_images).ok_or_else(|| {
            let of_shape = options
                .shape
                .map_or(String::new(), |shape| format!(" of shape {shape}"));
            let reason = format!("has no array of images{of_shape}: name one as file.npz:name");
            Error::bad_file(path, reason)
        })?,
    };
    let bad = |reason: String| Error::bad_file(path, format!("array {} {reason}", quoted(&name)));
    let stream = archive.array(&name)?.map_err(bad)?;
    Ok(Loaded {
        array: chosen.then(|| name.clone()),
        ..from_stream(path, stream, Some(MAX_INFLATED), options, bad)?.into()
    })
}

/// Reads the chosen images and no others; `limit` is the most bytes they may take in memory.
fn from_stream<R: Skip>(
    path: &Path,
    mut stream: ArrayStream<R>,
    limit: Option<u64>,
    options: &LoadOptions,
    bad: impl Fn(String) -> Error,
) -> Result<Images> {
    let layout = Layout::of(&stream.header.shape, options.shape).map_err(&bad)?;
    let range = range(path, layout.count, options)?;
    let dtype = stream.header.dtype;
    if dtype.is_other_integer() {
        return Err(bad(format!(
            "holds {dtype} values: save images as uint8 (0 to 255) or as floats in [0, 1]"
        )));
    }
    // In Fortran order, the values of one image are spread over the whole array.
    let held = if stream.header.fortran_order {
        layout.count
    } else {
        range.len()
    };
    check_memory(held, layout.shape, limit).map_err(&bad)?;
    let mut planes = Vec::new();
    reserve(&mut planes, range.len() * layout.shape.len()).map_err(&bad)?;
    if stream.header.fortran_order {
        let array = stream.read().map_err(&bad)?;
        for index in range {
            append(&layout, index, &array.data, &mut planes);
        }
    } else {
        let n = layout.shape.len();
        stream.skip(range.start * n).map_err(&bad)?;
        for _ in range.clone() {
            append(&layout, 0, &stream.values(n).map_err(&bad)?, &mut planes);
        }
        if range.end == layout.count {
            stream.finish().map_err(&bad)?;
        }
    }
    if dtype.kind == 'f' {
        check_values(&mut planes, options.range).map_err(&bad)?;
    }
    Ok(Images::new(layout.shape, planes))
}

/// Refuses images that would take more memory than the limit.
fn check_memory(count: usize, shape: ImageShape, limit: Option<u64>) -> Result<(), String> {
    let bytes = (count as u64).saturating_mul((shape.len() * size_of::<f32>()) as u64);
    match limit.filter(|&limit| bytes > limit) {
        None => Ok(()),
        Some(limit) => Err(format!(
            "is compressed, and {count} of its images would take {} MiB; the limit is {} MiB: take fewer of them, or \
             unpack it first",
            bytes >> 20,
            limit >> 20
        )),
    }
}

/// Appends image `index` of `values` to `planes`: bytes are divided by 255.
fn append(layout: &Layout, index: usize, values: &NpyData, planes: &mut Vec<f32>) {
    match values {
        NpyData::Bool(values) => layout.append(index, values, |v| f32::from(u8::from(v)), planes),
        NpyData::U8(values) => layout.append(index, values, |v| f32::from(v) / 255.0, planes),
        NpyData::I64(values) => layout.append(index, values, |v| v as f32, planes),
        NpyData::F32(values) => layout.append(index, values, |v| v, planes),
        NpyData::F64(values) => layout.append(index, values, |v| v as f32, planes),
    }
}

/// Refuses the ranges other programs use, because a wrong one looks almost right until the results are bad.
fn check_values(values: &mut [f32], allowed: ValueRange) -> Result<(), String> {
    let (mut least, mut greatest) = (f32::INFINITY, f32::NEG_INFINITY);
    let (mut finite, mut far_outside) = (true, 0);
    for &value in values.iter() {
        finite &= value.is_finite();
        least = least.min(value);
        greatest = greatest.max(value);
        far_outside += usize::from(value.is_finite() && !(-0.5..=1.5).contains(&value));
    }
    let in_range = match allowed {
        ValueRange::Unit if !finite => return Err("holds NaN or infinite values".into()),
        ValueRange::Unit => least >= -SLACK && greatest <= 1.0 + SLACK,
        // A sampler overshoots in a few pixels; images in [−1, 1] or 0..255 lie outside in many.
        ValueRange::Estimate => far_outside * 20 <= values.len(),
    };
    if in_range {
        if allowed == ValueRange::Unit {
            values.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        }
        return Ok(());
    }
    let advice = if least >= -1.0 - SLACK && greatest <= 1.0 + SLACK {
        "they look like [-1, 1]: save (x + 1) / 2"
    } else if least >= 0.0 && (BRIGHT..=255.0).contains(&greatest) {
        "they look like 0 to 255: divide by 255 or save as uint8"
    } else {
        "rescale or clip them"
    };
    Err(format!(
        "holds values from {least} to {greatest}, but images must lie in [0, 1]; {advice}"
    ))
}

/// The chosen images among `available`.
fn range(path: &Path, available: usize, options: &LoadOptions) -> Result<Range<usize>> {
    if available == 0 {
        return Err(no_images(path));
    }
    let first = options.first;
    let count = options.count.unwrap_or(available.saturating_sub(first));
    match first.checked_add(count) {
        Some(end) if end <= available && count > 0 => Ok(first..end),
        _ => Err(Error::usage(format!(
            "{}: holds {available} images, so {count} from index {first} on cannot be taken",
            path.display(),
        ))),
    }
}

fn no_images(path: &Path) -> Error {
    Error::bad_file(path, "holds no images")
}

//! JPEG, baseline and progressive.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{MAX_SIDE, Orientation, Picture, Samples, check_size, room};

/// A block of 8×8 pixels takes at least one bit.
const PIXELS_PER_BYTE: usize = 8 * 64;

/// Grey stays grey; everything else, CMYK too, becomes RGB.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    let (mut decoder, (height, width)) = begin(bytes)?;
    let (colour, channels) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
        _ => (ColorSpace::RGB, 3),
    };
    decoder.set_options(options().jpeg_set_out_colorspace(colour));
    let mut samples = room(width * height * channels)?;
    decoder.decode_into(&mut samples).map_err(|e| words(&e))?;
    let exif = decoder.exif().map(Vec::as_slice);
    Ok(Picture {
        width,
        height,
        channels,
        samples: Samples::Bytes(samples),
        orientation: Orientation::from_exif(exif.unwrap_or_default()),
    })
}

/// Height and width, of a size that is not refused.
pub(super) fn sides(bytes: &[u8]) -> Result<(usize, usize), String> {
    begin(bytes).map(|(_, sides)| sides)
}

/// A decoder behind the headers, height and width.
type Begun<'a> = (JpegDecoder<ZCursor<&'a [u8]>>, (usize, usize));

/// The limit is checked here, in words of ours, before anything is allocated.
fn options() -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX)
}

/// Reads the headers.
fn begin(bytes: &[u8]) -> Result<Begun<'_>, String> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options());
    decoder.decode_headers().map_err(|e| words(&e))?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    check_size(width, height, bytes.len(), PIXELS_PER_BYTE)?;
    Ok((decoder, (height, width)))
}

fn words(error: &DecodeErrors) -> String {
    let reason = match error {
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => return "is a truncated JPEG".into(),
        DecodeErrors::LargeDimensions(_) => return format!("is more than {MAX_SIDE} pixels wide or high, the limit"),
        DecodeErrors::Unsupported(_) => {
            return "is a lossless or arithmetically coded JPEG: save it as an ordinary one, or as PNG".into();
        }
        DecodeErrors::ZeroError => return "is an empty picture".into(),
        DecodeErrors::FormatStatic(reason) => reason,
        DecodeErrors::Format(reason)
        | DecodeErrors::HuffmanDecode(reason)
        | DecodeErrors::DqtError(reason)
        | DecodeErrors::SosError(reason)
        | DecodeErrors::SofError(reason)
        | DecodeErrors::MCUError(reason) => reason.as_str(),
        _ => "its start is not one",
    };
    let reason: String = reason.chars().take(200).filter(|c| !c.is_control()).collect();
    format!("is a damaged JPEG ({})", reason.trim_end_matches('.'))
}

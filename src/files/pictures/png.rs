//! PNG of every depth and colour type.

use std::io::{Cursor, ErrorKind};

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::{Orientation, Picture, Samples, check_size, room};
use crate::files::MAX_INFLATION;

/// Bytes that anything but the pixels may take. Colour profiles and texts, which can be long, are not read at all.
const MAX_EXTRAS: usize = 1 << 22;

/// Palettes and fewer than 8 bits are expanded; colour profiles and gamma are ignored.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    let (decoder, (height, width)) = begin(bytes)?;
    let mut reader = decoder.read_info().map_err(|e| words(&e))?;
    let mut samples = room(reader.output_buffer_size().unwrap_or(usize::MAX))?;
    let (colour, depth) = reader.output_color_type();
    reader.next_frame(&mut samples).map_err(|e| words(&e))?;
    // The pixels are complete. What may follow them, an orientation among it, need not be.
    let _ = reader.finish();
    let exif = reader.info().exif_metadata.as_deref();
    Ok(Picture {
        width,
        height,
        channels: match colour {
            ColorType::Grayscale => 1,
            ColorType::GrayscaleAlpha => 2,
            ColorType::Rgb => 3,
            ColorType::Rgba => 4,
            ColorType::Indexed => return Err("has a palette that cannot be expanded".into()),
        },
        samples: match depth {
            BitDepth::Eight => Samples::Bytes(samples),
            BitDepth::Sixteen => Samples::Words(samples),
            _ => return Err("has a depth that cannot be expanded".into()),
        },
        orientation: Orientation::from_exif(exif.unwrap_or_default()),
    })
}

/// Height and width, of a size that is not refused.
pub(super) fn sides(bytes: &[u8]) -> Result<(usize, usize), String> {
    begin(bytes).map(|(_, sides)| sides)
}

/// A decoder behind the header, height and width.
type Begun<'a> = (Decoder<Cursor<&'a [u8]>>, (usize, usize));

/// Reads the header.
fn begin(bytes: &[u8]) -> Result<Begun<'_>, String> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MAX_EXTRAS });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let header = decoder.read_header_info().map_err(|e| words(&e))?;
    let (width, height) = (header.width as usize, header.height as usize);
    // Eight pixels of one bit share a byte.
    check_size(width, height, bytes.len(), 8 * MAX_INFLATION as usize)?;
    Ok((decoder, (height, width)))
}

/// The decoder's messages quote its own data structures; people know chunks by their names.
fn words(error: &DecodingError) -> String {
    match error {
        DecodingError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => "is a truncated PNG".into(),
        DecodingError::LimitsExceeded => {
            let limit = MAX_EXTRAS >> 20;
            format!("is a PNG with more than {limit} MiB of data that are not pixels: save it without them")
        }
        other => {
            let text = other.to_string();
            let text = match text.split_once("Corrupt deflate stream") {
                Some(_) => "its compressed data are corrupt".into(),
                None => with_chunk_names(&text),
            };
            format!("is a damaged PNG ({})", text.trim_end_matches('.'))
        }
    }
}

/// Turns `ChunkType { type: IDAT, critical: true, … }` into `IDAT`.
fn with_chunk_names(text: &str) -> String {
    let Some((before, rest)) = text.split_once("ChunkType { type: ") else {
        return text.to_owned();
    };
    let (fields, after) = rest.split_once(" }").unwrap_or((rest, ""));
    let name = fields.split(", ").next().unwrap_or_default();
    let is_name = name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let name = if is_name { name } else { "unknown" };
    format!("{before}{name}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_called_by_its_name() {
        let text = "CRC error: while decoding ChunkType { type: IDAT, critical: true, private: false } chunk.";
        assert_eq!(with_chunk_names(text), "CRC error: while decoding IDAT chunk.");
        let text = "ChunkType { type: \\u{1c}HDR, critical: true } chunk appeared before IHDR chunk";
        assert_eq!(with_chunk_names(text), "unknown chunk appeared before IHDR chunk");
        assert_eq!(with_chunk_names("Invalid bit depth 3."), "Invalid bit depth 3.");
    }
}

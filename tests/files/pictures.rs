//! PNG of every depth and colour type, JPEG, and what cameras write beside the pixels.

use std::io::Write;
use std::path::Path;

use flate2::{Compression, Crc, write::ZlibEncoder};
use qcs::files::{LoadOptions, load_images};
use qcs::{ImageShape, Images};

use crate::memory::largest_allocation;
use crate::{complaint, fixture};

/// The least of a PNG file, written chunk by chunk so that none of it is the decoder's own idea.
pub struct Png {
    pub width: u32,
    pub height: u32,
    pub depth: u8,
    /// 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha.
    pub colour: u8,
    pub interlaced: bool,
    /// Chunks between the header and the pixels.
    pub extras: Vec<([u8; 4], Vec<u8>)>,
}

impl Png {
    pub fn new(width: u32, height: u32, colour: u8, depth: u8) -> Self {
        Self {
            width,
            height,
            depth,
            colour,
            interlaced: false,
            extras: Vec::new(),
        }
    }

    fn channels(&self) -> usize {
        [1, 0, 3, 1, 2, 0, 4][usize::from(self.colour)]
    }

    /// The file, its samples as `sample` gives them for column, row and channel.
    pub fn bytes(&self, sample: impl Fn(u32, u32, usize) -> u16) -> Vec<u8> {
        let mut rows = Vec::new();
        let passes: &[[u32; 4]] = if self.interlaced { &ADAM7 } else { &[[0, 0, 1, 1]] };
        for &[left, top, across, down] in passes {
            for y in (top..self.height).step_by(down as usize) {
                let row: Vec<u16> = (left..self.width)
                    .step_by(across as usize)
                    .flat_map(|x| (0..self.channels()).map(move |channel| (x, channel)))
                    .map(|(x, channel)| sample(x, y, channel))
                    .collect();
                if !row.is_empty() {
                    // No filter.
                    rows.push(0);
                    rows.extend(packed(&row, self.depth));
                }
            }
        }
        let mut pixels = ZlibEncoder::new(Vec::new(), Compression::default());
        pixels.write_all(&rows).unwrap();
        let header = [
            &self.width.to_be_bytes()[..],
            &self.height.to_be_bytes(),
            &[self.depth, self.colour, 0, 0, u8::from(self.interlaced)],
        ];
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        chunk(&mut bytes, b"IHDR", &header.concat());
        for (name, data) in &self.extras {
            chunk(&mut bytes, name, data);
        }
        chunk(&mut bytes, b"IDAT", &pixels.finish().unwrap());
        chunk(&mut bytes, b"IEND", &[]);
        bytes
    }
}

/// First column and row of each pass, and the steps between its columns and rows.
const ADAM7: [[u32; 4]; 7] = [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
];

/// Samples of so many bits, the first ones in the high bits.
fn packed(samples: &[u16], depth: u8) -> Vec<u8> {
    match depth {
        16 => samples.iter().flat_map(|sample| sample.to_be_bytes()).collect(),
        _ => samples
            .chunks(usize::from(8 / depth))
            .map(|group| {
                let shifts = (0..8).step_by(usize::from(depth)).map(|used| 8 - depth - used);
                group
                    .iter()
                    .zip(shifts)
                    .fold(0, |byte, (&sample, shift)| byte | (sample as u8) << shift)
            })
            .collect(),
    }
}

fn chunk(bytes: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    bytes.extend((data.len() as u32).to_be_bytes());
    let mut checksum = Crc::new();
    for part in [&name[..], data] {
        checksum.update(part);
        bytes.extend(part);
    }
    bytes.extend(checksum.sum().to_be_bytes());
}

/// A file of 9×7 pixels whose header says that it has so many.
pub fn announcing(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Png::new(9, 7, 0, 8).bytes(sample(8));
    // The size stands behind the signature, the length and the name of the first chunk.
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let mut checksum = Crc::new();
    checksum.update(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.sum().to_be_bytes());
    bytes
}

fn load_bytes(bytes: &[u8]) -> qcs::Result<Images> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    std::fs::write(&path, bytes).unwrap();
    load_images(&path, &LoadOptions::default())
}

fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    std::fs::write(&path, bytes).unwrap();
    complaint(load_images(&path, &LoadOptions::default()), &path)
}

/// Different in every channel and pixel, and within any depth.
fn sample(depth: u8) -> impl Fn(u32, u32, usize) -> u16 {
    let greatest = (1u32 << depth) - 1;
    move |x, y, channel| ((x * 5 + y * 77 + channel as u32 * 31 + x * y) * 0x0107 % (greatest + 1)) as u16
}

#[test]
fn every_depth_and_colour_type_of_png_is_read_plain_and_interlaced() {
    let (width, height) = (13, 11);
    for (colour, depths) in [
        (0, &[1, 2, 4, 8, 16][..]),
        (2, &[8, 16]),
        (3, &[1, 2, 4, 8]),
        (4, &[8, 16]),
        (6, &[8, 16]),
    ] {
        for (&depth, interlaced) in depths.iter().flat_map(|depth| [(depth, false), (depth, true)]) {
            let mut file = Png {
                interlaced,
                ..Png::new(width, height, colour, depth)
            };
            let palette: Vec<u8> = (0..3 << depth.min(8)).map(|i| (i * 7 % 256) as u8).collect();
            if colour == 3 {
                file.extras.push((*b"PLTE", palette.clone()));
            }
            let opaque = if colour > 3 { Some(file.channels() - 1) } else { None };
            let greatest = f32::from(u16::MAX >> (16 - depth));
            let value = |x, y, channel| match opaque {
                Some(alpha) if alpha == channel => u16::MAX >> (16 - depth),
                _ => sample(depth)(x, y, channel),
            };
            let images = load_bytes(&file.bytes(value)).unwrap();
            let channels = if matches!(colour, 0 | 4) { 1 } else { 3 };
            assert_eq!(images.shape, ImageShape::new(channels, height as usize, width as usize));
            for (at, &found) in images.data.iter().enumerate() {
                let (channel, pixel) = (at / 143, at as u32 % 143);
                let stored = value(pixel % width, pixel / width, if colour == 3 { 0 } else { channel });
                let expected = match colour {
                    3 => f32::from(palette[3 * usize::from(stored) + channel]) / 255.0,
                    _ => f32::from(stored) / greatest,
                };
                assert_eq!(
                    found, expected,
                    "type {colour}, {depth} bits, interlaced {interlaced}, at {at}"
                );
            }
        }
    }
}

#[test]
fn a_transparent_palette_entry_is_refused_and_an_opaque_one_is_read() {
    let mut file = Png::new(4, 4, 3, 8);
    file.extras.push((*b"PLTE", vec![9; 12]));
    file.extras.push((*b"tRNS", vec![255, 254]));
    assert!(refusal(&file.bytes(|x, _, _| x as u16 % 2)).contains("transparent"));
    assert!(load_bytes(&file.bytes(|_, _, _| 0)).is_ok());
}

/// EXIF data that say how the camera was held.
fn exif(orientation: u8) -> Vec<u8> {
    let mut bytes = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    bytes.extend([orientation, 0, 0]);
    bytes
}

#[test]
fn a_png_is_turned_as_its_exif_data_say() {
    let stored = |x: u32, y: u32, _| (3 * y + x) as u16;
    let mut file = Png::new(3, 2, 0, 8);
    file.extras.push((*b"eXIf", exif(8)));
    let images = load_bytes(&file.bytes(stored)).unwrap();
    assert_eq!(images.shape, ImageShape::new(1, 3, 2));
    let bytes: Vec<f32> = images.data.iter().map(|v| (v * 255.0).round()).collect();
    assert_eq!(bytes, [2.0, 5.0, 1.0, 4.0, 0.0, 3.0]);
}

#[test]
fn a_jpeg_is_turned_as_its_exif_data_say() {
    let upright = load(&fixture("rgb.jpg")).unwrap();
    let turned = load(&fixture("turned.jpg")).unwrap();
    assert_eq!(upright.shape, ImageShape::new(3, 17, 24));
    assert_eq!(turned.shape, ImageShape::new(3, 24, 17));
    // Orientation 6: the first row is the stored left column, from below.
    for channel in 0..3 {
        for (row, column) in (0..24).flat_map(|row| (0..17).map(move |column| (row, column))) {
            let expected = upright.data[channel * 408 + (16 - column) * 24 + row];
            assert_eq!(turned.data[channel * 408 + row * 17 + column], expected);
        }
    }
}

fn load(path: &Path) -> qcs::Result<Images> {
    load_images(path, &LoadOptions::default())
}

#[test]
fn jpegs_are_close_to_the_picture_they_were_made_from() {
    // Bounds in bytes: Pillow's own decoder is off by 4 without subsampling, by 8 with the chroma halved.
    for (name, bound) in [("rgb.jpg", 6.0), ("cmyk.jpg", 6.0), ("progressive.jpg", 16.0)] {
        let images = load(&fixture(name)).unwrap();
        assert_eq!(images.shape, ImageShape::new(3, 17, 24), "{name}");
        for (at, value) in images.data.iter().enumerate() {
            let (row, column) = (at / 24 % 17, at % 24);
            let expected = [10 * column, 15 * row, 128][at / 408] as f32;
            assert!((255.0 * value - expected).abs() <= bound, "{name} at {at}: {value}");
        }
    }
    let grey = load(&fixture("grey.jpg")).unwrap();
    assert_eq!(grey.shape, ImageShape::new(1, 17, 24));
    assert!(
        grey.data
            .iter()
            .enumerate()
            .all(|(at, v)| (255.0 * v - (at % 24 * 10) as f32).abs() <= 3.0)
    );
}

#[test]
fn the_messages_about_a_bad_png_are_words() {
    let whole = Png::new(9, 7, 2, 8).bytes(sample(8));
    let pixels = whole.windows(4).position(|name| name == b"IDAT").unwrap();
    let mut flipped = whole.clone();
    // The checksum of the pixels lies before the last chunk of 12 bytes.
    flipped[whole.len() - 14] ^= 4;
    let line = refusal(&flipped);
    assert!(line.contains("IDAT") && !line.contains("ChunkType"), "{line}");
    let line = refusal(&whole[..pixels + 10]);
    assert!(line.contains("truncated"), "{line}");
    let mut header = whole.clone();
    header[25] = 7;
    let line = refusal(&header);
    assert!(line.contains("damaged PNG") && !line.contains('{'), "{line}");
    // Every damage of one byte: no braces, no quotes, no names with :: in them.
    for at in 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        if load_bytes(&bytes).is_err() {
            let line = refusal(&bytes);
            let reason = line.rsplit_once("a.png").unwrap().1;
            assert!(!reason.contains(['{', '}', '"']) && !reason.contains("::"), "{line}");
        }
    }
}

#[test]
fn a_colour_profile_of_any_length_takes_no_memory() {
    const LENGTH: usize = 48 << 20;
    let mut profile = ZlibEncoder::new(b"profile\0\0".to_vec(), Compression::fast());
    for _ in 0..LENGTH >> 16 {
        profile.write_all(&[0; 1 << 16]).unwrap();
    }
    let mut file = Png::new(9, 7, 0, 8);
    file.extras.push((*b"iCCP", profile.finish().unwrap()));
    let bytes = file.bytes(sample(8));
    largest_allocation();
    assert!(load_bytes(&bytes).is_ok());
    assert!(largest_allocation() < LENGTH / 2);
}

#[test]
fn exif_data_beyond_the_limit_are_refused_with_the_limit() {
    let mut file = Png::new(9, 7, 0, 8);
    file.extras.push((*b"eXIf", vec![0; 5 << 20]));
    assert!(refusal(&file.bytes(sample(8))).contains("4 MiB"));
}

#[test]
fn a_picture_larger_than_its_file_can_hold_is_refused_before_it_is_decoded() {
    let mut jpeg = std::fs::read(fixture("progressive.jpg")).unwrap();
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc2]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0x3f, 0xff, 0x3f, 0xff]);
    let line = refusal(&jpeg);
    assert!(line.contains("16383×16383") && line.contains("more than its"), "{line}");
    let line = refusal(&announcing(16383, 16383));
    assert!(line.contains("16383×16383") && line.contains("more than its"), "{line}");
}

#[test]
fn a_picture_of_another_kind_is_told_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.png"), "GIF89a").unwrap();
    let line = complaint(load(folder.path()), &folder.path().join("a.png"));
    assert!(line.contains("neither a PNG nor a JPEG"), "{line}");
}

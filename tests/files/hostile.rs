//! Damaged files: an error or a correct array, never a panic and never a huge allocation.

use std::io::Cursor;
use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};
use qcs::files::{LoadOptions, idx, load_images, npy};

use crate::{complaint, fixture, gzipped, idx_bytes};

/// A small generator of its own, so that a failure can be repeated.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Every proper prefix of the file must be refused.
fn refuses_truncations<T: std::fmt::Debug>(whole: &[u8], read: impl Fn(&Path) -> qcs::Result<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        complaint(read(&path), &path);
    }
}

/// Files with a few bytes changed, removed or doubled must be read or refused, not crash.
fn survives_mutations<T: std::fmt::Debug>(whole: &[u8], read: impl Fn(&Path) -> qcs::Result<T>) {
    const ROUNDS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutated");
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..ROUNDS {
        let mut bytes = whole.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, bytes[at]),
                2 => bytes[at] = 0xff,
                3 => bytes[at] = b'9',
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Err(error) = read(&path) {
            let line = error.to_string();
            assert!(!line.contains('\n') && error.exit_code() == 3, "{line}");
        }
    }
}

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn load(path: &Path) -> qcs::Result<qcs::Images> {
    load_images(path, &LoadOptions::default())
}

fn small_idx() -> Vec<u8> {
    idx_bytes(&[2, 4, 5], &(0..40).collect::<Vec<u8>>())
}

fn small_picture(format: ImageFormat) -> Vec<u8> {
    let picture = RgbImage::from_fn(9, 7, |x, y| Rgb([20 * x as u8, 30 * y as u8, 99]));
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[test]
fn an_npy_cut_at_any_byte_is_refused() {
    refuses_truncations(&bytes_of("f4_v1.npy"), |path| npy::read(path));
    refuses_truncations(&bytes_of("f8_v2.npy"), |path| npy::read(path));
}

#[test]
fn an_npz_cut_at_any_byte_is_refused() {
    refuses_truncations(&bytes_of("deflated.npz"), load);
}

#[test]
fn an_idx_cut_at_any_byte_is_refused() {
    refuses_truncations(&small_idx(), |path| idx::read(path));
    refuses_truncations(&gzipped(&small_idx()), |path| idx::read(path));
}

#[test]
fn a_mutated_npy_never_panics() {
    survives_mutations(&bytes_of("f4_v1.npy")[..], |path| npy::read(path));
    survives_mutations(&bytes_of("f4_fortran.npy")[..], |path| npy::read(path));
}

#[test]
fn a_mutated_npz_never_panics() {
    survives_mutations(&bytes_of("deflated.npz"), load);
    survives_mutations(&bytes_of("stored.npz"), load);
}

#[test]
fn a_mutated_idx_never_panics() {
    survives_mutations(&small_idx(), |path| idx::read(path));
    survives_mutations(&gzipped(&small_idx()), |path| idx::read(path));
}

#[test]
fn a_mutated_picture_never_panics() {
    survives_mutations(&small_picture(ImageFormat::Png), load);
    survives_mutations(&small_picture(ImageFormat::Jpeg), load);
}

#[test]
fn a_flipped_value_inside_an_npz_fails_its_checksum() {
    let mut bytes = bytes_of("stored.npz");
    let at = bytes
        .windows(4)
        .position(|window| window == [100, 101, 102, 103])
        .unwrap();
    bytes[at] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    std::fs::write(&path, bytes).unwrap();
    assert!(complaint(load(&path), &path).contains("damaged"));
}

#[test]
fn an_npy_that_announces_more_than_the_file_holds_is_refused_before_allocating() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.npy");
    for shape in ["(1099511627776,)", "(4294967295, 4294967295, 2)", "(25,)"] {
        let dict = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': {shape}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(dict.len()).unwrap().to_le_bytes());
        bytes.extend(dict.as_bytes());
        bytes.extend([0; 96]);
        std::fs::write(&path, bytes).unwrap();
        complaint(npy::read(&path), &path);
    }
}

#[test]
fn an_idx_that_announces_more_than_its_file_can_unpack_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge");
    let bytes = idx_bytes(&[60_000, 65_535, 65_535], &[0; 100]);
    for bytes in [gzipped(&bytes), bytes] {
        std::fs::write(&path, bytes).unwrap();
        let line = complaint(idx::read(&path), &path);
        assert!(line.contains("more than the file can hold"), "{line}");
    }
}

#[test]
fn a_png_that_would_unpack_to_gigabytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.png");
    let mut bytes = small_picture(ImageFormat::Png);
    // Width and height stand behind the signature, the length and the name of the first chunk.
    bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let line = complaint(load(&path), &path);
    assert!(line.contains("limit"), "{line}");
}

/// PNG's checksum, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

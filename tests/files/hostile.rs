//! Damaged files: an error or a correct array, never a panic and never a huge allocation.

use std::path::Path;

use qcs::files::{LoadOptions, load_images, npy};

use crate::pictures::announcing;
use crate::{complaint, fixture, gzipped, idx_bytes};

/// Every proper prefix of the file must be refused.
fn refuses_truncations<T: std::fmt::Debug>(whole: &[u8], read: impl Fn(&Path) -> qcs::Result<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for length in 0..whole.len() {
        // Some file systems flush a file that is written over to the disk, but not one that is new.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &whole[..length]).unwrap();
        complaint(read(&path), &path);
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
    refuses_truncations(&small_idx(), load);
    refuses_truncations(&gzipped(&small_idx()), load);
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
        let line = complaint(load(&path), &path);
        assert!(line.contains("more than the file can hold"), "{line}");
    }
}

#[test]
fn a_png_that_would_unpack_to_gigabytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.png");
    std::fs::write(&path, announcing(65536, 65536)).unwrap();
    let line = complaint(load(&path), &path);
    assert!(line.contains("limit"), "{line}");
}

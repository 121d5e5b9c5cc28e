//! Damaged files: an error or a correct array, never a panic and never a huge allocation.

use std::path::Path;

use qcs::files::npy;

use crate::{complaint, fixture};

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
fn refuses_truncations<T: std::fmt::Debug>(name: &str, read: impl Fn(&Path) -> qcs::Result<T>) {
    let whole = std::fs::read(fixture(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        complaint(read(&path), &path);
    }
}

/// Files with a few bytes changed, removed or doubled must be read or refused, not crash.
fn survives_mutations<T: std::fmt::Debug>(
    name: &str,
    rounds: usize,
    read: impl Fn(&Path) -> qcs::Result<T>,
) {
    let whole = std::fs::read(fixture(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..rounds {
        let mut bytes = whole.clone();
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

#[test]
fn an_npy_cut_at_any_byte_is_refused() {
    refuses_truncations("f4_v1.npy", |path| npy::read(path));
    refuses_truncations("f8_v2.npy", |path| npy::read(path));
}

#[test]
fn a_mutated_npy_never_panics() {
    survives_mutations("f4_v1.npy", 1000, |path| npy::read(path));
    survives_mutations("f4_fortran.npy", 1000, |path| npy::read(path));
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

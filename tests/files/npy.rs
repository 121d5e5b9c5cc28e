use qcs::files::{NpyData, npy};

use crate::{complaint, fixture};

#[test]
fn every_flavour_numpy_writes_is_read_as_the_same_counting_array() {
    let counting: Vec<f64> = (0..24).map(f64::from).collect();
    for name in [
        "f4_v1",
        "f8_v2",
        "f4_v3",
        "f4_fortran",
        "f8_big_endian_fortran",
        "f4_big_endian",
        "f2",
        "f2_big_endian",
        "u1",
        "i1",
        "i2",
        "u2_big_endian",
        "i4_big_endian",
        "u4",
        "i8",
    ] {
        let array = npy::read(fixture(&format!("{name}.npy"))).unwrap();
        assert_eq!(array.shape, [2, 3, 4], "{name}");
        assert_eq!(array.to_f64().as_ref(), counting, "{name}");
        let as_f32: Vec<f32> = counting.iter().map(|&v| v as f32).collect();
        assert_eq!(array.to_f32().as_ref(), as_f32, "{name}");
    }
}

#[test]
fn bools_scalars_and_empty_arrays_are_read() {
    let bools = npy::read(fixture("bool.npy")).unwrap();
    let expected: Vec<bool> = (0..24).map(|i| i % 2 == 1).collect();
    assert_eq!(bools.data, NpyData::Bool(expected));
    let scalar = npy::read(fixture("scalar.npy")).unwrap();
    assert_eq!((scalar.shape.len(), scalar.to_f64().as_ref()), (0, &[7.0][..]));
    let empty = npy::read(fixture("empty.npy")).unwrap();
    assert_eq!((empty.shape, empty.data), (vec![0, 28, 28], NpyData::F32(vec![])));
}

#[test]
fn what_is_written_is_numpys_file_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let written = |name: &str| {
        let expected = std::fs::read(fixture(name)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected, "{name}");
    };
    let shape = [2, 3, 4];
    npy::write(&path, &shape, &(0..24).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    written("f4_v1.npy");
    npy::write(&path, &shape, &(0..24).collect::<Vec<u8>>()).unwrap();
    written("u1.npy");
    npy::write(&path, &[], &[7.0f64]).unwrap();
    written("scalar.npy");
    npy::write::<f32>(&path, &[0, 28, 28], &[]).unwrap();
    written("empty.npy");
}

#[test]
fn a_large_array_survives_the_round_trip_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let values: Vec<f64> = (0..100_001).map(|i| f64::from(i).sin() * 1e-300).collect();
    npy::write(&path, &[100_001], &values).unwrap();
    assert_eq!(npy::read(&path).unwrap().data, NpyData::F64(values));
}

#[test]
fn arrays_that_are_not_numbers_are_refused_with_advice() {
    for (name, word) in [
        ("object.npy", "Python objects"),
        ("structured.npy", "structured"),
        ("complex.npy", "c8"),
        ("deflated.npz", "is not an .npy array"),
        ("missing.npy", "cannot read"),
    ] {
        let line = complaint(npy::read(fixture(name)), &fixture(name));
        assert!(line.contains(word), "{line}");
    }
}

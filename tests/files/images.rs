use std::path::{Path, PathBuf};

use qcs::files::{LoadOptions, ValueRange, load_images, npy};
use qcs::{ImageShape, Images};

use crate::memory::largest_allocation;
use crate::pictures::Png;
use crate::{complaint, fixture, gzipped, idx_bytes};

fn load(path: impl AsRef<Path>) -> qcs::Result<Images> {
    load_images(path, &LoadOptions::default())
}

/// Writes a PNG of 8 bits with `sample` for each column, row and channel.
fn save(folder: &Path, name: &str, png: &Png, sample: impl Fn(u32, u32, usize) -> u16) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, png.bytes(sample)).unwrap();
    path
}

/// Grey, all of one level.
fn save_grey(folder: &Path, name: &str, width: u32, height: u32, level: u16) -> PathBuf {
    save(folder, name, &Png::new(width, height, 0, 8), |_, _, _| level)
}

#[test]
fn every_byte_of_a_png_becomes_its_255th_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let all_bytes = |x, y, _| (16 * y + x) as u16;
    let images = load(save(folder.path(), "a.png", &Png::new(16, 16, 0, 8), all_bytes)).unwrap();
    let expected: Vec<f32> = (0..=255u8).map(|v| f32::from(v) / 255.0).collect();
    assert_eq!(images, Images::new(ImageShape::new(1, 16, 16), expected));
}

#[test]
fn rgb_and_opaque_rgba_and_16_bit_pictures_give_the_same_planes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |x, y, channel| [x as u16, 100 + y as u16, 255, 255][channel];
    let rgb = Png::new(5, 4, 2, 8);
    let expected = load(save(folder.path(), "a.png", &rgb, bytes)).unwrap();
    assert_eq!(expected.shape, ImageShape::new(3, 4, 5));
    assert_eq!(expected.data[1], 1.0 / 255.0);
    assert_eq!(expected.data[20], 100.0 / 255.0);
    assert_eq!(expected.data[59], 1.0);
    let opaque = save(folder.path(), "b.png", &Png::new(5, 4, 6, 8), bytes);
    assert_eq!(load(opaque).unwrap(), expected);
    let words = |x, y, channel| 257 * bytes(x, y, channel);
    let wide = save(folder.path(), "c.png", &Png::new(5, 4, 2, 16), words);
    assert_eq!(load(wide).unwrap(), expected);
    let transparent = |x, y, channel| bytes(x, y, channel) - u16::from((x, y, channel) == (0, 0, 3));
    let path = save(folder.path(), "d.png", &Png::new(5, 4, 6, 8), transparent);
    assert!(complaint(load(&path), &path).contains("transparent"));
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_may_be_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (name, level) in [("b.PNG", 170), ("a.png", 85), (".hidden.png", 9)] {
        save_grey(folder.path(), name, 24, 17, level);
    }
    std::fs::copy(fixture("grey.jpg"), folder.path().join("c.jpeg")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no picture").unwrap();
    let all = load(folder.path()).unwrap();
    assert_eq!(all.count(), 3);
    assert_eq!((all.image(0)[0], all.image(1)[0]), (1.0 / 3.0, 2.0 / 3.0));
    let options = LoadOptions {
        first: 1,
        count: Some(1),
        ..LoadOptions::default()
    };
    let second = load_images(folder.path(), &options).unwrap();
    assert_eq!(second.data, all.image(1));
}

#[test]
fn pictures_of_different_sizes_or_colours_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    save_grey(folder.path(), "a.png", 8, 8, 0);
    let wide = save_grey(folder.path(), "b.png", 9, 8, 0);
    let line = complaint(load(folder.path()), &wide);
    assert!(line.contains("1,8,9") && line.contains("1,8,8"), "{line}");
    save(folder.path(), "b.png", &Png::new(8, 8, 2, 8), |_, _, _| 0);
    assert!(complaint(load(folder.path()), &wide).contains("3,8,8"));
    let empty = tempfile::tempdir().unwrap();
    assert!(complaint(load(empty.path()), empty.path()).contains("holds no"));
}

#[test]
fn a_shape_that_is_asked_for_must_be_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = save_grey(folder.path(), "a.png", 8, 8, 0);
    let options = LoadOptions {
        shape: Some(ImageShape::new(1, 28, 28)),
        ..LoadOptions::default()
    };
    assert!(complaint(load_images(&path, &options), &path).contains("1,28,28"));
    let array = folder.path().join("a.npy");
    npy::write(&array, &[2, 8, 8], &[0.5f32; 128]).unwrap();
    assert!(complaint(load_images(&array, &options), &array).contains("1,28,28"));
}

#[test]
fn idx_images_are_read_plain_and_gzipped() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = idx_bytes(&[2, 4, 5], &(0..40).collect::<Vec<u8>>());
    let (plain, packed) = (folder.path().join("idx3"), folder.path().join("idx3.gz"));
    std::fs::write(&plain, &bytes).unwrap();
    std::fs::write(&packed, gzipped(&bytes)).unwrap();
    let images = load(&plain).unwrap();
    assert_eq!((images.shape, images.count()), (ImageShape::new(1, 4, 5), 2));
    assert_eq!(images.image(1)[0], 20.0 / 255.0);
    assert_eq!(load(&packed).unwrap(), images);
}

#[test]
fn npz_arrays_are_found_by_their_looks_or_by_name() {
    let deflated = load(fixture("deflated.npz")).unwrap();
    assert_eq!((deflated.shape, deflated.count()), (ImageShape::new(1, 5, 8), 6));
    assert_eq!(deflated.data[200], 200.0 / 255.0);
    assert_eq!(load(fixture("stored.npz")).unwrap(), deflated);
    let more = load(fixture("stored.npz:more")).unwrap();
    assert_eq!(more.data[200], 55.0 / 255.0);
    let line = complaint(load(fixture("stored.npz:absent")), &fixture("stored.npz"));
    assert!(line.contains("`labels`, `images`, `more`"), "{line}");
    complaint(load(fixture("stored.npz:labels")), &fixture("stored.npz"));
}

#[test]
fn the_two_well_known_wrong_ranges_are_named_with_their_cure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let refusal = |values: [f32; 4], options: &LoadOptions| {
        npy::write(&path, &[1, 1, 2, 2], &values).unwrap();
        complaint(load_images(&path, options), &path)
    };
    let unit = LoadOptions::default();
    let estimate = LoadOptions {
        range: ValueRange::Estimate,
        ..unit
    };
    for options in [&unit, &estimate] {
        assert!(refusal([-1.0, -0.9, 0.3, 1.0], options).contains("(x + 1) / 2"));
        assert!(refusal([0.0, 17.0, 128.0, 255.0], options).contains("divide by 255"));
        assert!(refusal([0.0, -900.0, 7.0, 0.1], options).contains("rescale"));
        assert!(
            refusal([0.0, 2.0, 3.0, 7.5], options).contains("rescale"),
            "far too dark for 0 to 255"
        );
    }
    assert!(refusal([0.0, 0.5, f32::NAN, 1.0], &unit).contains("NaN"));
    assert!(refusal([0.0, 0.5, 0.7, 1.5], &unit).contains("rescale or clip"));
    assert!(refusal([0.0, 0.5, 0.7, 1.1], &unit).contains("from 0 to 1.1"));
    assert!(load_images(&path, &estimate).is_ok(), "a sampler may overshoot");
}

#[test]
fn integers_that_are_not_bytes_are_refused_by_their_names() {
    for (name, kind) in [
        ("i1", "int8"),
        ("i2", "int16"),
        ("u2_big_endian", "uint16"),
        ("i4_big_endian", "int32"),
    ] {
        let path = fixture(&format!("{name}.npy"));
        let line = complaint(load(&path), &path);
        assert!(
            line.contains(&format!("holds {kind} values")) && line.contains("uint8 (0 to 255)"),
            "{line}"
        );
    }
}

#[test]
fn names_inside_an_archive_reach_the_message_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for index in 0..20 {
        let name = format!("\x1b[31mred\n{index}.npy");
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    }
    zip.finish().unwrap();
    let line = complaint(load(folder.path().join("a.npz:b\x1b")), &path);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert!(line.contains("red\\n0") && !line.contains("red\\n15"), "{line}");
}

/// More than any of the next tests may take at once: they ask for one image of a megabyte.
const FEW: usize = 16 << 20;

/// 64 images of 1024×1024 bytes, all zero but for one pixel each, which tells them apart.
fn large_idx() -> Vec<u8> {
    let mut data = vec![0; 64 << 20];
    (0..64).for_each(|image| data[image << 20] = image as u8);
    idx_bytes(&[64, 1024, 1024], &data)
}

fn one_image(path: &Path, first: usize) -> Images {
    let options = LoadOptions {
        first,
        count: Some(1),
        ..LoadOptions::default()
    };
    load_images(path, &options).unwrap()
}

#[test]
fn only_the_images_asked_for_are_read() {
    use std::io::{Seek, SeekFrom, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    std::fs::write(&path, gzipped(&large_idx())).unwrap();
    assert!(largest_allocation() >= 64 << 20, "the allocator is watched");
    in_little_memory(|| assert_eq!(one_image(&path, 63).data[0], 63.0 / 255.0));

    let array = folder.path().join("large.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&array).unwrap());
    zip.start_file("x.npy", zip::write::SimpleFileOptions::default())
        .unwrap();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (64, 1024, 1024), }";
    zip.write_all(b"\x93NUMPY\x01\x00").unwrap();
    zip.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    zip.write_all(header.as_bytes()).unwrap();
    zip.write_all(&large_idx()[16..]).unwrap();
    zip.finish().unwrap();
    in_little_memory(|| assert_eq!(one_image(&array, 5).data[0], 5.0 / 255.0));

    // 10 GiB, nearly all of it a hole in the file.
    let huge = folder.path().join("huge");
    let mut file = std::fs::File::create(&huge).unwrap();
    file.write_all(&idx_bytes(&[10 << 10, 1024, 1024], &[])).unwrap();
    file.seek(SeekFrom::Start(16 + (9999 << 20))).unwrap();
    file.write_all(&[77]).unwrap();
    file.set_len(16 + (10 << 30)).unwrap();
    in_little_memory(|| assert_eq!(one_image(&huge, 9999).data[0], 77.0 / 255.0));
}

/// Fails if `read` allocates more than a few megabytes at once.
fn in_little_memory(read: impl FnOnce()) {
    largest_allocation();
    read();
    let largest = largest_allocation();
    assert!(largest < FEW, "{largest} bytes at once");
}

#[test]
fn a_compressed_file_with_more_images_than_memory_is_allowed_names_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb");
    // 5 GiB of f32 in a gzip file of 1.3 MB; the bytes are made as they are packed.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    use std::io::Write;
    packed.write_all(&idx_bytes(&[1280, 1024, 1024], &[])).unwrap();
    for _ in 0..1280 {
        packed.write_all(&[0; 1 << 20]).unwrap();
    }
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let line = complaint(load(&path), &path);
    assert!(line.contains("5120 MiB") && line.contains("4096 MiB"), "{line}");
    assert_eq!(one_image(&path, 3).count(), 1);
}

#[test]
fn asking_for_more_images_than_there_are_is_a_usage_error() {
    for (first, count) in [
        (0, Some(7)),
        (6, None),
        (6, Some(1)),
        (usize::MAX, Some(2)),
        (0, Some(0)),
    ] {
        let options = LoadOptions {
            first,
            count,
            ..LoadOptions::default()
        };
        let error = load_images(fixture("stored.npz"), &options).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains("6 images"), "{error}");
    }
}

#[test]
fn files_that_are_no_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "hello").unwrap();
    assert!(complaint(load(&path), &path).contains("holds no images"));
    std::fs::write(&path, "").unwrap();
    assert!(complaint(load(&path), &path).contains("empty"));
    let missing = folder.path().join("missing");
    assert!(complaint(load(&missing), &missing).contains("cannot read"));
    std::fs::write(&path, idx_bytes(&[3], &[1, 2, 3])).unwrap();
    assert!(complaint(load(&path), &path).contains("no batch"));
}

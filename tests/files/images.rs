use std::path::{Path, PathBuf};

use image::{DynamicImage, GrayImage, Luma, Rgb, RgbImage};
use qcs::files::{LoadOptions, ValueRange, load_images, npy};
use qcs::{ImageShape, Images};

use crate::{complaint, fixture, gzipped, idx_bytes};

fn load(path: impl AsRef<Path>) -> qcs::Result<Images> {
    load_images(path, &LoadOptions::default())
}

/// 16×16 grey levels: every byte once.
fn all_bytes() -> GrayImage {
    GrayImage::from_fn(16, 16, |x, y| Luma([(16 * y + x) as u8]))
}

fn save(folder: &Path, name: &str, picture: impl Into<DynamicImage>) -> PathBuf {
    let path = folder.join(name);
    picture.into().save(&path).unwrap();
    path
}

#[test]
fn every_byte_of_a_png_becomes_its_255th_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let images = load(save(folder.path(), "a.png", all_bytes())).unwrap();
    let expected: Vec<f32> = (0..=255u8).map(|v| f32::from(v) / 255.0).collect();
    assert_eq!(images, Images::new(ImageShape::new(1, 16, 16), expected));
}

#[test]
fn rgb_and_opaque_rgba_and_16_bit_pictures_give_the_same_planes() {
    let folder = tempfile::tempdir().unwrap();
    let rgb = RgbImage::from_fn(5, 4, |x, y| Rgb([x as u8, 100 + y as u8, 255]));
    let expected = load(save(folder.path(), "a.png", rgb.clone())).unwrap();
    assert_eq!(expected.shape, ImageShape::new(3, 4, 5));
    assert_eq!(expected.data[1], 1.0 / 255.0);
    assert_eq!(expected.data[20], 100.0 / 255.0);
    assert_eq!(expected.data[59], 1.0);
    let picture = DynamicImage::from(rgb);
    for other in [
        DynamicImage::from(picture.to_rgba8()),
        DynamicImage::from(picture.to_rgb16()),
    ] {
        assert_eq!(load(save(folder.path(), "b.png", other)).unwrap(), expected);
    }
    let mut transparent = picture.to_rgba8();
    transparent.get_pixel_mut(0, 0)[3] = 254;
    let path = save(folder.path(), "c.png", transparent);
    assert!(complaint(load(&path), &path).contains("transparent"));
}

#[test]
fn a_jpeg_is_close_to_the_picture_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = save(folder.path(), "a.jpg", GrayImage::from_pixel(9, 8, Luma([51])));
    let images = load(path).unwrap();
    assert_eq!(images.shape, ImageShape::new(1, 8, 9));
    assert!(images.data.iter().all(|v| (v - 0.2).abs() < 0.01));
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_may_be_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (name, level) in [("b.PNG", 2), ("a.png", 1), ("c.jpeg", 3), (".hidden.png", 9)] {
        save(
            folder.path(),
            name,
            GrayImage::from_pixel(8, 8, Luma([85 * level as u8 % 255])),
        );
    }
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
    save(folder.path(), "a.png", GrayImage::new(8, 8));
    let wide = save(folder.path(), "b.png", GrayImage::new(9, 8));
    let line = complaint(load(folder.path()), &wide);
    assert!(line.contains("1,8,9") && line.contains("1,8,8"), "{line}");
    save(folder.path(), "b.png", RgbImage::new(8, 8));
    assert!(complaint(load(folder.path()), &wide).contains("3,8,8"));
    let empty = tempfile::tempdir().unwrap();
    assert!(complaint(load(empty.path()), empty.path()).contains("holds no"));
}

#[test]
fn a_shape_that_is_asked_for_must_be_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = save(folder.path(), "a.png", GrayImage::new(8, 8));
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
    assert!(line.contains("labels, images, more"), "{line}");
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
    }
    assert!(refusal([0.0, 0.5, f32::NAN, 1.0], &unit).contains("NaN"));
    assert!(refusal([0.0, 0.5, 0.7, 1.1], &unit).contains("from 0 to 1.1"));
    assert!(load_images(&path, &estimate).is_ok(), "a sampler may overshoot");
}

#[test]
fn integers_that_are_not_bytes_are_refused() {
    let path = fixture("i4_big_endian.npy");
    assert!(complaint(load(&path), &path).contains("uint8"));
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

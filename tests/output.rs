//! What a run writes: pictures that read back, a grid that shows what it should, valid JSON and CSV.

use std::fs;

use qcs::files::{LoadOptions, load_images};
use qcs::output::{Colour, Grid, ImageMetrics, Picture, Report, Series, Style, contact_sheet, png};
use qcs::{ImageShape, Images};

fn images(shape: ImageShape, count: usize) -> Images {
    let data = (0..count * shape.len()).map(|i| (i * 37 % 256) as f32 / 255.0);
    Images::new(shape, data.collect())
}

fn series<'a>(title: &str, images: &'a Images, style: Style) -> Series<'a> {
    Series {
        title: title.into(),
        note: None,
        images,
        captions: None,
        style,
    }
}

fn share_of(picture: &Picture, colour: Colour) -> f64 {
    let count = picture.pixels().iter().filter(|&&pixel| pixel == colour).count();
    count as f64 / f64::from(picture.width() * picture.height())
}

#[test]
fn images_written_as_png_are_loaded_as_the_same_images() {
    for shape in [ImageShape::new(1, 28, 20), ImageShape::new(3, 9, 16)] {
        let folder = tempfile::tempdir().unwrap();
        let written = images(shape, 11);
        png::write_images(folder.path().join("samples"), &written, 0..written.count(), None).unwrap();
        let read = load_images(folder.path().join("samples"), &LoadOptions::default()).unwrap();
        assert_eq!(read, written);
    }
}

#[test]
fn values_outside_the_range_are_clamped_and_values_between_bytes_rounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    let values = [-0.5, 1.5, 0.4999 / 255.0, 0.5001 / 255.0, f32::NAN, f32::INFINITY];
    png::write_image(&path, ImageShape::new(1, 2, 3), &values).unwrap();
    let read = load_images(&path, &LoadOptions::default()).unwrap();
    assert_eq!(read.data, [0.0, 1.0, 0.0, 1.0 / 255.0, 0.0, 1.0]);
}

#[test]
fn a_picture_that_cannot_be_written_is_one_line_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let blocker = folder.path().join("file");
    fs::write(&blocker, "x").unwrap();
    let some = images(ImageShape::new(1, 8, 8), 1);
    let error = png::write_images(blocker.join("samples"), &some, 0..some.count(), None).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
    let error = png::write_image(blocker.join("a.png"), some.shape, some.image(0)).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_name_that_promises_another_kind_of_picture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let some = images(ImageShape::new(1, 8, 8), 1);
    for name in ["a.jpg", "a.JPEG", "a.webp"] {
        let path = folder.path().join(name);
        let error = png::write_picture(&path, &contact_sheet(&some, 1)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("a.png"), "{error}");
    }
    for name in ["a.png", "a.PNG", "a"] {
        png::write_picture(folder.path().join(name), &contact_sheet(&some, 1)).unwrap();
    }
}

#[test]
fn small_images_are_enlarged_by_whole_factors_in_the_grid() {
    // Text is drawn in shades that are never a plain middle grey, so these pixels are the images'.
    let shape = ImageShape::new(1, 28, 28);
    let grey = Images::new(shape, vec![0.5; 10 * shape.len()]);
    let picture = Grid::new(vec![series("truth", &grey, Style::Intensity)]).render();
    let grey_pixels = share_of(&picture, [128; 3]) * f64::from(picture.width() * picture.height());
    let side = (grey_pixels / 10.0).sqrt();
    assert!(side >= 84.0 && side % 28.0 == 0.0, "{side}");
}

#[test]
fn every_image_count_gives_a_picture_with_all_images() {
    let shape = ImageShape::new(3, 8, 12);
    for count in [1, 3, 4, 10, 11, 25] {
        let truth = Images::new(shape, vec![0.5; count * shape.len()]);
        let deviation = Images::new(shape, vec![0.1; count * shape.len()]);
        let mut captioned = series("a rather long title for a method", &truth, Style::Intensity);
        captioned.captions = Some(vec!["18.53 dB, SSIM 0.91".into(); count]);
        captioned.note = Some("18.5 ± 0.4 dB".into());
        let grid = Grid::new(vec![captioned, series("std", &deviation, Style::Heat)]);
        let picture = grid.render();
        let pixels = f64::from(picture.width() * picture.height());
        let grey = share_of(&picture, [128; 3]) * pixels / count as f64;
        // A captioned grey image and a uniform deviation, which is the top of its own scale.
        let factor = (grey / 96.0).sqrt();
        assert_eq!(factor, factor.round(), "{count} images");
        let hottest = share_of(&picture, [252, 255, 164]) * pixels / count as f64;
        assert!(hottest >= grey, "{count} images: {hottest} {grey}");
    }
}

#[test]
fn a_heat_map_of_zeros_or_with_nan_is_drawn() {
    let shape = ImageShape::new(1, 8, 8);
    let zeros = Images::new(shape, vec![0.0; 64]);
    let mut broken = zeros.clone();
    broken.data[5] = f32::NAN;
    broken.data[6] = f32::INFINITY;
    for images in [&zeros, &broken] {
        let picture = Grid::new(vec![series("std", images, Style::Heat)]).render();
        assert!(share_of(&picture, [0, 0, 4]) > 0.2);
    }
}

#[test]
fn a_grid_is_written_as_a_png_that_decodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grid.png");
    let some = images(ImageShape::new(3, 32, 32), 4);
    let grid = Grid::new(vec![series("truth", &some, Style::Intensity)]);
    grid.write(&path).unwrap();
    let (read, drawn) = (load_images(&path, &LoadOptions::default()).unwrap(), grid.render());
    assert_eq!(
        (read.shape.width, read.shape.height),
        (drawn.width() as usize, drawn.height() as usize)
    );
    let plane = drawn.pixels().len();
    for (at, pixel) in drawn.pixels().iter().enumerate() {
        let found = [0, 1, 2].map(|channel| (255.0 * read.data[channel * plane + at]).round() as u8);
        assert_eq!(found, *pixel);
    }
}

#[test]
#[should_panic(expected = "the same images")]
fn series_of_different_images_cannot_make_a_grid() {
    let (four, five) = (images(ImageShape::new(1, 8, 8), 4), images(ImageShape::new(1, 8, 8), 5));
    Grid::new(vec![
        series("a", &four, Style::Intensity),
        series("b", &five, Style::Intensity),
    ]);
}

#[test]
fn a_contact_sheet_shows_every_image_once() {
    let shape = ImageShape::new(1, 28, 28);
    let grey = Images::new(shape, vec![0.5; 7 * shape.len()]);
    let sheet = contact_sheet(&grey, 3);
    assert_eq!((sheet.width(), sheet.height()), (3 * 88 + 4, 3 * 88 + 4));
    let pixels = sheet.pixels().iter().filter(|&&pixel| pixel == [128; 3]).count();
    assert_eq!(pixels, 7 * 84 * 84);
}

fn metrics(index: usize, method: &str, psnr: Option<f64>) -> ImageMetrics {
    ImageMetrics {
        index,
        name: None,
        method: method.into(),
        psnr,
        psnr_scaled: psnr,
        exact: psnr == Some(f64::INFINITY),
        ssim: psnr.map(|_| 0.5),
        consistency: Some(0.75),
        predicted_error: None,
        evaluations: None,
        ep_iterations: None,
        same_digit: None,
        contradicted: false,
        diverged: false,
    }
}

fn json_of(report: &Report) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.json");
    report.write_json(&path).unwrap();
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_json_report_holds_each_image_and_a_summary_of_each_method() {
    let rows = vec![
        metrics(0, "ep", Some(20.0)),
        metrics(0, "diag", Some(15.0)),
        metrics(1, "ep", Some(22.0)),
        metrics(1, "diag", Some(16.0)),
    ];
    let json = json_of(&Report::new(rows, &[("diag", 3.5)]));
    assert_eq!(json["images"].as_array().unwrap().len(), 4);
    assert_eq!(json["images"][2]["psnr"], 22.0);
    assert_eq!(json["methods"][0]["method"], "ep");
    assert_eq!(json["methods"][0]["psnr"]["mean"], 21.0);
    assert_eq!(json["methods"][0]["psnr"]["standard_error"], 1.0);
    assert_eq!(json["methods"][0]["psnr"]["count"], 2);
    assert!(json["methods"][0]["seconds"].is_null());
    assert_eq!(json["methods"][1]["seconds"], 3.5);
}

#[test]
fn json_stays_valid_without_truth_with_infinite_psnr_and_with_divergence() {
    let json = json_of(&Report::new(vec![metrics(0, "ep", None)], &[]));
    assert!(json["images"][0]["psnr"].is_null() && json["methods"][0]["psnr"].is_null());
    assert_eq!(json["methods"][0]["consistency"]["mean"], 0.75);
    let rows = vec![metrics(0, "ep", Some(f64::INFINITY)), metrics(1, "ep", Some(20.0))];
    let json = json_of(&Report::new(rows, &[]));
    assert!(json["images"][0]["psnr"].is_null() && json["methods"][0]["psnr"]["mean"].is_null());
    assert!(json["images"][0]["exact"] == true && json["images"][1]["exact"].is_null());
    assert!(json["methods"][0]["psnr"]["standard_error"].is_null());
    let json = json_of(&Report::new(vec![metrics(0, "ep", Some(f64::NAN))], &[]));
    assert!(json["images"][0]["psnr"].is_null() && json["images"][0]["exact"].is_null());
}

#[test]
fn a_report_is_read_back_as_it_was_and_every_change_of_a_letter_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.json");
    let named = ImageMetrics {
        name: Some("a \"checksum\" {\n.png".to_owned()),
        ..metrics(1, "ep", Some(20.0))
    };
    let report = Report::new(vec![metrics(0, "ep", Some(f64::INFINITY)), named], &[("ep", 0.1)]);
    report.write_json(&path).unwrap();
    assert_eq!(Report::read_json(&path).unwrap(), report);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 7);
        fs::write(&path, damaged).unwrap();
        // What is still believed is what was written: the damage hit the checksum's own name, or the end of the last line.
        if let Ok(read) = Report::read_json(&path) {
            assert_eq!(read, report, "byte {at}");
        }
    }
    // One without a checksum is of an earlier version.
    let text = String::from_utf8(whole).unwrap();
    let old: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("  \"checksum\""))
        .collect();
    fs::write(&path, old.join("\n").replace("\"psnr\": null", "\"psnr\": \"inf\"")).unwrap();
    assert_eq!(Report::read_json(&path).unwrap(), report);
}

#[test]
fn diverged_images_are_marked_and_left_out_of_the_means() {
    let lost = ImageMetrics {
        diverged: true,
        ..metrics(1, "ep", Some(3.0))
    };
    let json = json_of(&Report::new(vec![metrics(0, "ep", Some(20.0)), lost.clone()], &[]));
    assert_eq!(json["images"][1]["diverged"], true);
    assert_eq!(json["images"][1]["psnr"], 3.0);
    assert_eq!(json["methods"][0]["images"], 2);
    assert_eq!(json["methods"][0]["diverged"], 1);
    assert_eq!(json["methods"][0]["psnr"]["mean"], 20.0);
    assert_eq!(json["methods"][0]["psnr"]["count"], 1);
    let json = json_of(&Report::new(vec![lost], &[]));
    assert!(json["methods"][0]["psnr"].is_null());
}

#[test]
fn the_csv_report_has_one_row_per_image_and_quotes_what_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.csv");
    let named = ImageMetrics {
        name: Some("a, b.png".to_owned()),
        ..metrics(7, "ep, \"cold\"", None)
    };
    let rows = vec![metrics(0, "ep", Some(f64::INFINITY)), named];
    Report::new(rows, &[]).write_csv(&path).unwrap();
    let expected = "index,method,psnr,psnr_scaled,ssim,consistency,predicted_error,evaluations,ep_iterations,same_digit,diverged,name\n\
                    0,ep,inf,inf,0.5,0.75,,,,,false,\n\
                    7,\"ep, \"\"cold\"\"\",,,,0.75,,,,,false,\"a, b.png\"\n";
    assert_eq!(fs::read_to_string(path).unwrap(), expected);
}

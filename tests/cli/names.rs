//! Pictures that people bring: their names in the results, their sizes, the array that an archive's images came from.

use qcs::ImageShape;
use qcs::files::load_images;
use qcs::output::png;

use crate::folders::files_in;
use crate::support::{IMAGE, Place, images};

const RUN: &str = "-m 12 --bits 2 --step 0.5 --model model.safetensors --levels 3 --quiet";

/// A folder of small pictures with these names.
fn folder(place: &Place, names: &[&str]) {
    std::fs::create_dir(place.path("folder")).unwrap();
    for (name, image) in names.iter().zip(images(names.len()).iter()) {
        let path = place.path("folder/one.png");
        png::write_image(&path, IMAGE, image).unwrap();
        std::fs::rename(path, place.path("folder").join(name)).unwrap();
    }
}

/// A grey picture of this size, brighter to the right.
fn picture(place: &Place, name: &str, width: usize, height: usize) {
    let values: Vec<f32> = (0..width * height)
        .map(|at| (at % width) as f32 / width as f32)
        .collect();
    png::write_image(place.path(name), ImageShape::new(1, height, width), &values).unwrap();
}

#[test]
fn results_carry_the_names_of_the_pictures_whatever_they_are_called() {
    let place = Place::new();
    // Two have the same stem, one has a comma, quotes and a space; in the order in which people count.
    let names = ["img2.png", "img10.png", "same.jpg", "same.png", "ä, \"b\" c.png"];
    folder(&place, &names);
    place.succeeds(&format!("run folder --out run --chains 2 {RUN}"));
    let json: serde_json::Value = serde_json::from_str(&place.text("run/metrics.json")).unwrap();
    let named: Vec<&str> = json["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(named, names);
    let csv = place.text("run/metrics.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",diverged,name"), "{csv}");
    assert!(
        lines[1].ends_with(",false,img2.png") && lines[5].ends_with(",false,\"ä, \"\"b\"\" c.png\""),
        "{csv}"
    );
    let pictures: Vec<String> = files_in(&place.path("run/ep"))
        .into_iter()
        .filter(|name| name.ends_with(".png") && !name.starts_with("samples"))
        .collect();
    assert_eq!(
        pictures,
        [
            "0000-img2.png",
            "0001-img10.png",
            "0002-same.png",
            "0003-same.png",
            "0004-ä___b__c.png"
        ]
    );
    assert!(place.path("run/ep/samples/0001-img10-01.png").exists());
    // The problem file keeps them, and a part of it has its own.
    place.succeeds("measure folder -o p.safetensors -m 12 --bits 2 --step 0.5");
    place.succeeds("run p.safetensors --first 1 --count 2 --model model.safetensors --levels 3 --out part --quiet");
    assert!(place.path("part/ep/0000-img10.png").exists());
    let table = place.succeeds("eval part").stdout;
    assert!(table.contains("1 img10.png") && table.contains("2 same.jpg"), "{table}");
    // Arrays have none.
    place.succeeds(&format!("run images.npy --out array {RUN}"));
    assert!(place.path("array/ep/0000.png").exists());
    assert!(
        place
            .text("array/metrics.csv")
            .lines()
            .nth(1)
            .unwrap()
            .ends_with(",false,")
    );
}

#[test]
fn names_that_are_no_list_of_the_images_are_refused() {
    let place = Place::with_problem();
    let problem = qcs::problem::Problem::read(place.path("problem.safetensors")).unwrap();
    let words = problem.clone().with_names(vec!["a".into()]).unwrap_err().to_string();
    assert!(words.contains("1 names for 3 images"), "{words}");
    let long = "x".repeat(5000) + "/..\n\u{1b}.png";
    let odd = vec![long, "..".to_owned(), String::new()];
    problem
        .with_names(odd)
        .unwrap()
        .write(place.path("odd.safetensors"))
        .unwrap();
    let table = place
        .succeeds("run odd.safetensors --model model.safetensors --levels 3 --out run --quiet")
        .stdout;
    assert!(!table.contains('\u{1b}') && table.contains("x…"), "{table}");
    let pictures: Vec<String> = files_in(&place.path("run/ep"))
        .into_iter()
        .filter(|name| name.ends_with(".png"))
        .collect();
    assert_eq!(pictures.len(), 3, "{pictures:?}");
    assert!(
        pictures.iter().all(|name| name.len() < 140 && name.starts_with("000")),
        "{pictures:?}"
    );
}

#[test]
fn photographs_of_any_size_are_cut_and_made_smaller() {
    let place = Place::new();
    std::fs::create_dir(place.path("photos")).unwrap();
    picture(&place, "photos/wide.png", 40, 24);
    picture(&place, "photos/high.png", 24, 50);
    let line = "measure photos -o p.safetensors -m 12 --bits 2 --step 0.5";
    place.run(line).refuses(
        line,
        3,
        &["wide.png", "not the first picture's", "cut or resize them all"],
    );
    place.succeeds(&format!("{line} --crop 24x24 --resize 8"));
    let problem = qcs::problem::Problem::read(place.path("p.safetensors")).unwrap();
    assert_eq!(problem.shape(), Some(IMAGE));
    let truth = problem.truth().unwrap();
    // The middle of the wide one, the second by its name: columns 8 to 31 of 40, in threes.
    let bytes = |column: usize| (255.0 * column as f32 / 40.0).round() / 255.0;
    let expected = (bytes(8) + bytes(9) + bytes(10)) / 3.0;
    assert!(
        (truth.image(1)[0] - expected).abs() < 1e-6,
        "{} {expected}",
        truth.image(1)[0]
    );
    for (flags, words) in [
        ("--crop 32", ["high.png", "is 24x50, too small to cut 32x32"]),
        ("--resize 8", ["high.png", "squeezed to 8x8"]),
        ("--crop 24 --resize 32", ["high.png", "not enlarged"]),
    ] {
        let line = format!("{line} --force {flags}");
        place.run(&line).refuses(&line, 3, &words);
    }
    for flags in ["--crop none", "--resize 0", "--crop 8x"] {
        let line = format!("{line} --force {flags}");
        place.run(&line).refuses(&line, 2, &["no size in pixels"]);
    }
    // A run does it too, writes it down, and is compared with what it has cut.
    place.succeeds(&format!("run photos --out run --crop 24 --resize 8 {RUN}"));
    let config = place.text("run/config.toml");
    assert!(
        config.contains("crop = \"24x24\"") && config.contains("resize = \"8x8\""),
        "{config}"
    );
    let own = place.succeeds("eval run --json").json();
    let named = place.succeeds("eval run --truth photos --json").json();
    assert_eq!(own["images"], named["images"]);
    place.succeeds("run --config run/config.toml --out again --quiet");
    assert!(place.read("run/ep/samples.npy") == place.read("again/ep/samples.npy"));
    let line = "run p.safetensors --crop 8 --model model.safetensors --out none";
    place.run(line).refuses(line, 2, &["--crop is about measuring images"]);
    // Points of a sweep that differ in it alone are different runs.
    place.succeeds(
        "sweep --images photos --crop 8,16 --resize 8 -m 12 --bits 2 --step 0.5 --model model.safetensors --levels 3 --out grid --quiet",
    );
    assert_eq!(std::fs::read_dir(place.path("grid/points")).unwrap().count(), 2);
    // Arrays too.
    place.succeeds("measure images.npy -o a.safetensors --crop 4 -m 12 --bits 2 --step 0.5");
    let cut = qcs::problem::Problem::read(place.path("a.safetensors")).unwrap();
    let whole = load_images(place.path("images.npy"), &Default::default()).unwrap();
    assert_eq!(cut.truth().unwrap().image(0)[..4], whole.image(0)[2 * 8 + 2..2 * 8 + 6]);
}

#[test]
fn an_archive_says_which_of_its_arrays_was_taken() {
    let place = Place::new();
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/arrays/stored.npz");
    std::fs::copy(fixture, place.path("two.npz")).unwrap();
    let ran = place.succeeds("measure two.npz -o p.safetensors -m 4 --bits 1");
    assert!(
        ran.stderr.contains("of several arrays two.npz:images is taken"),
        "{}",
        ran.stderr
    );
    let ran = place.succeeds("measure two.npz:images -o q.safetensors -m 4 --bits 1");
    assert!(!ran.stderr.contains("several arrays"), "{}", ran.stderr);
    let info = place.succeeds("info two.npz --json").json();
    assert_eq!(info["images"]["file"], "two.npz:images");
}

#[test]
fn several_folders_are_compared_in_one_table() {
    let place = Place::new();
    for (out, flags) in [("one", "--method both"), ("two", "--seed 1")] {
        place.succeeds(&format!("run images.npy --out {out} {RUN} {flags}"));
    }
    let table = place.succeeds("eval one two/").stdout;
    let header = table.lines().next().unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns, ["image", "one/diag", "one/ep", "two"], "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("PSNR")).count(), 1);
    let json = place.succeeds("eval one two --json").json();
    let alone = place.succeeds("eval two --json").json();
    assert_eq!(json["methods"][2]["psnr"], alone["methods"][0]["psnr"]);
    assert_eq!(json["images"].as_array().unwrap().len(), 9);
    let line = "eval two one two/";
    place.run(line).refuses(line, 2, &["two is named twice"]);
    let ran = place.run("eval one nowhere");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
}

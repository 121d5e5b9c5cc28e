//! What is said and offered: names, orders and tables that nobody has to guess at.

use qcs::files::npy;

use crate::support::{IMAGE, Place};

#[test]
fn pictures_of_a_folder_come_in_the_order_that_people_count_in() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.succeeds("run images.npy -m 12 --bits 2 --step 0.5 --model model.safetensors --levels 3 --out run --quiet");
    for (from, to) in [("0000", "img10"), ("0001", "img2"), ("0002", "img1")] {
        std::fs::copy(
            place.path(&format!("run/ep/{from}.png")),
            place.path(&format!("folder/{to}.png")),
        )
        .unwrap();
    }
    let load = |path: &str| qcs::files::load_images(place.path(path), &Default::default()).unwrap();
    let folder = load("folder");
    for (index, name) in ["img1", "img2", "img10"].into_iter().enumerate() {
        assert_eq!(
            folder.image(index),
            load(&format!("folder/{name}.png")).image(0),
            "{name}"
        );
    }
}

#[test]
fn settings_of_measurements_are_not_offered_where_there_are_none() {
    let place = Place::new();
    for flag in ["--xi 0.3", "--ep-iters 7"] {
        let line = format!("sample --model model.safetensors --count 1 --levels 2 -o sheet.png {flag}");
        place.run(&line).refuses(&line, 2, &["a prior alone has none"]);
    }
    let help = place.succeeds("sample --help").stdout;
    for flag in ["--xi", "--gamma", "--ep-iters", "--ep-rule"] {
        assert!(!help.contains(flag), "{flag} changes nothing:\n{help}");
    }
    assert!(help.contains("--step-scale") && place.succeeds("run --help").stdout.contains("--ep-iters"));
}

#[test]
fn a_shape_that_is_not_the_models_own_is_taken_and_told_of_by_every_command() {
    let place = Place::new();
    for line in [
        "sample --model model.safetensors --shape 1,12,8 --count 1 --levels 2 -o a.png",
        "sample --shape 1,32,32 --count 1 --levels 2 -o b.png",
        "info --model model.safetensors --shape 1,12,8",
        "info --shape 1,32,32",
    ] {
        let ran = place.succeeds(line);
        assert!(
            ran.stderr.contains("the prior was trained at"),
            "{line}: {}",
            ran.stderr
        );
    }
    place.succeeds("measure images.npy -o p.safetensors -m 12 --bits 2 --step 0.5");
    let run = "run p.safetensors --model model.safetensors --levels 3 --pictures none --out";
    let same = place.succeeds(&format!("{run} same --shape 1,8,8"));
    assert!(!same.stderr.contains("was trained at"), "{}", same.stderr);
    for line in [
        format!("{run} other --shape 1,4,16"),
        format!("{run} channels --shape 3,8,8"),
    ] {
        let ran = place.run(&line);
        assert!(matches!(ran.code, Some(2 | 3)), "{line}: {}", ran.stderr);
    }
}

#[test]
fn several_problems_end_with_one_table_and_lists_of_methods_may_be_mixed() {
    let place = Place::with_problem();
    std::fs::copy(place.path("problem.safetensors"), place.path("other.safetensors")).unwrap();
    let ran = place.succeeds(
        "run problem.safetensors other.safetensors --model model.safetensors --levels 3 --pictures none --out all --quiet",
    );
    let table = ran.stdout.rsplit("\n\n").next().unwrap();
    assert!(table.contains("problem  method") && table.contains("other"), "{table}");
    let line = "run problem.safetensors --model model.safetensors --method both,diag --out twice";
    place.run(line).refuses(line, 2, &["diag is named twice"]);
    let line = "run problem.safetensors --model model.safetensors --method both,bipg --out mixed";
    place.run(line).refuses(line, 3, &["BIPG's generator"]);
}

#[test]
fn an_empty_variable_says_nothing_and_bundled_images_are_known_everywhere() {
    let place = Place::new();
    let ran = place.command("info --json").env("QCS_DEVICE", "").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let info = place.succeeds("info bundled:digits --json").json();
    assert_eq!(info["images"]["count"], 10);
    let digits = qcs::bundled::digits(0, None).unwrap();
    npy::write(place.path("digits.npy"), &[10, 1, 28, 28], &digits.data).unwrap();
    let ran = place.succeeds("eval digits.npy --truth bundled:digits --json").json();
    assert_eq!(ran["methods"][0]["images"], 10);
    let ran = place.succeeds("calibrate --model model.safetensors --images images.npy -o known.safetensors");
    assert!(ran.stderr.contains("3 images are few"), "{}", ran.stderr);
}

#[test]
fn a_problem_is_described_and_not_the_prior_that_nobody_named() {
    let place = Place::new();
    place.succeeds("measure bundled:digits -m 20 --count 1 -o p.safetensors");
    let info = place.succeeds("info p.safetensors --json").json();
    assert!(
        info["model"].is_null() && info["problem"]["measurements"] == 20,
        "{info}"
    );
    let info = place.succeeds("info --problem p.safetensors --json").json();
    assert!(info["model"]["shape"] == "1,28,28", "{info}");
    let text = place.succeeds("info --problem p.safetensors").stdout;
    assert!(text.starts_with("problem"), "{text}");
    place.succeeds("measure bundled:digits --matrix dct -m 50% --count 1 -o dct.safetensors");
    let info = place.succeeds("info dct.safetensors --json").json();
    assert!(info["problem"]["measurements"] == 392, "{info}");
    assert_eq!(IMAGE.channels, 1);
}

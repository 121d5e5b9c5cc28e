//! `qcs eval`: the right truth or none, and numbers that mean something.

use qcs::files::npy;

use crate::support::{IMAGE, Place, images};

const RUN: &str = "run images.npy --model model.safetensors -m 24 --bits 2 --step 0.5 --levels 5 --quiet";

#[test]
fn a_run_knows_which_images_it_reconstructed() {
    let place = Place::new();
    place.succeeds(&format!("{RUN} --out run --first 1 --count 2"));
    let own = place.succeeds("eval run --json").json();
    let written: serde_json::Value = serde_json::from_slice(&place.read("run/metrics.json")).unwrap();
    assert_eq!(
        own["images"], written["images"],
        "consistency and all, with nothing named"
    );
    let named = place.succeeds("eval run --truth images.npy --json").json();
    assert_eq!(
        named["images"], own["images"],
        "images 1 and 2 of the file, not 0 and 1"
    );

    // The same images elsewhere: nobody knows where those of the run begin.
    place.write("copy.npy", place.read("images.npy"));
    let line = "eval run --truth copy.npy";
    place
        .run(line)
        .refuses(line, 3, &["holds 2 images", "copy.npy 3", "--first"]);
    let line = "eval run/ep/samples.npy --truth copy.npy";
    place
        .run(line)
        .refuses(line, 3, &["holds 2 images", "copy.npy 3", "--first"]);
    let first = place.succeeds(&format!("{line} --first 1 --json")).json();
    assert_eq!(first["images"][0]["psnr"], own["images"][0]["psnr"]);
    npy::write(place.path("two.npy"), &[2, 1, 8, 8], &images(3).data[IMAGE.len()..]).unwrap();
    let two = place.succeeds("eval run --truth two.npy --json").json();
    assert_eq!(two["images"], own["images"], "as many images as samples are theirs");
}

#[test]
fn an_unrelated_problem_is_refused() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --out run --quiet");
    place.succeeds("measure images.npy -o other.safetensors -m 24 --bits 2 --step 0.5 --seed 8 --quiet");
    let line = "eval run --problem other.safetensors";
    place
        .run(line)
        .refuses(line, 3, &["other.safetensors", "not the problem of the run"]);
    place.succeeds("measure images.npy -o two.safetensors -m 24 --count 2 --quiet");
    let line = "eval images.npy --problem two.safetensors";
    place.run(line).refuses(line, 3, &["holds 3 images, but the problem 2"]);

    // A problem that has gone is told of where there is a truth, and missed where there is none.
    std::fs::rename(place.path("problem.safetensors"), place.path("moved.safetensors")).unwrap();
    let ran = place.succeeds("eval run");
    assert!(
        ran.stderr.contains("no consistency") && ran.stdout.contains("PSNR"),
        "{}",
        ran.stderr
    );
    std::fs::remove_file(place.path("run/truth.npy")).unwrap();
    let line = "eval run";
    place
        .run(line)
        .refuses(line, 3, &["problem.safetensors", "cannot read"]);
    let named = place.succeeds("eval run --problem moved.safetensors --json").json();
    assert!(named["images"][0]["consistency"].is_number() && named["images"][0]["psnr"].is_number());
}

#[test]
fn without_a_truth_a_run_is_still_compared_with_its_measurements() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --out run --quiet");
    std::fs::remove_file(place.path("run/truth.npy")).unwrap();
    let text = place.succeeds("eval run").stdout;
    let row = text.lines().find(|line| line.starts_with("consistency")).unwrap();
    assert!(row.contains(" ± "), "{text}");
}

#[test]
fn samples_that_are_no_numbers_are_bad_input_and_the_image_is_named() {
    let place = Place::with_problem();
    for (bad, says) in [(f32::NAN, "image 2"), (f32::INFINITY, "image 2")] {
        let mut values = images(3).data;
        values[2 * IMAGE.len() + 7] = bad;
        npy::write(place.path("bad.npy"), &[3, 1, 8, 8], &values).unwrap();
        let line = "eval bad.npy --truth images.npy";
        place.run(line).refuses(line, 3, &["bad.npy", "NaN or infinity", says]);
        npy::write(place.path("bad.npy"), &[1, 3, 1, 8, 8], &values).unwrap();
        let line = "eval bad.npy --truth images.npy --first 0";
        place.run(line).refuses(line, 3, &["bad.npy", "image 0, chain 2"]);
    }
}

#[test]
fn every_metric_is_of_the_clipped_image() {
    let place = Place::with_problem();
    let clipped = images(3).data;
    let beyond = |v: &f32| if *v > 0.9 { 1.4 } else { *v };
    let over: Vec<f32> = clipped.iter().map(beyond).collect();
    let under: Vec<f32> = over.iter().map(|v| v.min(1.0)).collect();
    for (name, values) in [("over.npy", &over), ("under.npy", &under)] {
        npy::write(place.path(name), &[3, 1, 1, 8, 8], values).unwrap();
    }
    let of = |name: &str| {
        let line = format!("eval {name} --truth problem.safetensors --problem problem.safetensors --json");
        place.succeeds(&line).json()["images"].clone()
    };
    assert_ne!(over, under);
    assert_eq!(of("over.npy"), of("under.npy"));
}

/// With several chains turbo's estimate is not the mean of its draws.
#[test]
fn a_run_of_turbo_is_evaluated_by_its_own_estimate() {
    let place = Place::new();
    let line = "run bundled:digits --count 1 -m 100 --method turbo --chains 2 --out run --quiet --json";
    let run = place.succeeds(line).json();
    let eval = place.succeeds("eval run --json").json();
    for metric in ["psnr", "ssim", "consistency"] {
        assert_eq!(eval["images"][0][metric], run["images"][0][metric], "{metric}");
    }
}

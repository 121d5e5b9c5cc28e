//! States that diverge: exit code 4, named, marked, and in no mean. And states that only look as if they did.

use crate::support::{IMAGE, Place};

#[test]
fn states_that_diverge_are_exit_code_4_and_listed_after_the_results_are_written() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --out run --gamma 1e300 --method both --quiet";
    let ran = place.run(line);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("diverged: ep, image 2, chain 0, at level 1, step 1"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("error: 6 of 6 states diverged"), "{}", ran.stderr);
    let metrics: serde_json::Value = serde_json::from_slice(&place.read("run/metrics.json")).unwrap();
    assert_eq!(metrics["diverged"].as_array().unwrap().len(), 6);
    assert_eq!(metrics["diverged"][5]["method"], "ep");
    let samples = qcs::files::npy::read(place.path("run/ep/samples.npy")).unwrap();
    assert_eq!(samples.shape, [3, 1, 1, IMAGE.height, IMAGE.width]);
    assert_eq!(metrics["methods"][1]["diverged"], 3);
    assert!(metrics["methods"][1]["psnr"].is_null(), "no image is left for a mean");
    assert!(ran.stdout.contains("3 of 3 diverged"), "{}", ran.stdout);
    let again = place.run("run --resume --out run --quiet");
    assert_eq!(again.code, Some(4), "as when the run ended: {}", again.stderr);
    assert!(
        again.stderr.contains("error: 6 of 6 states diverged"),
        "{}",
        again.stderr
    );
    assert!(
        samples.to_f32().iter().all(|v| v.is_finite()),
        "a frozen state keeps its last finite value"
    );
}

#[test]
fn values_far_outside_of_every_image_are_divergence_though_they_are_finite() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --out run --step-scale 1e30 --quiet";
    let ran = place.run(line);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("diverged: ep, image 2, chain 0"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: 3 of 3 states diverged"), "{}", ran.stderr);
    assert!(ran.stdout.contains("diverged"), "the table marks them: {}", ran.stdout);
    let metrics = place.text("run/metrics.csv");
    assert_eq!(metrics.matches(",true,\n").count(), 3, "{metrics}");
    let eval = place.succeeds("eval run --json").json();
    assert_eq!(eval["images"][2]["diverged"], true);
    assert!(eval["methods"][0]["psnr"].is_null());
    let line = "sample --model model.safetensors --count 2 -o sheet.png --step-scale 1e30 --quiet";
    place.run(line).refuses(line, 4, &["2 of 2 samples diverged"]);
}

/// One state of three is lost: the mean is of the others.
#[test]
fn a_diverged_image_is_marked_in_the_table_and_in_no_mean() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --out run --quiet");
    let healthy = place.succeeds("eval run --json").json();
    let path = place.path("run/ep/samples.npy");
    let samples = qcs::files::npy::read(&path).unwrap();
    let mut values = samples.to_f32().into_owned();
    values[IMAGE.len() + 5] = 1e20;
    qcs::files::npy::write(&path, &samples.shape, &values).unwrap();
    let one_lost = place.succeeds("eval run --json").json();
    let psnr = |index: usize| healthy["images"][index]["psnr"].as_f64().unwrap();
    let mean = one_lost["methods"][0]["psnr"]["mean"].as_f64().unwrap();
    assert!((mean - (psnr(0) + psnr(2)) / 2.0).abs() < 1e-9);
    assert_eq!(one_lost["methods"][0]["psnr"]["count"], 2);
    let table = place.succeeds("eval run").stdout;
    let row = table.lines().find(|line| line.starts_with("1 ")).unwrap();
    assert!(
        row.ends_with("diverged") && table.contains("1 of 3 diverged"),
        "{table}"
    );
}

/// With so few measurements a state soon satisfies them all, and its likelihood score all but vanishes.
#[test]
fn states_that_satisfy_their_measurements_do_not_diverge() {
    let place = Place::new();
    let line = "run bundled:digits --count 2 -m 2 --levels 10 --method both --out run --quiet --json";
    let metrics = place.succeeds(line).json();
    assert_eq!(metrics["diverged"].as_array().unwrap().len(), 0);
}

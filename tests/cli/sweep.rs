//! `qcs sweep`: what spans a grid, what is kept, what goes wrong at a point.

use std::collections::BTreeMap;
use std::path::Path;

#[cfg(unix)]
use crate::interrupt::Running;
use crate::support::Place;

const FILE: &str = r#"
title = "Bits & <measurements>"
about = "What is asked."
model = "model.safetensors"
images = "images.npy"
step = 0.5
levels = 4
method = ["diag", "ep"]
measurements = [8, 24]
bits = [2, 3]
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("grid.toml", FILE);
    place
}

/// Every file of a report by its name, without times: the column of seconds, and the table of them.
fn report(place: &Place, out: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut take = |name: String| {
        let bytes = place.read(&format!("{out}/{name}"));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let kept = if name == "points.csv" {
            let without = |line: &str| {
                let cells: Vec<&str> = line.split(',').collect();
                [&cells[..cells.len() - 2], &cells[cells.len() - 1..]]
                    .concat()
                    .join(",")
            };
            text.lines().map(without).collect::<Vec<_>>().join("\n").into_bytes()
        } else if name == "report.html" {
            let start = text.find("<summary>Seconds</summary>").unwrap();
            let end = start + text[start..].find("</details>").unwrap();
            format!("{}{}", &text[..start], &text[end..]).into_bytes()
        } else {
            bytes
        };
        files.insert(name, kept);
    };
    for name in ["report.html", "points.csv", "images.csv", "sweep.toml"] {
        take(name.to_owned());
    }
    for entry in std::fs::read_dir(place.path(out).join("figures")).unwrap() {
        take(format!("figures/{}", entry.unwrap().file_name().to_str().unwrap()));
    }
    files
}

/// That two reports are the same, but for times.
fn assert_same_report(place: &Place, a: &str, b: &str) {
    assert_same(&report(place, a), &report(place, b));
}

fn assert_same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, bytes) in a {
        if *bytes != b[name] {
            let text = |bytes: &[u8]| {
                String::from_utf8_lossy(bytes)
                    .lines()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let (a, b) = (text(bytes), text(&b[name]));
            let line = a.iter().zip(&b).find(|(a, b)| a != b);
            panic!("{name} differs: {line:.200?}");
        }
    }
}

fn points(place: &Place, out: &str) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(out).join("points")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_spans_a_grid_and_its_report_has_a_figure_to_each_metric() {
    let place = place();
    let ran = place.succeeds("sweep grid.toml --out out");
    assert!(ran.stdout.contains("bits=2 measurements=8 method=ep"), "{}", ran.stdout);
    assert!(ran.stderr.contains("[8/8"), "{}", ran.stderr);
    assert_eq!(points(&place, "out").len(), 8);
    let files = report(&place, "out");
    for metric in ["psnr", "ssim", "consistency"] {
        // Of two axes of two values each, the first by name is along the axis.
        let names: Vec<&String> = files.keys().filter(|name| name.contains(metric)).collect();
        assert_eq!(names.len(), 4, "SVG and PNG for two values of the other: {names:?}");
    }
    let html = place.text("out/report.html");
    assert!(html.contains("Bits &amp; &lt;measurements&gt;") && html.contains("What is asked."));
    assert!(html.contains("QCS-SGM+") && html.contains("data:image/png;base64,"));
    assert!(
        !html.contains("<script") && !html.contains("src=\"http"),
        "nothing is loaded or run"
    );
    let csv = place.text("out/points.csv");
    assert_eq!(csv.lines().count(), 9);
    assert!(
        csv.starts_with("grid,bits,measurements,method,images,psnr,psnr_se,"),
        "{csv}"
    );
    assert_eq!(place.text("out/images.csv").lines().count(), 1 + 8 * 3);
    // A point is a run like any other.
    let point = format!("out/points/{}", points(&place, "out")[0]);
    place.succeeds(&format!("run --config {point}/config.toml --out again"));
    let method = if Path::new(&place.path(&format!("{point}/ep"))).exists() {
        "ep"
    } else {
        "diag"
    };
    let samples = |folder: &str| place.read(&format!("{folder}/{method}/samples.npy"));
    assert_eq!(samples("again"), samples(&point));
}

/// And a report that is passed on may leave the images out.
#[test]
fn draws_are_shown_by_the_truths_rank_and_by_their_spread() {
    let place = Place::new();
    let file = FILE.replace("bits = [2, 3]", "bits = 2\nchains = 4\npictures = \"none\"");
    place.write("grid.toml", file);
    place.succeeds("sweep grid.toml --out out");
    let files = report(&place, "out");
    for (chart, count) in [
        ("calibration-ranks", 4),
        ("calibration-error", 4),
        ("-spread", 2),
        ("pictures", 0),
    ] {
        let names: Vec<&String> = files.keys().filter(|name| name.contains(chart)).collect();
        assert_eq!(names.len(), count, "{chart}: {names:?}");
    }
    let html = place.text("out/report.html");
    assert!(html.contains("the truth among the draws: measurements = 24"), "{html}");
    assert!(!html.contains("data:image/png"));
    // The ranks' shares, each over that of an even one, have 1 as their mean.
    let metrics = place.text(&format!("out/points/{}/metrics.json", points(&place, "out")[0]));
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    let of = |name: &str| metrics["calibration"][0][name].as_array().unwrap().clone();
    let ranks: f64 = of("ranks").iter().map(|rank| rank.as_f64().unwrap()).sum();
    assert!((ranks - 1.0).abs() < 1e-9 && of("ranks").len() == 5);
    let pixels: u64 = of("by_spread").iter().map(|bin| bin["pixels"].as_u64().unwrap()).sum();
    assert_eq!(Some(pixels), metrics["calibration"][0]["pixels"].as_u64());
}

#[test]
fn what_is_there_is_not_run_again_and_a_wider_grid_runs_what_is_new() {
    let place = place();
    place.succeeds("sweep grid.toml --out out");
    let first = report(&place, "out");
    let ran = place.succeeds("sweep grid.toml --out out");
    assert!(!ran.stderr.contains("[1/8"), "{}", ran.stderr);
    assert_same(&report(&place, "out"), &first);
    let listed = place
        .succeeds("sweep grid.toml --out out --measurements 8,24,30 --dry-run")
        .stdout;
    assert_eq!(listed.matches("done").count(), 8, "{listed}");
    assert!(listed.contains("12 points, 4 to run: 0:0"), "{listed}");
    place.succeeds("sweep grid.toml --out out --measurements 8,24,30");
    assert_eq!(points(&place, "out").len(), 12);
    // The file beside the report repeats it, flags and all.
    place.succeeds("sweep out/sweep.toml --out again");
    assert_same_report(&place, "again", "out");
}

#[test]
fn flags_alone_span_a_grid_and_equal_runs_are_run_once() {
    let place = Place::new();
    let line = "sweep --model model.safetensors --images images.npy -m 24 --levels 4 --method diag,ep --ep-iters 2,5 --out out";
    place.succeeds(line);
    // QCS-SGM has no EP: its two points are one run.
    assert_eq!(points(&place, "out").len(), 3);
    assert_eq!(
        place.text("out/points.csv").lines().count(),
        5,
        "drawn for both all the same"
    );
}

#[test]
#[cfg(unix)]
fn a_sweep_that_is_killed_and_one_that_is_stopped_go_on_to_the_same_report() {
    let place = place();
    let long = "--levels 400 --threads 1";
    place.succeeds(&format!("sweep grid.toml --out whole {long}"));
    for signal in ["KILL", "INT"] {
        let line = format!("sweep grid.toml --out {signal} {long}");
        let mut running = Running::start(&place, &line);
        running.wait_for("[3/8");
        let ran = running.signal(signal);
        if signal == "INT" {
            assert_eq!(ran.code, Some(130), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("of 8 points done; the same command goes on"),
                "{}",
                ran.stderr
            );
        }
        assert!(!place.path(&format!("{signal}/report.html")).exists());
        place.succeeds(&line);
        assert_same_report(&place, signal, "whole");
    }
}

#[test]
fn a_point_that_cannot_run_is_named_and_the_others_are_done() {
    let place = place();
    let ran = place.run("sweep grid.toml --out out --bits 2,3,9");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("4 points failed") && ran.stderr.contains("bits=9"),
        "{}",
        ran.stderr
    );
    assert_eq!(place.text("out/points.csv").lines().count(), 9);
    assert!(place.text("out/report.html").contains("4 points could not be run"));
    // An impossible combination, before anything runs.
    let ran = place.run("sweep grid.toml --out other --kappa 3 --dry-run");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("belongs to the matrices ill-conditioned and separable"),
        "{}",
        ran.stdout
    );
    assert!(!place.path("other").exists());
}

#[test]
fn mistakes_in_a_file_are_named_with_their_line() {
    let place = place();
    for (text, words) in [
        (
            "title = \"x\"\nkapa = [1]",
            "grid.toml: line 2: kapa is no setting of a run",
        ),
        ("kappa = [1, 1]", "grid.toml: line 1: kappa has a value twice"),
        ("kappa = [", "grid.toml: line 1"),
        ("method = \"magic\"", "grid.toml: line 1: method \"magic\" is unknown"),
        (
            "kappa = 1\nx = \"rho\"",
            "grid.toml: line 2: x = \"rho\" names no setting",
        ),
    ] {
        place.write("grid.toml", text);
        let ran = place.run("sweep grid.toml --out out");
        assert_eq!(ran.code, Some(3), "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{text}: {}", ran.stderr);
    }
    let ran = place.run("sweep --out out");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let ran = place.run("sweep --kappa 1,2 --out out");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("Name `images` or a `problem`"), "{}", ran.stderr);
    assert!(!place.path("out/points").exists());
}

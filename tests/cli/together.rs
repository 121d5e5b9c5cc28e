//! Runs that share a folder: at the same time, after a killed one, after a finished one.
#![cfg(unix)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::folders::files_in;
use crate::support::Place;

const LONG: &str = "run problem.safetensors --model model.safetensors --levels 100000 --steps-per-level 5 --threads 1";

#[test]
fn two_runs_never_share_a_folder() {
    let place = Place::with_problem();
    let mut first = place
        .command(&format!("{LONG} --out run --quiet"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !place.path("run/config.toml").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let config = place.text("run/config.toml");
    for line in [
        "run problem.safetensors --model model.safetensors --levels 5 --out run --force",
        "run --resume --out run",
        "demo --out run --force",
    ] {
        place.run(line).refuses(line, 2, &["another qcs is at work"]);
    }
    assert_eq!(place.text("run/config.toml"), config);
    first.kill().unwrap();
    first.wait().unwrap();
    // The lock went with the process.
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --out run --force --quiet");
    assert!(place.path("run/metrics.json").exists());
}

#[test]
fn what_a_killed_run_was_writing_is_no_obstacle_and_does_not_stay() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --levels 5 --chains 2 --out run --quiet";
    let left = [
        ".config.toml.123-0.tmp",
        "ep/.samples.npy.123-4.tmp",
        "ep/samples/.0000-00.png.123-5.tmp",
    ];
    std::fs::create_dir_all(place.path("run")).unwrap();
    place.write("run/.config.toml.123-0.tmp", "half");
    place.succeeds(&format!("{line} --resume"));
    let whole = files_in(&place.path("run"));
    assert!(whole.iter().all(|name| !name.contains(".tmp")), "{whole:?}");

    for how in ["--resume", "--force"] {
        left.iter().for_each(|name| place.write(&format!("run/{name}"), "half"));
        std::fs::remove_file(place.path("run/metrics.json")).unwrap();
        place.succeeds(&format!("{line} {how}"));
        assert_eq!(files_in(&place.path("run")), whole, "{how}");
    }
}

#[test]
fn flags_that_contradict_a_finished_run_are_refused() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --levels 5 --out run";
    place.succeeds(&format!("{line} --quiet"));
    for (flags, says) in [
        ("--chains 3", "chains is 1 there, 3 here"),
        ("--seed 1", "seed is 0 there, 1 here"),
        ("--xi 0.1", "settings.ep.xi is"),
        ("--method diag", "methods is"),
    ] {
        let line = format!("run --resume --out run {flags}");
        place.run(&line).refuses(&line, 2, &["other settings", says]);
    }
    let other = "run --resume --out run --model nowhere.safetensors";
    place.run(other).refuses(other, 3, &["nowhere.safetensors"]);
    for same in [
        "run --resume --out run",
        "run --resume --out run --chains 1",
        &format!("{line} --resume"),
    ] {
        let again = place.succeeds(same);
        assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    }
}

//! `--profile`: what a profiler is told, and that nothing else changes.

use qcs_emulator::stand_in::Library;
use serde_json::Value;

use crate::emulated::Emulated;

const RUN: &str = "run problem.safetensors --model three.safetensors --count 2 --steps-per-level 2 --quiet";

/// A problem and a model of three levels.
fn place() -> Emulated {
    let emulated = Emulated::with(&[Library::Driver, Library::Nvtx]);
    emulated.problem_and_model("three.safetensors", 3);
    emulated
}

/// How often a range was opened, by its path.
fn opened(stats: &Value, path: &str) -> u64 {
    let ranges = stats["ranges"].as_array().unwrap();
    let found = ranges.iter().find(|range| range["range"] == path);
    found.map_or(0, |range| range["opened"].as_u64().unwrap())
}

#[test]
fn the_levels_asked_for_are_recorded_op_by_op_and_the_samples_are_the_same() {
    let emulated = place();
    emulated.succeeds(&format!("{RUN} --device cuda --out plain"));
    let stats = emulated.stats();
    assert_eq!(stats["profiler_starts"], 0);
    assert_eq!(stats["graph_launches"], 6);

    emulated.succeeds(&format!("{RUN} --device cuda --out profiled --profile 2-3"));
    let samples = |out: &str| emulated.place.read(&format!("{out}/ep/samples.npy"));
    assert!(samples("plain") == samples("profiled"));
    let stats = emulated.stats();
    assert_eq!(
        (&stats["profiler_starts"], &stats["profiler_stops"]),
        (&1.into(), &1.into())
    );
    assert_eq!(stats["graph_launches"], 2, "the first level's steps");
    for (path, count) in [
        ("level 1", 1),
        ("level 2", 1),
        ("level 3", 1),
        ("level 1 > step 2", 1),
        ("level 1 > step 2 > conv res1.0.conv1", 0),
        ("level 2 > step 3 > conv res1.0.conv1", 1),
        ("level 3 > step 6 > conv res1.0.conv1", 1),
        ("level 3 > step 6 > ep_moments", 5),
        ("level 3 > step 6 > langevin", 1),
    ] {
        assert_eq!(opened(&stats, path), count, "{path} in {}", stats["ranges"]);
    }
    let ranges = stats["ranges"].as_array().unwrap();
    let all: u64 = ranges.iter().map(|range| range["opened"].as_u64().unwrap()).sum();
    assert_eq!(stats["ranges_closed"], all, "every range is closed");
}

#[test]
fn levels_of_several_gpus_are_not_nested_in_each_other() {
    let emulated = place();
    let line = format!("{RUN} --device cuda:0,1 --out several --profile 2");
    let ran = emulated.run(&line, &[("QCS_EMU_DEVICES", "2")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let stats = emulated.stats();
    for level in 1..=3 {
        assert_eq!(opened(&stats, &format!("level {level}")), 1, "{}", stats["ranges"]);
    }
    assert_eq!(opened(&stats, "level 3 > step 5"), 2, "once for each GPU");
    assert_eq!(stats["profiler_starts"], 1);
}

#[test]
fn levels_that_do_not_exist_and_a_cpu_are_usage_errors() {
    let emulated = place();
    let line = format!("{RUN} --device cuda --out run --profile 9");
    emulated
        .run(&line, &[])
        .refuses(&line, 2, &["--profile 9", "levels 1 to 3"]);
    let line = format!("{RUN} --device cpu --out run --profile 2");
    emulated.run(&line, &[]).refuses(&line, 2, &["--profile is for a GPU"]);
    assert!(!emulated.place.path("run").exists(), "nothing is left behind");
}

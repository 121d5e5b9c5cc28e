//! `qcs run --shard` and `qcs merge`: shares of a run together are the run.

use crate::support::{Place, assert_same_run, write_images};

const RUN: &str =
    "run images.npy -m 24 --bits 2 --step 0.5 --model model.safetensors --method both --chains 2 --levels 5 --seed 3";

#[test]
fn shards_put_together_are_the_run_whatever_each_was_computed_with() {
    let place = Place::new();
    place.succeeds(&format!("{RUN} --out whole"));
    for (shard, how) in [("1/3", "--threads 1"), ("2/3", "--threads 2"), ("3/3", "--resume")] {
        place.succeeds(&format!("{RUN} --out parts --shard {shard} {how}"));
    }
    let merged = place.succeeds("merge parts").stdout;
    assert!(
        merged.contains("QCS-SGM+") && merged.contains("results in parts"),
        "{merged}"
    );
    assert_same_run(&place, "parts", "whole");
    let manifest = place.text("parts/shard-2-of-3/manifest.json");
    assert!(
        manifest.contains("\"shard\": \"2/3\"") && manifest.contains("\"first\": 1"),
        "{manifest}"
    );
    // Once is enough, unless somebody insists; a shard that is done is done.
    place
        .run("merge parts")
        .refuses("merge", 2, &["holds a run already", "--force"]);
    place.succeeds("merge parts --force --json");
    let again = place.succeeds(&format!("{RUN} --out parts --shard 2/3 --resume"));
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    assert_same_run(&place, "parts", "whole");
}

#[test]
fn what_keeps_shards_apart_is_named() {
    let place = Place::new();
    let run = |out: &str, shard: &str, flags: &str| {
        place.succeeds(&format!("{RUN} --out {out} --shard {shard} {flags}"));
    };
    place.run("merge nowhere").refuses("merge", 3, &["nowhere"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.run("merge empty").refuses("merge", 2, &["empty holds no shards"]);
    run("some", "2/3", "");
    place
        .run("merge some")
        .refuses("merge", 2, &["shards are missing: 1/3, 3/3"]);
    run("some", "1/3", "");
    std::fs::remove_file(place.path("some/shard-1-of-3/metrics.json")).unwrap();
    run("some", "3/3", "");
    place
        .run("merge some")
        .refuses("merge", 2, &["shards are not complete: 1/3", "--resume"]);
    run("some", "1/3", "--resume");
    place.succeeds("merge some");
    run("other", "1/2", "");
    run("other", "2/2", "--xi 0.7");
    place.run("merge other").refuses(
        "merge",
        2,
        &["shard 2/2 is of another run", "settings.ep.xi is 0.5 there, 0.7 here"],
    );
    run("other", "1/3", "");
    place.run("merge other").refuses("merge", 2, &["shards of 2 and of 3"]);
    // Of a version that counted from 0.
    std::fs::create_dir_all(place.path("old/shard-0-of-2")).unwrap();
    std::fs::create_dir_all(place.path("old/shard-1-of-2")).unwrap();
    place
        .run("merge old")
        .refuses("merge", 2, &["shard-0-of-2", "counted from 0"]);
}

#[test]
fn a_share_in_the_place_of_another_or_without_its_manifest_is_refused() {
    let place = Place::new();
    for shard in ["1/3", "2/3", "3/3"] {
        place.succeeds(&format!("{RUN} --out parts --shard {shard} --quiet"));
    }
    let manifest = place.text("parts/shard-2-of-3/manifest.json");
    assert!(manifest.contains("\"rounds_as\": \"cpu-"), "{manifest}");
    for (changed, words) in [
        (String::new(), "is no manifest"),
        (
            manifest.replace("\"first\": 1", "\"first\": 0"),
            "does not fit the configuration",
        ),
        (
            manifest.replace("\"2/3\"", "\"1/3\""),
            "is of shard 1/3, in the place of 2/3",
        ),
    ] {
        place.write("parts/shard-2-of-3/manifest.json", changed);
        place
            .run("merge parts")
            .refuses("merge", 3, &["shard-2-of-3/manifest.json", words]);
    }
    // Another instruction set rounds differently: it is told, and the images are merged.
    let other = manifest.replace("\"rounds_as\": \"cpu-", "\"rounds_as\": \"other-");
    place.write("parts/shard-2-of-3/manifest.json", other);
    let merged = place.succeeds("merge parts");
    assert!(merged.stderr.contains("last bits differ"), "{}", merged.stderr);
    // A merge that was killed before its end wants no permission to begin again.
    std::fs::remove_file(place.path("parts/metrics.json")).unwrap();
    place.succeeds("merge parts");
    // A whole folder, copied.
    let [one, two] = ["parts/shard-2-of-3", "parts/shard-3-of-3"].map(|name| place.path(name));
    std::fs::remove_dir_all(&two).unwrap();
    std::fs::rename(&one, &two).unwrap();
    place.succeeds(&format!("{RUN} --out parts --shard 2/3 --quiet"));
    place
        .run("merge parts --force")
        .refuses("merge", 3, &["in the place of 3/3"]);
}

#[test]
fn a_share_that_is_none_is_refused() {
    let place = Place::new();
    for (shard, words) in [
        ("4/3", "--shard 4/3 is no share like 1/8"),
        ("0/3", "--shard 0/3 is no share like 1/8"),
        ("x", "--shard x is no share"),
        ("1/4", "--shard 1/4: there are only 3 images to share"),
        ("auto", "SLURM_ARRAY_TASK_ID is not set"),
    ] {
        let line = format!("{RUN} --out out --shard {shard}");
        place.run(&line).refuses(&line, 2, &[words]);
        assert!(!place.path("out/config.toml").exists());
    }
    // As a task of an array.
    let mut command = place.command(&format!("{RUN} --out tasks --shard auto"));
    let tasks = [
        ("SLURM_ARRAY_TASK_ID", "2"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
        ("SLURM_ARRAY_TASK_MIN", "1"),
    ];
    assert!(command.envs(tasks).status().unwrap().success());
    assert!(place.path("tasks/shard-2-of-2/metrics.json").exists());
}

#[cfg(unix)]
#[test]
fn a_shard_that_is_told_of_its_end_saves_and_goes_on_where_it_is_requeued() {
    use crate::interrupt::{Running, wait_for_other};
    let place = Place::new();
    write_images(&place, "images.npy", 9);
    let line = format!("{RUN} --steps-per-level 700 --step-scale 1e-6");
    place.succeeds(&format!("{line} --out whole --quiet"));
    let shard = |index: usize| {
        let threads = 1 + index % 3;
        format!("{line} --out parts --shard {index}/8 --resume --threads {threads}")
    };
    for signal in ["USR1", "KILL"] {
        let mut running = Running::start(&place, &shard(5));
        let checkpoint = place.path("parts/shard-5-of-8/checkpoint-diag.safetensors");
        let before = std::fs::read(&checkpoint).ok();
        running.wait_for("QCS-SGM");
        wait_for_other(&checkpoint, before.as_deref());
        let ran = running.signal(signal);
        assert_eq!(ran.code, (signal == "USR1").then_some(130), "{}", ran.stderr);
    }
    (1..=8).for_each(|index| drop(place.succeeds(&format!("{} --quiet", shard(index)))));
    place.succeeds("merge parts");
    assert_same_run(&place, "parts", "whole");
}

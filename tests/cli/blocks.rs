//! `qcs run --block` and `--pictures`: what is held at once, and what is drawn, change no result.

use crate::support::{Place, assert_same_run, write_images};

const RUN: &str = "run images.npy -m 24 --bits 2 --step 0.5 --model known.safetensors --method ep,turbo --chains 2 --levels 5 \
                   --step-scale 1e-6 --evaluations 3 --seed 3";

fn place() -> Place {
    let place = Place::new();
    write_images(&place, "images.npy", 7);
    place.succeeds("calibrate --model model.safetensors --images images.npy -o known.safetensors");
    place
}

/// The settings that say how it was computed stand in config.toml, and differ.
fn forget(place: &Place, folder: &str, setting: &str) {
    let text = place.text(&format!("{folder}/config.toml"));
    let lines = text.lines().filter(|line| !line.starts_with(setting));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    place.write(&format!("{folder}/config.toml"), text);
}

#[test]
fn blocks_of_any_size_are_the_run() {
    let place = place();
    place.succeeds(&format!("{RUN} --out whole"));
    for block in [1, 3, 7] {
        let out = format!("block{block}");
        let ran = place.succeeds(&format!("{RUN} --out {out} --block {block}"));
        assert!(ran.stderr.contains("7 images, 2 chains each"), "{}", ran.stderr);
        forget(&place, &out, "block =");
        assert_same_run(&place, &out, "whole");
    }
    for line in ["--block 0", "--block x"] {
        let line = format!("{RUN} --out none {line}");
        place.run(&line).refuses(&line, 2, &["--block"]);
    }
}

/// A block that is done is not computed again, and one whose file is damaged is not trusted.
#[cfg(unix)]
#[test]
fn a_run_that_is_killed_between_its_blocks_goes_on_with_the_next() {
    use crate::interrupt::{Running, wait_for_file};
    let place = place();
    let line = format!("{RUN} --steps-per-level 400 --block 2");
    place.succeeds(&format!("{line} --out whole --quiet"));
    let mut running = Running::start(&place, &format!("{line} --out broken"));
    running.wait_for("QCS-SGM");
    wait_for_file(&place.path("broken/checkpoint-ep-1.safetensors"));
    running.signal("KILL");
    assert!(!place.path("broken/ep/samples.npy").exists(), "arrays appear whole");
    assert!(place.path("broken/ep/0001.png").exists(), "pictures as they come");
    let first = place.read("broken/checkpoint-ep.safetensors");
    place.write("broken/checkpoint-ep.safetensors", &first[..first.len() / 2]);
    let resume = format!("{line} --out broken --resume");
    place
        .run(&resume)
        .refuses(&resume, 3, &["checkpoint-ep.safetensors", "not a whole checkpoint"]);
    place.write("broken/checkpoint-ep.safetensors", &first);
    place.succeeds(&format!("{resume} --quiet"));
    assert_same_run(&place, "broken", "whole");
}

#[test]
fn no_more_pictures_are_drawn_than_asked_for() {
    let place = place();
    let drawn = |out: &str| {
        ["grid.png", "ep/0000.png", "ep/samples/0006-01.png"].map(|file| place.path(out).join(file).exists())
    };
    for (pictures, expected) in [
        ("none", [false, false, false]),
        ("grid", [true, false, false]),
        ("all", [true, true, true]),
    ] {
        place.succeeds(&format!("{RUN} --out {pictures} --pictures {pictures}"));
        assert_eq!(drawn(pictures), expected, "{pictures}");
    }
    place.succeeds(&format!("{RUN} --out usual"));
    assert_eq!(drawn("usual"), [true, true, true]);
    assert!(place.read("none/ep/samples.npy") == place.read("all/ep/samples.npy"));
    let line = format!("{RUN} --out other --pictures some");
    place.run(&line).refuses(&line, 2, &["--pictures", "none, grid, all"]);
    // What a run that was given up has drawn goes when another one takes its place.
    std::fs::remove_file(place.path("all/metrics.json")).unwrap();
    std::fs::remove_file(place.path("all/ep/samples.npy")).unwrap();
    place.succeeds(&format!("{RUN} --out all --count 2 --force"));
    assert!(place.path("all/ep/0001.png").exists() && !place.path("all/ep/0002.png").exists());
}

/// Of a thousand images each is a picture; of more only the first hundred, in the grid.
#[test]
fn many_images_are_not_many_pictures() {
    let place = Place::new();
    write_images(&place, "images.npy", 1001);
    let run =
        "run images.npy -m 4 --model model.safetensors --method diag --levels 2 --steps-per-level 1 --batch 64 --quiet";
    place.succeeds(&format!("{run} --out more"));
    assert!(place.path("more/grid.png").exists() && !place.path("more/diag/0000.png").exists());
    place.succeeds(&format!("{run} --out fewer --count 1000"));
    assert!(place.path("fewer/diag/0999.png").exists());
}

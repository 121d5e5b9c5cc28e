//! No file is lost: none that a command did not write, none behind a link, none of two commands at once.

use crate::support::Place;

const SWEEP: &str =
    "sweep --images images.npy --model model.safetensors -m 12,24 --bits 2 --step 0.5 --levels 3 --out paper";

#[test]
fn a_sweep_takes_no_folder_of_somebody_else_and_removes_only_its_own_figures() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("paper/figures")).unwrap();
    for name in [
        "paper/report.html",
        "paper/points.csv",
        "paper/figures/mine.svg",
        "paper/figures/mine.png",
    ] {
        place.write(name, "mine");
    }
    place.run(SWEEP).refuses(SWEEP, 2, &["paper", "no sweep has written"]);
    for name in [
        "paper/report.html",
        "paper/points.csv",
        "paper/figures/mine.svg",
        "paper/figures/mine.png",
    ] {
        assert_eq!(place.text(name), "mine");
    }
    std::fs::remove_dir_all(place.path("paper")).unwrap();
    place.succeeds(SWEEP);
    place.write("paper/figures/mine.svg", "mine");
    let figures = || crate::folders::files_in(&place.path("paper/figures"));
    let before = figures();
    assert!(before.len() > 2, "{before:?}");
    place.succeeds(&SWEEP.replace("12,24", "24"));
    assert_eq!(place.text("paper/figures/mine.svg"), "mine");
    assert!(
        figures().len() < before.len(),
        "those of the wider sweep went: {:?}",
        figures()
    );
}

#[test]
fn a_report_of_a_check_and_man_pages_replace_nothing_unasked() {
    let place = Place::new();
    place.write("thesis.tex", "mine");
    let line = "check --device cpu --only nothing-is-called-so --report thesis.tex";
    place.run(line).refuses(line, 2, &["thesis.tex exists", "--force"]);
    let line = "check --device cpu --only nothing-is-called-so --report new.json";
    place.run(line).refuses(line, 2, &["no case has such a name"]);
    assert!(!place.path("new.json").exists(), "nothing was checked");
    std::fs::create_dir(place.path("man1")).unwrap();
    place.write("man1/qcs-run.1", "mine");
    place
        .run("manual man1")
        .refuses("manual", 2, &["qcs-run.1 exists", "--force"]);
    assert_eq!(
        (place.text("thesis.tex"), place.text("man1/qcs-run.1")),
        ("mine".into(), "mine".into())
    );
    assert!(!place.path("man1/qcs.1").exists(), "all pages or none");
    place.succeeds("manual man1 --force");
    assert_ne!(place.text("man1/qcs-run.1"), "mine");
}

#[cfg(unix)]
#[test]
fn a_link_is_replaced_and_never_what_it_points_to() {
    use std::os::unix::fs::symlink;
    let place = Place::with_problem();
    let run = "run problem.safetensors --model model.safetensors --levels 3 --pictures none --cache svd --quiet --out";
    // A problem of a gaussian A brings no factorisation.
    place.succeeds(&format!("{run} first"));
    let kept = std::fs::read_dir(place.path("svd"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    place.write("precious", "mine");
    std::fs::remove_file(&kept).unwrap();
    symlink(place.path("precious"), &kept).unwrap();
    place.succeeds(&format!("{run} second"));
    assert_eq!(place.text("precious"), "mine");
    assert!(!kept.is_symlink());
    symlink(place.path("precious"), place.path("link")).unwrap();
    place.succeeds("measure images.npy -m 8 -o link --force");
    assert_eq!(place.text("precious"), "mine");
}

#[cfg(unix)]
#[test]
fn of_two_commands_that_write_one_file_one_is_refused() {
    use std::process::Stdio;
    let place = Place::new();
    let line = "sample --model model.safetensors --count 4 --levels 100000 --threads 1 -o sheet.png";
    let mut first = place.command(line).stderr(Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !place.path(".sheet.png.0-0.tmp").exists() {
        assert!(begun.elapsed().as_secs() < 60, "the command does not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for other in [
        "sample --model model.safetensors --count 1 --levels 2 -o sheet.png --force",
        "measure images.npy -m 8 -o sheet.png",
    ] {
        place
            .run(other)
            .refuses(other, 2, &["another command is writing this file"]);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    place.succeeds("measure images.npy -m 8 -o sheet.png");
    let left = crate::folders::files_in(place.path("").as_path());
    assert!(left.iter().all(|name| !name.contains(".tmp")), "{left:?}");
}

#[test]
fn a_damaged_cache_is_made_again_and_one_that_cannot_be_written_is_no_obstacle() {
    let place = Place::with_problem();
    let run = |out: &str, cache: &str| {
        place.succeeds(&format!(
            "run problem.safetensors --model model.safetensors --levels 3 --pictures none --cache {cache} --out {out}"
        ))
    };
    run("first", "svd");
    let path = std::fs::read_dir(place.path("svd"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.contains("-cpu-"), "it names the instruction set: {name}");
    let whole = std::fs::read(&path).unwrap();
    for (index, from_end) in (1..whole.len() / 2).step_by(whole.len() / 16).enumerate() {
        let mut damaged = whole.clone();
        let at = whole.len() - from_end;
        // The lowest bit of a number: no probe would see it.
        damaged[at & !7] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let ran = run(&format!("out{index}"), "svd");
        assert!(ran.stderr.contains("made again"), "{at}: {}", ran.stderr);
        assert!(std::fs::read(&path).unwrap() == whole);
        assert!(place.read(&format!("out{index}/ep/samples.npy")) == place.read("first/ep/samples.npy"));
    }
    let ran = run("blocked", "images.npy");
    assert!(ran.stderr.contains("is not kept"), "{}", ran.stderr);
}

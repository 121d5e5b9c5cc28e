//! Output that cannot be written: exit code 1, the path in the message, and no half a file left behind.

use std::process::Command;

use crate::folders::files_in;
use crate::support::{Place, Ran};

#[test]
fn output_below_a_regular_file_cannot_be_written() {
    let place = Place::with_problem();
    place.write("file", "in the way");
    for line in [
        "run problem.safetensors --model model.safetensors --out file/run",
        "run problem.safetensors --model model.safetensors --out file",
        "measure images.npy -m 8 -o file/p.safetensors",
        "score --model model.safetensors --x images.npy --beta 1 --out file/s.npy",
        "likelihood --problem problem.safetensors --x images.npy --beta 1 --out file/g.npy",
        "sample --model model.safetensors --count 1 -o file/sheet.png --quiet",
        "measure images.npy -m 8 -o nowhere/p.safetensors",
    ] {
        place.run(line).refuses(line, 1, &["cannot"]);
    }
    assert_eq!(place.text("file"), "in the way");
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_without_space_is_an_error() {
    let place = Place::with_problem();
    for line in [
        "score --model model.safetensors --x images.npy --beta 1 --out /dev/full",
        "measure images.npy -m 8 -o /dev/full",
        "sample --model model.safetensors --count 1 --quiet -o /dev/full",
    ] {
        place
            .run(line)
            .refuses(line, 1, &["/dev/full: cannot write", "No space left"]);
    }
    let info = |line: &str| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        Ran::from(place.command(line).stdout(full).output().unwrap())
    };
    assert_eq!(
        info("info --model model.safetensors").code,
        Some(1),
        "a table that cannot be printed"
    );
}

/// The shell's limit on the size of a file stands for a full disk: a write fails in the middle of a file.
#[test]
#[cfg(unix)]
fn a_disk_that_fills_up_leaves_no_half_file_and_loses_no_samples() {
    let place = Place::with_problem();
    let limited = |blocks: u32, line: &str| {
        let script = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec {} {line}",
            env!("CARGO_BIN_EXE_qcs")
        );
        let folder = place.path("");
        Ran::from(
            Command::new("sh")
                .args(["-c", &script])
                .current_dir(folder)
                .output()
                .unwrap(),
        )
    };
    let before = files_in(&place.path(""));
    let line = "measure images.npy -m 48 -o p.safetensors";
    limited(8, line).refuses(line, 1, &["p.safetensors: cannot write"]);
    assert_eq!(files_in(&place.path("")), before, "no temporary file is left");

    // 3 images × 2 chains make 1.5 kB of samples and a checkpoint a little larger, with pictures and metrics far
    // smaller: at four blocks of 512 bytes it is the checkpoint or the samples that do not fit.
    let line = "run problem.safetensors --model model.safetensors --out run --chains 6 --quiet";
    limited(4, line).refuses(line, 1, &["cannot write"]);
    assert!(
        !place.path("run/metrics.json").exists(),
        "an incomplete run has no metrics"
    );
    place.succeeds("run --resume --out run");
    place.succeeds("run problem.safetensors --model model.safetensors --out whole --chains 6");
    assert_eq!(place.read("run/ep/samples.npy"), place.read("whole/ep/samples.npy"));
}

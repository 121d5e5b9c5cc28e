//! Ctrl-C, SIGTERM and a crash in the middle: what was done is kept, and the rest comes out the same bits.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Place, Ran};

/// Long enough to be hit in the middle on any machine: a second or more for each method. The steps are small, because a random
/// network leads nowhere.
const LONG: &str = "run problem.safetensors --model model.safetensors --method both --levels 1000 --steps-per-level 5 --step-scale 1e-3 --threads 1";

/// A run in the background.
pub struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Running {
    pub fn start(place: &Place, line: &str) -> Self {
        let mut command = place.command(line);
        // At the end of every level, so that tests can wait for one.
        command.env("QCS_CHECKPOINT_SECONDS", "0");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stderr,
            said: String::new(),
        }
    }

    /// Reads on until a line holds the words.
    pub fn wait_for(&mut self, words: &str) {
        while !self.said.contains(words) {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert!(read > 0, "ended before saying {words:?}: {}", self.said);
        }
    }

    pub fn signal(mut self, name: &str) -> Ran {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(
            std::process::Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut self.said).unwrap();
        Ran {
            code: self.child.wait().unwrap().code(),
            stdout,
            stderr: self.said,
        }
    }
}

/// Waits until the file is there and holds something else than `before`: some steps into what has just begun.
pub fn wait_for_other(path: &Path, before: Option<&[u8]>) {
    let begun = Instant::now();
    while std::fs::read(path).map_or(true, |now| Some(now.as_slice()) == before) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} is not written",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn wait_for_file(path: &Path) {
    wait_for_other(path, None);
}

#[test]
fn a_run_that_is_stopped_twice_and_killed_once_ends_with_the_same_bits() {
    let place = Place::with_problem();
    place.succeeds(&format!("{LONG} --out whole --quiet"));

    let [diag, ep] = ["diag", "ep"].map(|method| place.path(&format!("run/checkpoint-{method}.safetensors")));
    // In the first method.
    let mut run = Running::start(&place, &format!("{LONG} --out run"));
    run.wait_for("QCS-SGM starts");
    wait_for_file(&diag);
    let ran = run.signal("TERM");
    ran.refuses(
        "run",
        130,
        &["stopped; the state is saved", "qcs run --resume --out run"],
    );
    assert!(place.path("run/checkpoint-diag.safetensors").exists() && !place.path("run/metrics.json").exists());

    // In the second, on other threads.
    let mut run = Running::start(&place, "run --resume --out run --threads 2");
    run.wait_for("QCS-SGM continues from its checkpoint");
    run.wait_for("QCS-SGM+ starts");
    wait_for_file(&ep);
    assert_eq!(run.signal("INT").code, Some(130));
    assert!(place.path("run/checkpoint-ep.safetensors").exists());

    // Killed without a chance to save anything: what the last checkpoint holds is enough.
    let mut run = Running::start(&place, "run --resume --out run");
    let before = std::fs::read(&ep).unwrap();
    run.wait_for("QCS-SGM+ continues from its checkpoint");
    wait_for_other(&ep, Some(&before));
    assert_eq!(run.signal("KILL").code, None);

    // The command as it was first typed, and --resume; the batch changes no result.
    place.succeeds(&format!("{LONG} --out run --resume --batch 2 --quiet"));
    for file in [
        "diag/samples.npy",
        "ep/samples.npy",
        "config.toml",
        "metrics.csv",
        "grid.png",
    ] {
        assert!(
            place.read(&format!("run/{file}")) == place.read(&format!("whole/{file}")),
            "{file} differs"
        );
    }
    let left = std::fs::read_dir(place.path("run")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        names.into_iter().all(|name| !name.contains("checkpoint")),
        "checkpoints go when the run is complete"
    );
    let again = place.succeeds("run --resume --out run");
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
}

#[test]
fn an_unfinished_run_is_neither_overwritten_nor_continued_with_other_settings() {
    let place = Place::with_problem();
    let mut run = Running::start(&place, &format!("{LONG} --out run"));
    run.wait_for("QCS-SGM starts");
    wait_for_file(&place.path("run/checkpoint-diag.safetensors"));
    assert_eq!(run.signal("TERM").code, Some(130));
    let checkpoint = place.read("run/checkpoint-diag.safetensors");

    let line = format!("{LONG} --out run");
    place
        .run(&line)
        .refuses(&line, 2, &["unfinished run", "--resume", "--force"]);
    let line = format!("{LONG} --out run --resume --seed 1");
    place.run(&line).refuses(&line, 2, &["other settings"]);
    let line = "run --resume --out run";
    let config = place.text("run/config.toml");
    place.write(
        "run/config.toml",
        config.replace("step_scale = ", "step_scale = 0.5 # "),
    );
    place
        .run(line)
        .refuses(line, 3, &["checkpoint-diag.safetensors", "other settings"]);
    place.write("run/config.toml", &config);
    place.write("run/checkpoint-diag.safetensors", &checkpoint[..checkpoint.len() / 2]);
    place
        .run(line)
        .refuses(line, 3, &["checkpoint-diag.safetensors", "not a whole checkpoint"]);
    assert_eq!(
        place.read("run/checkpoint-diag.safetensors"),
        checkpoint[..checkpoint.len() / 2]
    );
}

#[test]
fn checkpoints_are_kept_on_the_way_so_that_a_crash_costs_seconds() {
    let place = Place::with_problem();
    let line =
        "run problem.safetensors --model model.safetensors --out run --levels 100000 --steps-per-level 5 --threads 1";
    let run = Running::start(&place, line);
    wait_for_file(&place.path("run/checkpoint-ep.safetensors"));
    assert_eq!(run.signal("KILL").code, None);
    let mut run = Running::start(&place, "run --resume --out run");
    run.wait_for("QCS-SGM+ continues from its checkpoint");
    assert_eq!(run.signal("TERM").code, Some(130));
}

#[test]
fn drawing_from_the_prior_goes_on_after_a_signal_to_the_same_bits() {
    let place = Place::new();
    let line =
        "sample --model model.safetensors --count 4 --levels 1000 --steps-per-level 5 --step-scale 1e-3 --threads 1";
    place.succeeds(&format!("{line} -o whole.png --samples whole.npy --quiet"));
    let line = format!("{line} -o sheet.png --samples s.npy");
    let mut run = Running::start(&place, &line);
    run.wait_for("4 images of shape 1,8,8");
    wait_for_file(&place.path("sheet.png.checkpoint"));
    run.signal("TERM")
        .refuses(&line, 130, &["the state is saved", "--resume"]);
    place
        .run(&line)
        .refuses(&line, 2, &["is unfinished", "--resume", "--force"]);
    let other = format!("{line} --resume --seed 1");
    place
        .run(&other)
        .refuses(&other, 3, &["sheet.png.checkpoint", "other settings"]);
    place.succeeds(&format!("{line} --resume --batch 3 --quiet"));
    assert!(place.read("s.npy") == place.read("whole.npy"), "other samples");
    assert!(place.read("sheet.png") == place.read("whole.png"));
    assert!(!place.path("sheet.png.checkpoint").exists());
}

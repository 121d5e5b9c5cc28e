//! `qcs` with the emulator as its CUDA driver.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{IMAGE, Place, Ran};

/// The names under which the emulator stands in for NVIDIA's libraries.
pub const DRIVER: &str = "libcuda.so.1";
pub const BLAS: &str = "libcublas.so.12";
pub const SOLVER: &str = "libcusolver.so.11";
pub const NVTX: &str = "libnvToolsExt.so.1";

/// A place whose commands find a GPU.
pub struct Emulated {
    pub place: Place,
}

impl Emulated {
    /// With the images and the model of [`Place::new`], and the driver alone.
    pub fn new() -> Self {
        Self::with(&[DRIVER])
    }

    /// The same with these libraries.
    pub fn with(libraries: &[&str]) -> Self {
        let emulated = Self { place: Place::new() };
        emulated.link(libraries);
        emulated
    }

    /// Has the commands to come find these libraries and no others.
    pub fn link(&self, libraries: &[&str]) {
        let folder = self.place.path("lib");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        for name in libraries {
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
    }

    /// `problem.safetensors`, and a model of so many levels.
    pub fn problem_and_model(&self, model: &str, levels: usize) {
        self.place.model(model, IMAGE, |_, metadata| {
            metadata.insert("num_classes".into(), levels.to_string());
        });
        self.place
            .succeeds("measure images.npy -o problem.safetensors -m 24 --bits 2 --step 0.5 --seed 7");
    }

    /// `qcs` in this place, with the emulator, which writes its statistics when the program ends.
    pub fn command(&self, line: &str, environment: &[(&str, &str)]) -> Command {
        let mut command = self.place.command(line);
        self.emulate(&mut command).envs(environment.iter().copied());
        command
    }

    pub fn run(&self, line: &str, environment: &[(&str, &str)]) -> Ran {
        Ran::from(self.command(line, environment).output().unwrap())
    }

    pub fn succeeds(&self, line: &str) -> Ran {
        let ran = self.run(line, &[]);
        assert_eq!(ran.code, Some(0), "qcs {line}\n{}", ran.stderr);
        ran
    }

    /// One ignored test of this program, in a process of its own.
    pub fn child(&self, test: &str, environment: &[(&str, &str)]) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture"]);
        let output = self
            .emulate(&mut command)
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    fn emulate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env_remove("QCS_DEVICE")
            .env("LD_LIBRARY_PATH", self.place.path("lib"))
            .env("QCS_EMU_STATS", self.place.path("stats.json"))
    }

    /// What the last command asked of the device.
    pub fn stats(&self) -> serde_json::Value {
        serde_json::from_str(&self.place.text("stats.json")).unwrap()
    }
}

/// Cargo builds the emulator's shared library with these tests and puts it beside them.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let library = program.parent().unwrap().join("libqcs_emulator.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

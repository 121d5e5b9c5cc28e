//! `qcs` with the emulator as its CUDA driver.

use std::process::Command;

use qcs_emulator::stand_in::{self, Library};

use crate::support::{IMAGE, Place, Ran};

/// A place whose commands find a GPU.
pub struct Emulated {
    pub place: Place,
}

impl Emulated {
    /// With the images and the model of [`Place::new`], and the driver alone.
    pub fn new() -> Self {
        Self::with(&[Library::Driver])
    }

    /// The same with these libraries.
    pub fn with(libraries: &[Library]) -> Self {
        Self::at(Place::new(), libraries)
    }

    pub fn at(place: Place, libraries: &[Library]) -> Self {
        let emulated = Self { place };
        emulated.link(libraries);
        emulated
    }

    /// Has the commands to come find these libraries and no others.
    pub fn link(&self, libraries: &[Library]) {
        stand_in::link(&self.place.path("lib"), libraries).unwrap();
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
        command
            .env_remove("QCS_DEVICE")
            .env("QCS_EMU_STATS", self.place.path("stats.json"))
            .envs(environment.iter().copied());
        stand_in::search_first(&mut command, &self.place.path("lib"));
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

    /// What the last command asked of the device.
    pub fn stats(&self) -> serde_json::Value {
        serde_json::from_str(&self.place.text("stats.json")).unwrap()
    }
}

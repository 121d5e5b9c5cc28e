//! A folder with small files of every kind, and a way to run the binary in it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use qcs::files::npy;
use qcs::prior::{Prior, parameters};
use qcs::{ImageShape, Images};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tempfile::TempDir;

/// Large enough for SSIM's window, small enough to sample in milliseconds.
pub const IMAGE: ImageShape = ImageShape::new(1, 8, 8);
pub const IMAGES: usize = 3;

pub struct Place {
    folder: TempDir,
}

/// What a command left behind.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    /// With `model.safetensors`, a random network, and `images.npy`.
    pub fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        place.model("model.safetensors", IMAGE, |_, _| {});
        write_images(&place, "images.npy", IMAGES);
        place
    }

    /// Also with `problem.safetensors`: the images, measured.
    pub fn with_problem() -> Self {
        let place = Self::new();
        place.succeeds("measure images.npy -o problem.safetensors -m 24 --bits 2 --step 0.5 --seed 7");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// `qcs` with the given words, in this folder, on the CPU unless they say otherwise: a GPU rounds differently.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qcs"));
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        command.env("QCS_DEVICE", "cpu");
        command
    }

    pub fn run(&self, line: &str) -> Ran {
        Ran::from(self.command(line).output().unwrap())
    }

    pub fn succeeds(&self, line: &str) -> Ran {
        let ran = self.run(line);
        assert_eq!(ran.code, Some(0), "qcs {line}\n{}", ran.stderr);
        ran
    }

    /// Writes a random model, after `change` has had its way with its tensors and metadata.
    pub fn model(
        &self,
        name: &str,
        image: ImageShape,
        change: impl FnOnce(&mut Tensors, &mut HashMap<String, String>),
    ) {
        let prior = Prior::random_of_width(4, image, 3);
        let mut tensors: Tensors = parameters(prior.network())
            .into_iter()
            .map(|param| (param.name.clone(), (param.shape, prior.weight(&param.name).to_vec())))
            .collect();
        let mut metadata = HashMap::from(
            [
                ("image_size", image.height.to_string()),
                ("sigma_begin", "5".into()),
                ("sigma_end", "0.05".into()),
                ("num_classes", "6".into()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        change(&mut tensors, &mut metadata);
        self.tensors(name, &tensors, metadata);
    }

    /// Writes a safetensors file of f32 tensors.
    pub fn tensors(&self, name: &str, tensors: &Tensors, metadata: HashMap<String, String>) {
        let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
            .iter()
            .map(|(key, (shape, values))| {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (key.clone(), shape.clone(), bytes)
            })
            .collect();
        let views = bytes.iter().map(|(key, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
            (key.clone(), view)
        });
        self.write(name, safetensors::serialize(views, Some(metadata)).unwrap());
    }
}

/// Writes so many of the small images.
pub fn write_images(place: &Place, name: &str, count: usize) {
    let size = [count, IMAGE.channels, IMAGE.height, IMAGE.width];
    npy::write(place.path(name), &size, &images(count).data).unwrap();
}

/// Compares two runs file by file: all bytes but those that tell times, and those of shards that lie beside.
pub fn assert_same_run(place: &Place, a: &str, b: &str) {
    let (one, other) = (files(&place.path(a)), files(&place.path(b)));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    assert!(one.len() > 4, "{:?}", names(&one));
    for (name, bytes) in one {
        if name == "metrics.json" {
            assert_eq!(without_times(&bytes), without_times(&other[&name]));
        } else {
            assert!(bytes == other[&name], "{name}");
        }
    }
}

fn without_times(metrics: &[u8]) -> serde_json::Value {
    let mut json: serde_json::Value = serde_json::from_slice(metrics).unwrap();
    json.as_object_mut().unwrap().remove("checksum");
    for method in json["methods"].as_array_mut().unwrap() {
        method["seconds"] = 0.into();
    }
    json
}

/// The files below a run's folder, by their names.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                _ if name.starts_with("shard-") || name.ends_with(".lock") => {}
                true => folders.push(path),
                false => {
                    found.insert(name, std::fs::read(path).unwrap());
                }
            }
        }
    }
    found
}

/// Shape and values by name.
pub type Tensors = HashMap<String, (Vec<usize>, Vec<f32>)>;

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// Checks a refusal: the exit code, nothing on stdout, and one line that says all of `words`.
    pub fn refuses(&self, line: &str, code: i32, words: &[&str]) {
        let all = &self.stderr;
        assert_eq!(self.code, Some(code), "qcs {line}\n{all}");
        assert!(self.stdout.is_empty(), "qcs {line} wrote to stdout: {}", self.stdout);
        let errors: Vec<&str> = all.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "qcs {line} says what is wrong, once:\n{all}");
        assert!(!all.contains("panicked"), "qcs {line}\n{all}");
        for word in words {
            assert!(all.contains(word), "qcs {line} does not say {word:?}:\n{all}");
        }
    }
}

/// Smooth images in [0, 1].
pub fn images(count: usize) -> Images {
    let pixel = |i: usize| 0.5 + 0.5 * ((i * i % 97) as f32 / 15.0).sin();
    Images::new(IMAGE, (0..count * IMAGE.len()).map(pixel).collect())
}

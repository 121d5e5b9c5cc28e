//! Every reader of files, fed with damaged ones: bytes flipped, cut out, doubled and exchanged.
//!
//! Whatever comes of it must be a result or one line that blames the file, never a panic or a huge allocation. The
//! mutations come from a generator of ours with a fixed seed, so a failure repeats; it names the file and the round.

mod corpus;
#[path = "../hostile/memory.rs"]
mod memory;
mod mutation;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use qcs::files::{LoadOptions, load_images, npy};
use qcs::prior::Prior;
use qcs::prior::convert::{ConvertOptions, convert};
use qcs::problem::{Matrix, Problem};
use qcs::{Error, ImageShape};

use corpus::{Seed, seeds};
use mutation::Mutator;

/// The seeds are a few kilobytes each and have no claim to more.
const LARGEST: usize = 64 << 20;

/// Reads `rounds` mutations of every seed.
fn survives(seeds: &[Seed], rounds: usize, read: impl Fn(&Path) -> qcs::Result<()>) {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds {
        let path = folder.path().join(seed.name);
        std::fs::write(&path, &seed.bytes).unwrap();
        read(&path).unwrap_or_else(|e| panic!("the seed {} is not valid: {e}", seed.name));
        let mut mutator = Mutator::new(seeds);
        memory::largest_allocation();
        for round in 0..rounds {
            let bytes = mutator.mutated(seed);
            // Some file systems flush a file that is written over to the disk, but not one that is new.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let context = || format!("round {round} of {}", seed.name);
            match catch_unwind(AssertUnwindSafe(|| read(&path))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let line = error.to_string();
                    assert!(!line.chars().any(char::is_control), "{}: {line:?}", context());
                    assert!(line.contains(seed.name), "{}: {line}", context());
                    assert_eq!(error.exit_code(), 3, "{}: {line}", context());
                }
                Err(_) => panic!("{} panicked", context()),
            }
            let largest = memory::largest_allocation();
            assert!(largest < LARGEST, "{} allocated {largest} bytes", context());
        }
    }
}

fn images(path: &Path) -> qcs::Result<()> {
    load_images(path, &LoadOptions::default()).map(drop)
}

#[test]
fn mutated_npy_arrays() {
    survives(&seeds(&["npy"]), 800, |path| npy::read(path).map(drop));
    survives(&corpus::image_arrays(), 800, images);
}

#[test]
fn mutated_npz_archives() {
    survives(&seeds(&["npz"]), 800, images);
}

#[test]
fn mutated_idx_files() {
    survives(&corpus::idx(), 800, images);
}

#[test]
fn mutated_png_pictures() {
    survives(&corpus::png(), 500, images);
}

#[test]
fn mutated_jpeg_pictures() {
    survives(&seeds(&["jpg"]), 500, images);
}

#[test]
fn mutated_pytorch_checkpoints() {
    let options = ConvertOptions {
        image_size: Some(8),
        ..ConvertOptions::default()
    };
    // A device is written to directly: no file, no flush to a disk.
    survives(&seeds(&["pth"]), 250, |path| {
        convert(path, Path::new("/dev/null"), &options).map(drop)
    });
}

#[test]
fn mutated_problem_files() {
    survives(&corpus::problems(), 800, |path| Problem::read(path).map(drop));
    survives(&corpus::problems(), 400, |path| Matrix::read(path).map(drop));
}

#[test]
fn mutated_prior_files() {
    survives(&corpus::priors(), 500, |path| Prior::open(path, None).map(drop));
}

fn golden(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/goldens/published", name]
        .iter()
        .collect()
}

/// Opened as they are, of a family that needs no settings.
#[test]
fn mutated_published_checkpoints() {
    let seed = Seed::new("drunet.pt", std::fs::read(golden("drunet.pt")).unwrap());
    let shape = Some(ImageShape::new(3, 16, 24));
    survives(&[seed], 150, |path| Prior::open(path, shape).map(drop));
    // A pickle that holds everything; its first bytes are the most telling ones.
    let seed = Seed::new("edm-pickled.pkl", std::fs::read(golden("edm-pickled.pkl")).unwrap());
    survives(&[seed], 250, |path| Prior::open(path, None).map(drop));
}

/// Beside weights that are whole.
#[test]
fn mutated_settings_of_a_diffusers_folder() {
    for name in ["config.json", "scheduler_config.json"] {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(golden("unet2d-google")).unwrap() {
            let entry = entry.unwrap().path();
            std::fs::copy(&entry, folder.path().join(entry.file_name().unwrap())).unwrap();
        }
        let seed = Seed::new(name, std::fs::read(golden("unet2d-google").join(name)).unwrap());
        survives(&[seed], 300, |path| {
            std::fs::copy(path, folder.path().join(name)).unwrap();
            // What does not fit may be said of the weights.
            let opened = Prior::open(folder.path(), None);
            opened.map(drop).map_err(|e| match e {
                Error::BadFile { .. } => Error::bad_file(path, e.to_string()),
                other => other,
            })
        });
    }
}

//! `convert` against files PyTorch wrote (`tests/fixtures/convert/make.py`) and against damaged and hostile ones.
//!
//! All fixtures hold one network of ngf = 2 for 8×8 images, whose EMA is exactly half its plain weights.

mod errors;
mod hostile;
#[path = "../hostile/memory.rs"]
mod memory;
mod streamed;

use std::path::{Path, PathBuf};

use qcs::Images;
use qcs::engine::cpu::CpuEngine;
use qcs::methods::prior_score;
use qcs::prior::convert::{Container, ConvertOptions, Converted, Weights, convert};
use qcs::prior::{Prior, parameters};
use safetensors::{Dtype, SafeTensors};

/// Those with an average beside the plain weights.
const WITH_EMA: [&str; 4] = [
    "list.pth",
    "list_legacy.pth",
    "helper_deflated.pth",
    "shadow_params_deflated.pth",
];

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/convert", name]
        .iter()
        .collect()
}

fn for_8x8() -> ConvertOptions {
    ConvertOptions {
        image_size: Some(8),
        ..ConvertOptions::default()
    }
}

/// Converts a fixture and opens the result.
fn converted(name: &str, options: &ConvertOptions) -> (Converted, Prior) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let converted = convert(&fixture(name), &output, options).unwrap();
    (converted, Prior::open(&output, None).unwrap())
}

/// What `make.py` computed.
struct Expected(Vec<u8>);

impl Expected {
    fn open() -> Self {
        Self(std::fs::read(fixture("expected.safetensors")).unwrap())
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).unwrap();
        let bytes = |width: usize| tensor.data().chunks_exact(width);
        match tensor.dtype() {
            Dtype::F16 => bytes(2)
                .map(|b| half::f16::from_le_bytes(b.try_into().unwrap()).to_f64())
                .collect(),
            Dtype::F32 => bytes(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()).into())
                .collect(),
            _ => bytes(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        }
    }

    /// Whether the prior's weights are `factor` times the EMA, to the last bit, and its levels the model's.
    fn assert_equals(&self, prior: &Prior, factor: f64, context: &str) {
        for param in parameters(prior.network()) {
            let expected: Vec<f32> = self
                .values(&format!("ema.{}", param.name))
                .iter()
                .map(|v| (factor * v) as f32)
                .collect();
            assert_eq!(prior.weight(&param.name), expected, "{} of {context}", param.name);
        }
        let levels: Vec<f32> = self.values("sigmas").iter().map(|&v| v as f32).collect();
        assert_eq!(prior.schedule.as_ref().unwrap().levels(), levels, "{context}");
    }
}

#[test]
fn the_average_is_taken_from_every_kind_of_checkpoint() {
    let expected = Expected::open();
    for name in WITH_EMA {
        let (summary, prior) = converted(name, &for_8x8());
        assert_eq!(summary.weights, Weights::Ema, "{name}");
        expected.assert_equals(&prior, 1.0, name);
    }
}

#[test]
fn raw_takes_the_plain_weights() {
    let expected = Expected::open();
    let options = ConvertOptions { raw: true, ..for_8x8() };
    for name in WITH_EMA {
        let (summary, prior) = converted(name, &options);
        assert_eq!(summary.weights, Weights::Raw, "{name}");
        expected.assert_equals(&prior, 2.0, name);
    }
}

#[test]
fn a_bare_state_dict_of_halves_is_widened_and_not_labelled() {
    for raw in [false, true] {
        let options = ConvertOptions { raw, ..for_8x8() };
        let (summary, prior) = converted("half_legacy.pth", &options);
        assert_eq!((summary.weights, summary.container), (Weights::Only, Container::Legacy));
        Expected::open().assert_equals(&prior, 2.0, "half_legacy.pth");
    }
}

#[test]
fn the_score_of_a_converted_checkpoint_equals_pytorchs_within_1e_4() {
    let expected = Expected::open();
    let x: Vec<f32> = expected.values("x").iter().map(|&v| v as f32).collect();
    let beta = expected.values("sigma")[0];
    for name in WITH_EMA {
        let (_, prior) = converted(name, &for_8x8());
        let mut engine = CpuEngine::new(1);
        let images = Images::new(prior.image(), x.clone());
        let score = prior_score(&mut engine, &prior, &images, beta).unwrap().data;
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let pytorch = expected.values("score");
        let difference = norm(&mut score.iter().zip(&pytorch).map(|(&a, b)| f64::from(a) - b));
        let error = difference / norm(&mut pytorch.iter().copied());
        println!("{name}: {error:.1e}");
        assert!(error < 1e-4, "{name}: {error:e}");
    }
}

#[test]
fn f16_halves_the_weights_and_keeps_the_levels() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let options = ConvertOptions { f16: true, ..for_8x8() };
    convert(&fixture("list.pth"), &output, &options).unwrap();
    let bytes = std::fs::read(&output).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for (name, tensor) in tensors.tensors() {
        assert_eq!(
            tensor.dtype(),
            if name == "sigmas" { Dtype::F32 } else { Dtype::F16 },
            "{name}"
        );
    }
    // The fixture's weights are exact in f16.
    Expected::open().assert_equals(&Prior::open(&output, None).unwrap(), 1.0, "f16");
}

#[test]
fn the_metadata_say_what_was_converted() {
    let (summary, prior) = converted("list_legacy.pth", &for_8x8());
    let metadata = |key: &str| prior.metadata[key].as_str();
    assert_eq!(
        (metadata("ngf"), metadata("channels"), metadata("image_size")),
        ("2", "1", "8")
    );
    assert_eq!((metadata("weights"), metadata("source")), ("ema", "list_legacy.pth"));
    assert_eq!(
        (summary.ngf, summary.channels, summary.parameters),
        (2, 1, prior.parameter_count())
    );
    assert_eq!(
        (summary.container, summary.entry.as_str()),
        (Container::Legacy, "item 4")
    );
    let line = summary.to_string();
    assert!(
        line.contains("EMA") && line.contains("8×8") && line.contains("12 levels"),
        "{line}"
    );
}

#[test]
fn the_image_size_comes_from_the_checkpoints_settings_if_not_given() {
    for name in ["helper_deflated.pth", "shadow_params_deflated.pth"] {
        let (summary, prior) = converted(name, &ConvertOptions::default());
        assert_eq!(summary.image_size, Some(8), "{name}");
        assert_eq!(prior.image(), qcs::ImageShape::new(1, 8, 8), "{name}");
        let options = ConvertOptions {
            image_size: Some(28),
            ..ConvertOptions::default()
        };
        assert_eq!(
            converted(name, &options).1.image(),
            qcs::ImageShape::new(1, 28, 28),
            "{name}"
        );
    }
}

#[test]
fn an_unknown_image_size_is_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    let summary = convert(&fixture("list.pth"), &output, &ConvertOptions::default()).unwrap();
    assert!(summary.image_size.is_none() && summary.to_string().contains("image size unknown"));
    assert!(Prior::open(&output, None).is_err());
    assert!(Prior::open(&output, Some(qcs::ImageShape::new(1, 8, 8))).is_ok());
}

#[test]
fn equal_checkpoints_give_equal_files() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str| {
        let output = folder.path().join(name);
        convert(&fixture("list.pth"), &output, &for_8x8()).unwrap();
        std::fs::read(output).unwrap()
    };
    assert_eq!(bytes("a"), bytes("b"));
}

/// The error's line, after checking that it is one line that names the file and means exit code 3.
fn complaint(path: &Path) -> String {
    // A device is written to directly: no file, no flush to a disk.
    let error = convert(path, Path::new("/dev/null"), &for_8x8()).unwrap_err();
    let line = error.to_string();
    assert!(line.contains(path.to_str().unwrap()), "{line}");
    assert!(!line.contains('\n'), "{line}");
    assert_eq!(error.exit_code(), 3, "{line}");
    line
}

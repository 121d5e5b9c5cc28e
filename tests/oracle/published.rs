//! Published families, each a small network with random weights in a file or folder of its own kind (`make_published.py`), opened as it
//! is, against float64.

use std::path::PathBuf;

use crate::engines::every_engine;
use crate::golden::{Golden, relative_error};
use crate::network::scores;
use qcs::ImageShape;
use qcs::engine::Precision;
use qcs::prior::Prior;

/// The file or folder, and the shape that must be said.
const PUBLISHED: [(&str, &str, Option<ImageShape>); 10] = [
    ("unet2d-google", "unet2d-google", None),
    ("unet2d-defaults", "unet2d-defaults", None),
    ("unet2d-bin", "unet2d-bin", None),
    ("ddim.pt", "unet2d-google", Some(ImageShape::new(3, 8, 12))),
    ("adm.pt", "adm", Some(ImageShape::new(3, 8, 12))),
    ("adm-plain.pt", "adm-plain", Some(ImageShape::new(1, 8, 8))),
    ("edm-ddpmpp.pt", "edm-ddpmpp", None),
    ("edm-adm.pt", "edm-adm", None),
    ("edm-pickled.pkl", "edm-pickled", None),
    ("drunet.pt", "drunet", Some(ImageShape::new(3, 16, 24))),
];

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/goldens/published", name]
        .iter()
        .collect()
}

#[test]
fn published_networks_agree_with_float64_within_1e_5_on_every_engine() {
    let mut failures = Vec::new();
    for (file, golden, image) in PUBLISHED {
        let golden = Golden::open(&format!("published/{golden}.golden.safetensors"));
        let prior = Prior::open(&path(file), image).unwrap();
        let (n, expected) = (prior.image().len(), golden.f64("out_f64"));
        for mut engine in every_engine(Precision::Fp32) {
            let score = scores(engine.as_mut(), &prior, &golden, 1);
            for (image, (score, expected)) in score.chunks(n).zip(expected.chunks(n)).enumerate() {
                let error = relative_error(score, expected);
                let line = format!("{file} image {image} {}: {error:.1e}", engine.describe());
                println!("{line}");
                if error.is_nan() || error >= 1e-5 {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_published_networks_score_does_not_depend_on_its_batch() {
    let golden = Golden::open("published/unet2d-google.golden.safetensors");
    let prior = Prior::open(&path("unet2d-google"), None).unwrap();
    for mut engine in every_engine(Precision::Fp32) {
        let alone = scores(engine.as_mut(), &prior, &golden, 1);
        let together = scores(engine.as_mut(), &prior, &golden, 5);
        let same = alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{}", engine.describe());
    }
}

/// Tensor cores take the inputs of convolutions in 11 bits, fp16's with a smaller range: an error of 2⁻¹² an input, of which some tens of
/// layers make the tenfold.
const ROUNDED_BOUND: f64 = 1e-2;

#[test]
fn published_networks_in_fp16_and_tf32_stay_within_the_bound_that_is_stated() {
    let mut failures = Vec::new();
    for (precision, bound) in [(Precision::Fp16, ROUNDED_BOUND), (Precision::Tf32, ROUNDED_BOUND)] {
        for (file, golden, image) in PUBLISHED {
            let golden = Golden::open(&format!("published/{golden}.golden.safetensors"));
            let prior = Prior::open(&path(file), image).unwrap();
            let expected = golden.f64("out_f64");
            for mut engine in every_engine(precision) {
                let error = relative_error(&scores(engine.as_mut(), &prior, &golden, 5), &expected);
                let line = format!("{file} {}: {error:.1e}", engine.describe());
                println!("{line}");
                if error.is_nan() || error >= bound {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

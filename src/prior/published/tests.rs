//! The published networks themselves, by the names and shapes of their files: `tests/goldens/make_published.py` writes them down.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::diffusers::{self, Config, Folder};
use super::{Tensors, Translation, translate};
use crate::prior::parameters;

/// Names and shapes, no values.
struct Shapes(HashMap<String, Vec<usize>>);

impl Tensors for Shapes {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.get(name).cloned()
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, String> {
        Ok(vec![0.0; self.0[name].iter().product()])
    }
}

fn weights(translation: &Translation) -> usize {
    translation.network.check().unwrap();
    let weights = parameters(&translation.network);
    weights.iter().map(|p| p.shape.iter().product::<usize>()).sum()
}

/// Tensors of the file that the weights are made of.
fn sources(translation: &Translation) -> HashSet<&str> {
    let parts = translation.parts.values().flatten();
    parts.map(|part| part.name.as_str()).collect()
}

/// Weights that are left out: the variance of ADM, 3 of 6 outputs of so many channels, 3×3, and their biases.
const fn variance(channels: usize) -> usize {
    3 * (9 * channels + 1)
}

#[test]
fn published_state_dicts_have_the_published_tensors_and_parameters() {
    let small = Some((64, 64));
    for (name, json, side, tensors, count) in [
        (
            "ffhq_10m",
            include_str!("../../../tests/goldens/published/ffhq_10m.shapes.json"),
            None,
            362,
            93_563_910 - variance(128),
        ),
        (
            "256x256_diffusion_uncond",
            include_str!("../../../tests/goldens/published/256x256_diffusion_uncond.shapes.json"),
            None,
            566,
            552_814_086 - variance(256),
        ),
        (
            "edm-cifar10-32x32-uncond-vp",
            include_str!("../../../tests/goldens/published/edm-cifar10-32x32-uncond-vp.shapes.json"),
            None,
            416,
            // Of the published number, map_augment is not used.
            55_733_891 - 9 * 128,
        ),
        (
            "drunet_color",
            include_str!("../../../tests/goldens/published/drunet_color.shapes.json"),
            small,
            64,
            32_640_960,
        ),
    ] {
        let shapes = Shapes(serde_json::from_str(json).unwrap());
        let translation = translate(&shapes, side).unwrap();
        assert_eq!(sources(&translation).len(), tensors, "{name}");
        let names: Vec<String> = shapes.names();
        assert!(
            names.iter().all(|name| sources(&translation).contains(name.as_str())),
            "{name}"
        );
        assert_eq!(weights(&translation), count, "{name}");
    }
}

/// diffusers' own networks by their configurations.
#[test]
fn published_configurations_have_the_published_tensors_and_parameters() {
    let google = |size: usize, widths: &[usize], attention: usize| {
        let kinds = |plain: &str, attends: &str, at: usize| -> Vec<String> {
            let kind = |level: usize| if level == at { attends } else { plain };
            (0..widths.len()).map(|level| kind(level).to_owned()).collect()
        };
        serde_json::json!({
            "_class_name": "UNet2DModel", "sample_size": size, "in_channels": 3, "out_channels": 3,
            "block_out_channels": widths, "layers_per_block": 2, "attention_head_dim": null,
            "down_block_types": kinds("DownBlock2D", "AttnDownBlock2D", attention),
            "up_block_types": kinds("UpBlock2D", "AttnUpBlock2D", widths.len() - 1 - attention),
            "norm_num_groups": 32, "norm_eps": 1e-6, "flip_sin_to_cos": false, "freq_shift": 1, "downsample_padding": 0,
            "act_fn": "silu", "center_input_sample": false, "mid_block_scale_factor": 1, "time_embedding_type": "positional"
        })
    };
    let folder = tempfile::tempdir().unwrap();
    for (config, tensors, count) in [
        (google(32, &[128, 256, 256, 256], 1), 328, 35_746_307),
        (google(256, &[128, 128, 256, 256, 512, 512], 4), 450, 113_673_219),
    ] {
        let path = folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let folder = Folder {
            config: Config::read(&path).unwrap(),
            scheduler: None,
            weights: Path::new("").into(),
        };
        let translation = diffusers::translate(&folder, &Shapes(HashMap::new()), None).unwrap();
        assert_eq!(sources(&translation).len(), tensors);
        assert_eq!(weights(&translation), count);
    }
}

//! Published networks as priors: whole runs with them, their own files, the counts of their tensors, and what is refused.

use std::path::{Path, PathBuf};

use qcs::engine::cpu::CpuEngine;
use qcs::methods::prior_score;
use qcs::prior::convert::{ConvertOptions, convert_published};
use qcs::prior::{Denoiser, Prior};
use qcs::problem::{Ensemble, Problem, Sensing, Simulation};
use qcs::{Images, Job, QcsSgmPlus, Turbo};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/goldens/published", name]
        .iter()
        .collect()
}

fn images(prior: &Prior, count: usize) -> Images {
    let n = count * prior.image().len();
    Images::new(prior.image(), (0..n).map(|i| (i * 7919 % 101) as f32 / 100.0).collect())
}

/// A copy of a folder in which one file is changed.
fn changed(name: &str, file: &str, change: impl Fn(String) -> String) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(path(name)).unwrap() {
        let entry = entry.unwrap().path();
        std::fs::copy(&entry, folder.path().join(entry.file_name().unwrap())).unwrap();
    }
    let target = folder.path().join(file);
    let text = std::fs::read_to_string(&target).unwrap();
    std::fs::write(&target, change(text)).unwrap();
    let message = Prior::open(folder.path(), None)
        .err()
        .expect("this is refused")
        .to_string();
    assert!(!message.contains('\n'), "{message}");
    (folder, message)
}

#[test]
fn turbo_and_qcs_sgm_plus_run_with_a_diffusers_folder_and_give_the_same_bits_for_any_batch() {
    let prior = Prior::open(&path("unet2d-google"), None).unwrap();
    let data = images(&prior, 3);
    // Random weights denoise nothing: what a trained network would know of itself.
    let levels: Vec<f32> = (0..12).map(|i| 0.01 * 2f32.powi(i)).collect();
    let denoiser = Denoiser {
        mean: vec![0.5; prior.image().len()],
        variance: 0.08,
        errors: levels.iter().map(|s| 0.05 * s * s / (0.2 + s)).collect(),
        levels,
        peak: None,
    };
    let prior = prior.with_denoiser(denoiser).unwrap();
    let simulation = Simulation {
        bits: 2,
        step: None,
        sigma: 0.05,
        mean_square: 0.3,
        seed: 11,
        ..Default::default()
    };
    let sensing = Sensing::Drawn {
        ensemble: Ensemble::Gaussian,
        m: 60,
    };
    let problem = Problem::simulate(data, sensing, &simulation).unwrap();
    let turbo = Turbo {
        evaluations: Some(4),
        ..Turbo::default()
    };
    let langevin = QcsSgmPlus {
        levels: Some(4),
        steps_per_level: Some(2),
        ..QcsSgmPlus::default()
    };
    let bits = |images: &Images| images.data.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let run = |batch: usize, by_turbo: bool| {
        let job = if by_turbo {
            Job::new(&problem, &prior, turbo.clone())
        } else {
            Job::new(&problem, &prior, langevin.clone())
        };
        job.batch(batch).run().unwrap()
    };
    for by_turbo in [true, false] {
        let (one, three) = (run(1, by_turbo), run(3, by_turbo));
        assert!(one.mean.data.iter().all(|v| v.is_finite()));
        assert_eq!(bits(&one.mean), bits(&three.mean), "turbo: {by_turbo}");
    }
}

#[test]
fn a_converted_network_is_the_published_one() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["unet2d-google", "edm-ddpmpp.pt"] {
        let published = Prior::open(&path(name), None).unwrap();
        let output = folder.path().join(format!("{name}.safetensors"));
        let options = ConvertOptions::default();
        let written = convert_published(&path(name), &output, &options).unwrap().unwrap();
        assert_eq!(written.network, published.network().describe());
        assert_eq!(written.parameters, published.parameter_count());
        let converted = Prior::open(&output, None).unwrap();
        assert_eq!(converted.network().describe(), published.network().describe());
        assert_eq!(converted.image(), published.image());
        assert_eq!(converted.schedule, published.schedule);
        let x = images(&published, 2);
        let score = |prior: &Prior| prior_score(&mut CpuEngine::new(1), prior, &x, 0.3).unwrap();
        assert_eq!(score(&converted), score(&published));
    }
}

#[test]
fn what_a_prior_cannot_be_is_refused_in_a_line_that_says_why() {
    let config = |change: &dyn Fn(String) -> String| changed("unet2d-google", "config.json", change).1;
    let message = config(&|text| text.replace("UNet2DModel", "UNet2DConditionModel"));
    assert!(message.contains("UNet2DConditionModel"), "{message}");
    let message = config(&|text| text.replace("\"freq_shift\"", "\"num_class_embeds\": 10, \"freq_shift\""));
    assert!(message.contains("class-conditional"), "{message}");
    let message = config(&|text| text.replace("\"freq_shift\"", "\"magic\": 10, \"freq_shift\""));
    assert!(message.contains("`magic`"), "{message}");
    let message = config(&|text| text.replace("AttnDownBlock2D", "SkipDownBlock2D"));
    assert!(message.contains("SkipDownBlock2D"), "{message}");
    let message = config(&|text| text.replace("\"layers_per_block\": 1", "\"layers_per_block\": 2"));
    assert!(message.contains("is missing"), "{message}");
    let message = config(&|text| text.replace("\"norm_num_groups\": 32", "\"norm_num_groups\": 7"));
    assert!(message.contains("groups"), "{message}");
    let message = config(&|_| "[1]".into());
    assert!(message.contains("config.json"), "{message}");
    let scheduler = |change: &dyn Fn(String) -> String| changed("unet2d-google", "scheduler_config.json", change).1;
    let message = scheduler(&|text| text.replace("linear", "exponential"));
    assert!(
        message.contains("beta_schedule") && message.contains("exponential"),
        "{message}"
    );
    let message = scheduler(&|text| text.replace("0.02", "2.0"));
    assert!(message.contains("scheduler_config.json"), "{message}");
    assert!(Prior::open(Path::new("/nowhere"), None).is_err());
    let message = Prior::open(&path("drunet.pt"), None).err().unwrap().to_string();
    assert!(message.contains("any size"), "{message}");
}

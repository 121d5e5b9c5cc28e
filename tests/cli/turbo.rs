//! Turbo on the command line: what it needs of a prior, and what is said where that is missing or wrong.

use std::collections::HashMap;

use crate::support::{IMAGE, Place, Tensors};

const RUN: &str = "run problem.safetensors --method turbo --out run --model";

/// Writes `model.safetensors` with a table of denoising errors, after `change` has had its way with it.
pub fn with_table(place: &Place, change: impl FnOnce(&mut Tensors, &mut HashMap<String, String>)) {
    let levels: Vec<f32> = (0..12).map(|i| 0.01 * 2f32.powi(i)).collect();
    let errors: Vec<f32> = levels.iter().map(|s| 0.05 * s * s / (0.2 + s)).collect();
    place.model("model.safetensors", IMAGE, |tensors, metadata| {
        tensors.insert("denoiser.mean".into(), (vec![IMAGE.len()], vec![0.5; IMAGE.len()]));
        tensors.insert("denoiser.levels".into(), (vec![levels.len()], levels));
        tensors.insert("denoiser.errors".into(), (vec![errors.len()], errors));
        metadata.insert("denoiser.variance".into(), "0.08".into());
        change(tensors, metadata);
    });
}

#[test]
fn a_prior_without_its_table_is_refused_with_the_command_that_measures_it() {
    let place = Place::with_problem();
    let line = format!("{RUN} model.safetensors");
    place
        .run(&line)
        .refuses(&line, 3, &["model.safetensors", "qcs calibrate --model"]);
    assert!(!place.path("run").exists());
    // And the command does: afterwards turbo runs.
    place.succeeds("calibrate --model model.safetensors --images images.npy -o known.safetensors");
    // A random network makes nothing better: one evaluation is enough to see it.
    let ran = place
        .run(&format!("{RUN} known.safetensors --evaluations 1 --json"))
        .json();
    let image = &ran["images"][0];
    assert!(image["evaluations"].as_u64().unwrap() >= 1, "{image}");
    assert!(image["ep_iterations"].as_u64().unwrap() >= 1, "{image}");
    assert!(image["predicted_error"].as_f64().unwrap() > 0.0, "{image}");
}

#[test]
fn a_table_that_is_none_is_refused_with_its_fault() {
    let place = Place::with_problem();
    with_table(&place, |_, _| {});
    place.succeeds(&format!("{RUN} model.safetensors --force"));
    let set = |name: &'static str, change: fn(&mut Vec<f32>)| {
        with_table(&place, |tensors, _| {
            let (shape, values) = tensors.get_mut(name).unwrap();
            change(values);
            *shape = vec![values.len()];
        });
    };
    let refused = |words: &str| {
        let line = format!("{RUN} model.safetensors --force");
        place.run(&line).refuses(&line, 3, &["model.safetensors", words]);
    };
    set("denoiser.levels", |levels| levels.swap(3, 4));
    refused("does not rise");
    set("denoiser.errors", |errors| errors.reverse());
    refused("does not rise");
    set("denoiser.errors", |errors| errors[2] = -1.0);
    refused("not positive and finite");
    set("denoiser.errors", |errors| errors[2] = f32::NAN);
    refused("denoiser.errors");
    set("denoiser.levels", |levels| levels.truncate(5));
    refused("as many errors as levels");
    set("denoiser.mean", |mean| mean.truncate(9));
    refused("mean of 9 pixels, not 64");
    with_table(&place, |tensors, _| drop(tensors.remove("denoiser.errors")));
    refused("denoiser.errors");
    with_table(&place, |_, metadata| drop(metadata.remove("denoiser.variance")));
    refused("denoiser.variance");
    with_table(&place, |_, metadata| {
        drop(metadata.insert("denoiser.variance".into(), "many".into()))
    });
    refused("denoiser.variance");
}

#[test]
fn a_problem_whose_images_are_not_the_priors_is_refused() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --method turbo --out run";
    place
        .run(line)
        .refuses(line, 2, &["the problem's images (1,8,8) are not the prior's (1,28,28)"]);
}

#[test]
fn its_settings_have_ranges() {
    let place = Place::with_problem();
    with_table(&place, |_, _| {});
    for (flag, words) in [
        ("--evaluations 0", "--evaluations must be at least 1, not 0"),
        ("--tolerance 0", "--tolerance must be positive and finite, not 0"),
        ("--tolerance nan", "--tolerance must be positive and finite, not NaN"),
        ("--chains 2 --draw-steps 1", "--draw-steps must be at least 2, not 1"),
        (
            "--chains 2 --draw-spread 0.5",
            "--draw-spread must be from 1 to 100, not 0.5",
        ),
    ] {
        let line = format!("{RUN} model.safetensors {flag}");
        place.run(&line).refuses(&line, 2, &[words]);
    }
}

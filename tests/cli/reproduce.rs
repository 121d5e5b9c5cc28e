//! The same configuration gives the same bits: again, on other threads, in other batches, in another order.

use crate::support::{IMAGE, Place};

const SAMPLES: [&str; 2] = ["diag/samples.npy", "ep/samples.npy"];

fn same_samples(place: &Place, a: &str, b: &str) {
    for file in SAMPLES {
        let same = place.read(&format!("{a}/{file}")) == place.read(&format!("{b}/{file}"));
        assert!(same, "{a}/{file} and {b}/{file} differ");
    }
    assert_eq!(
        place.read(&format!("{a}/metrics.csv")),
        place.read(&format!("{b}/metrics.csv"))
    );
}

#[test]
fn a_configuration_repeats_its_run_bit_for_bit() {
    let place = Place::new();
    let line = "run images.npy --model model.safetensors --first 1 --matrix ill-conditioned --kappa 30 -m 24 --bits 2 \
                --step 0.5 --method both --chains 2 --levels 5 --sigma-begin 3 --xi 0.4 --ep-start matched --seed 3";
    place.succeeds(&format!("{line} --out first --threads 1"));
    place.succeeds("run --config first/config.toml --out again --threads 3");
    assert_eq!(place.text("first/config.toml"), place.text("again/config.toml"));
    same_samples(&place, "first", "again");
    // From another folder too: the paths in a configuration are absolute.
    let config = place.path("first/config.toml");
    let elsewhere = Place::new();
    elsewhere.succeeds(&format!("run --config {} --out again", config.display()));
    assert_eq!(
        elsewhere.read("again/ep/samples.npy"),
        place.read("first/ep/samples.npy")
    );
}

#[test]
fn threads_and_batch_never_change_a_sample() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --method both --chains 3 --seed 4";
    place.succeeds(&format!("{line} --out base"));
    for (name, flags) in [
        ("a", "--threads 1 --batch 1"),
        ("b", "--threads 3 --batch 2"),
        ("c", "--threads 2 --batch 100"),
    ] {
        place.succeeds(&format!("{line} --out {name} {flags}"));
        same_samples(&place, "base", name);
    }
    place.succeeds(&format!("{line} --count 2 --out fewer"));
    let (all, fewer) = (place.read("base/ep/samples.npy"), place.read("fewer/ep/samples.npy"));
    let values = 2 * 3 * 64 * 4;
    let header = fewer.len() - values;
    assert_eq!(
        fewer[header..],
        all[header..header + values],
        "the images that come after change nothing"
    );
}

#[test]
fn flags_override_the_configuration() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --out a --seed 4");
    place.succeeds("run --config a/config.toml --out b --seed 5 --gamma 0.01 --method diag --denoise=false");
    let config: toml::Table = place.text("b/config.toml").parse().unwrap();
    let sampler = &config["settings"]["diag"];
    assert_eq!(config["seed"].as_integer(), Some(5));
    assert_eq!((sampler["gamma"].as_float(), sampler.get("xi")), (Some(0.01), None));
    assert_eq!(sampler["denoise"].as_bool(), Some(false));
    assert_eq!(config["methods"].as_array().unwrap().len(), 1);
    assert!(place.path("b/diag/samples.npy").exists() && !place.path("b/ep").exists());
}

#[test]
fn a_model_that_has_changed_since_is_noticed() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --out a");
    let same = place.succeeds("run --config a/config.toml --out b");
    assert!(!same.stderr.contains("note: the model"), "{}", same.stderr);
    place.model("model.safetensors", crate::support::IMAGE, |tensors, _| {
        tensors.get_mut("end_conv.bias").unwrap().1[0] += 0.5;
    });
    let changed = place.succeeds("run --config a/config.toml --out c");
    assert!(
        changed.stderr.contains("note: the model is not the one"),
        "{}",
        changed.stderr
    );
}

#[test]
fn a_model_may_advise_other_settings_for_signs_whether_they_are_measured_or_read() {
    let place = Place::new();
    place.model("model.safetensors", IMAGE, |_, metadata| {
        let advice = [("ep.xi", "0.6"), ("ep.signs.xi", "0.2"), ("xi", "0.7")];
        metadata.extend(advice.map(|(key, value)| (key.to_owned(), value.to_owned())));
    });
    let xi = |out: &str, line: &str| {
        place.succeeds(&format!(
            "run {line} --out {out} --model model.safetensors --method both --levels 4 --step-scale 1e-6"
        ));
        let config: toml::Table = place.text(&format!("{out}/config.toml")).parse().unwrap();
        ["ep", "diag"].map(|key| config["settings"][key]["xi"].as_float().unwrap())
    };
    assert_eq!(xi("one", "images.npy -m 24 --bits 1"), [0.2, 0.7]);
    assert_eq!(xi("two", "images.npy -m 24 --bits 2 --step 0.5"), [0.6, 0.7]);
    assert_eq!(xi("typed", "images.npy -m 24 --bits 1 --xi 0.4"), [0.4, 0.4]);
    place.succeeds("measure images.npy -o signs.safetensors -m 24 --bits 1");
    assert_eq!(xi("read", "signs.safetensors"), [0.2, 0.7]);
}

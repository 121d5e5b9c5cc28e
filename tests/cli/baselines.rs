//! BIPG and OneShot: what they take, and what their results do not depend on.

use std::collections::HashMap;

use crate::support::{Place, Tensors};

const RUN: &str = "run images.npy -m 24 --model model.safetensors --generator vae.safetensors --method bipg,oneshot \
                   --iterations 3 --projection-steps 20 --restarts 3";

/// With `vae.safetensors`, a random generator of the images' shape, after `change` has had its way with it.
pub fn place(change: impl FnOnce(&mut Tensors, &mut HashMap<String, String>)) -> Place {
    let place = Place::new();
    let mut tensors = Tensors::new();
    for (layer, (inputs, outputs)) in [(5, 9), (9, 64)].into_iter().enumerate() {
        let weight = (0..inputs * outputs)
            .map(|i| ((i * 7919 + layer) % 97) as f32 / 48.5 - 1.0)
            .collect();
        tensors.insert(format!("decoder.{layer}.weight"), (vec![outputs, inputs], weight));
        tensors.insert(format!("decoder.{layer}.bias"), (vec![outputs], vec![-0.3; outputs]));
    }
    let metadata = [("image_size", "8"), ("channels", "1"), ("root_mean_square_norm", "4.5")];
    let mut metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    change(&mut tensors, &mut metadata);
    place.tensors("vae.safetensors", &tensors, metadata);
    place
}

#[test]
fn results_depend_neither_on_the_batch_nor_on_the_threads_and_are_in_the_generators_range() {
    let place = place(|_, _| {});
    place.succeeds(&format!("{RUN} --out one --batch 1 --threads 1"));
    place.succeeds(&format!("{RUN} --out all --batch 8 --threads 2"));
    for method in ["bipg", "oneshot"] {
        let samples = |out: &str| place.read(&format!("{out}/{method}/samples.npy"));
        assert_eq!(samples("one"), samples("all"), "{method}");
    }
    assert_ne!(
        place.read("all/bipg/samples.npy"),
        place.read("all/oneshot/samples.npy")
    );
    let text = place.text("all/config.toml");
    assert!(
        text.contains("[settings.bipg]") && text.contains("gradient_step = 1.25"),
        "{text}"
    );
    assert!(
        text.contains("[settings.oneshot]") && text.contains("norm = \"estimated\""),
        "{text}"
    );
    // Chains begin elsewhere; the norm of the truth is another one.
    place.succeeds(&format!("{RUN} --out chains --chains 2"));
    place.succeeds(&format!("{RUN} --out oracle --norm true"));
    assert_ne!(
        place.read("oracle/oneshot/samples.npy"),
        place.read("all/oneshot/samples.npy")
    );
    assert_eq!(
        place.read("oracle/bipg/samples.npy"),
        place.read("all/bipg/samples.npy")
    );
}

#[cfg(unix)]
#[test]
fn a_stopped_baseline_goes_on_to_the_same_bits() {
    use crate::interrupt::{Running, wait_for_file};
    let place = place(|_, _| {});
    let line = format!("{RUN} --method bipg --iterations 60 --projection-steps 2000 --batch 1 --threads 1");
    let line = line
        .replacen("--method bipg,oneshot", "", 1)
        .replacen("--iterations 3 --projection-steps 20 ", "", 1);
    place.succeeds(&format!("{line} --out whole"));
    let mut running = Running::start(&place, &format!("{line} --out stopped"));
    running.wait_for("BIPG starts");
    wait_for_file(&place.path("stopped/checkpoint-bipg.safetensors"));
    let ran = running.signal("TERM");
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    place.succeeds("run --resume --out stopped");
    let samples = |out: &str| place.read(&format!("{out}/bipg/samples.npy"));
    assert_eq!(samples("stopped"), samples("whole"));
}

#[test]
fn what_a_baseline_cannot_take_is_named() {
    let good = place(|_, _| {});
    let line = format!("{RUN} --out run --bits 2 --step 0.5");
    good.run(&line).refuses(&line, 2, &["BIPG takes 1-bit measurements"]);
    let line = format!("{RUN} --out run").replace("--generator vae.safetensors", "");
    good.run(&line)
        .refuses(&line, 3, &["bundled:mnist-vae", "1,28,28, not 1,8,8"]);
    let line = format!("{RUN} --out run --restarts 0").replacen("--restarts 3", "", 1);
    good.run(&line).refuses(&line, 2, &["--restarts must be at least 1"]);
    let refused = |change: &dyn Fn(&mut Tensors, &mut HashMap<String, String>), words: &str| {
        let place = place(|tensors, metadata| change(tensors, metadata));
        let line = format!("{RUN} --out run");
        place.run(&line).refuses(&line, 3, &["vae.safetensors", words]);
        assert!(!place.path("run").exists());
    };
    refused(
        &|tensors, _| drop(tensors.remove("decoder.0.weight")),
        "holds no decoder",
    );
    refused(&|tensors, _| drop(tensors.remove("decoder.1.bias")), "decoder.1.bias");
    refused(
        &|tensors, _| drop(tensors.insert("decoder.1.weight".into(), (vec![64, 8], vec![0.0; 512]))),
        "`decoder.1` does not fit",
    );
    refused(&|_, metadata| drop(metadata.remove("image_size")), "image_size");
    refused(
        &|_, metadata| drop(metadata.insert("image_size".into(), "9".into())),
        "decodes 64 pixels",
    );
    refused(
        &|_, metadata| drop(metadata.insert("root_mean_square_norm".into(), "-1".into())),
        "must be positive",
    );
}

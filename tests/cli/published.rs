//! Published networks as a user types them: the fixtures of `tests/goldens/published`, small networks with random weights in files of
//! every family.

use std::path::PathBuf;

use qcs::files::npy;
use qcs::{ImageShape, Images};

use crate::support::{Place, Tensors};

fn fixture(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/goldens/published", name]
        .iter()
        .collect();
    path.to_str().unwrap().to_owned()
}

/// The file or folder, its family, what must be said of its images, and what the file says itself.
const FAMILIES: [(&str, &str, &str, &[&str]); 9] = [
    (
        "unet2d-google",
        "diffusers UNet2DModel",
        "",
        &[
            "the noise (epsilon)",
            "variances linear from 0.0001 to 0.02",
            "trained_at = 8,12",
        ],
    ),
    (
        "unet2d-defaults",
        "diffusers UNet2DModel",
        "",
        &["v_prediction", "squared cosine"],
    ),
    (
        "unet2d-bin",
        "diffusers UNet2DModel",
        "",
        &["the image (sample)", "inferred", "variance"],
    ),
    ("ddim.pt", "DDIM's U-Net", "--shape 3,8,12", &["inferred", "one head"]),
    (
        "adm.pt",
        "guided-diffusion's UNetModel",
        "--shape 3,8,12",
        &["inferred", "legacy order"],
    ),
    (
        "adm-plain.pt",
        "guided-diffusion's UNetModel",
        "--shape 1,8,8",
        &["1000 linear steps"],
    ),
    (
        "edm-ddpmpp.pt",
        "EDM's SongUNet",
        "",
        &["EDM's mixture", "trained_at = 16,16"],
    ),
    (
        "edm-pickled.pkl",
        "EDM's SongUNet",
        "",
        &["trained_at = 8,8", "entry `ema`"],
    ),
    ("drunet.pt", "DRUNet", "--shape 3,16,24", &["50/255"]),
];

#[test]
fn info_tells_family_size_schedule_what_was_inferred_and_the_digest() {
    let place = Place::new();
    for (name, family, shape, words) in FAMILIES {
        let text = place.succeeds(&format!("info {} {shape}", fixture(name))).stdout;
        for word in [family, "parameters", "parametrisation = ", "schedule = "]
            .iter()
            .chain(words)
        {
            assert!(text.contains(word), "{name}: no {word} in\n{text}");
        }
    }
    let text = place
        .succeeds(&format!("info {} --json", fixture("unet2d-google")))
        .stdout;
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    let digests = info["model"]["sha256"].as_object().unwrap();
    assert_eq!(digests.len(), 3, "{digests:?}");
    // By sha256sum
    let expected = std::process::Command::new("sha256sum")
        .arg(fixture("unet2d-google/config.json"))
        .output();
    if let Ok(expected) = expected {
        let expected = String::from_utf8(expected.stdout).unwrap();
        assert_eq!(
            Some(digests["config.json"].as_str().unwrap()),
            expected.split_whitespace().next()
        );
    }
}

/// Images for a prior of this shape, in `images.npy`.
fn images(place: &Place, shape: ImageShape, count: usize) {
    let data = (0..count * shape.len())
        .map(|i| (i * 7919 % 101) as f32 / 100.0)
        .collect();
    let images = Images::new(shape, data);
    let sides = [count, shape.channels, shape.height, shape.width];
    npy::write(place.path("images.npy"), &sides, &images.data).unwrap();
}

#[test]
fn a_published_network_is_calibrated_drawn_from_and_reconstructs_the_same_bits_for_any_batch() {
    for (name, shape, flag) in [
        ("unet2d-google", ImageShape::new(3, 8, 12), ""),
        ("unet2d-bin", ImageShape::new(3, 8, 8), ""),
        ("ddim.pt", ImageShape::new(3, 8, 12), "--image-size 8"),
        ("adm-plain.pt", ImageShape::new(1, 8, 8), "--image-size 8"),
        ("edm-pickled.pkl", ImageShape::new(1, 8, 8), ""),
    ] {
        let (place, model) = (Place::new(), fixture(name));
        images(&place, shape, 3);
        place.succeeds(&format!("convert {model} -o converted.safetensors {flag}"));
        place.succeeds("info converted.safetensors");
        place.succeeds(&format!("calibrate --model {model} --images images.npy -o model.cal"));
        place.succeeds("measure images.npy -o p.safetensors -m 40 --bits 2 --step 0.5 --seed 3");
        let run = |method: &str, batch: usize, model: &str| {
            let out = format!("{method}-{batch}");
            let settings = if method == "turbo" {
                "--evaluations 3"
            } else {
                "--levels 3 --steps-per-level 2"
            };
            let line =
                format!("run p.safetensors --model {model} --method {method} {settings} --batch {batch} --out {out}");
            // Random weights may make a state diverge, which is told; the others go on.
            let ran = place.run(&line);
            assert!(matches!(ran.code, Some(0 | 4)), "{name}: {line}\n{}", ran.stderr);
            place.read(&format!("{out}/{method}/samples.npy"))
        };
        assert_eq!(run("turbo", 1, "model.cal"), run("turbo", 3, "model.cal"), "{name}");
        assert_eq!(run("ep", 1, "model.cal"), run("ep", 3, "model.cal"), "{name}");
    }
}

#[test]
fn a_folder_is_sampled_with_levels_from_its_own_schedule_and_resumes() {
    let (place, model) = (Place::new(), fixture("unet2d-google"));
    let text = place.succeeds(&format!("info {model} --json")).stdout;
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    // The linear steps reach from 0.0050 to 78.7 on images in [0, 1]: cut to what the methods use.
    let number = |key: &str| info["model"][key].as_f64().unwrap();
    assert!((number("sigma_begin") - 50.0).abs() < 1e-4 && (number("sigma_end") - 0.01).abs() < 1e-6);
    assert_eq!(info["model"]["levels"], 232);
    let line = format!("sample --model {model} --levels 3 --steps-per-level 2 -o sheet.png");
    let ran = place.run(&line);
    assert!(matches!(ran.code, Some(0 | 4)), "{}", ran.stderr);
    assert!(place.read("sheet.png").starts_with(b"\x89PNG"));
    images(&place, ImageShape::new(3, 8, 12), 2);
    place.succeeds("measure images.npy -o p.safetensors -m 40 --bits 2 --step 0.5 --seed 3");
    let run = |out: &str, more: &str| {
        let line =
            format!("run p.safetensors --model {model} --method ep --levels 3 --steps-per-level 2 --out {out} {more}");
        let ran = place.run(&line);
        assert!(matches!(ran.code, Some(0 | 4)), "{line}\n{}", ran.stderr);
    };
    run("whole", "");
    run("begun", "--count 2");
    // Without its results it is a run that was interrupted.
    std::fs::remove_file(place.path("begun/metrics.json")).unwrap();
    run("begun", "--resume");
    assert_eq!(place.read("whole/ep/samples.npy"), place.read("begun/ep/samples.npy"));
}

/// Tensors of these names, a few numbers each.
fn named(names: &[&str]) -> Tensors {
    let tensor = |name: &&str| ((*name).to_owned(), (vec![8, 3, 3, 3], vec![0.1; 216]));
    names.iter().map(tensor).collect()
}

#[test]
fn what_cannot_be_a_prior_is_refused_in_one_line_that_says_why() {
    let place = Place::new();
    for (names, words) in [
        (&["all_modules.0.weight"][..], &["NCSN++", "filters"][..]),
        (&["map_layer0.weight", "map_noise.freqs"], &["NCSN++", "vp file"]),
        (
            &["map_layer0.weight", "map_label.weight"],
            &["class-conditional", "map_label.weight"],
        ),
        (
            &["input_blocks.0.0.weight", "label_emb.weight"],
            &["class-conditional", "label_emb.weight"],
        ),
        (
            &[
                "model.diffusion_model.input_blocks.0.0.weight",
                "first_stage_model.decoder.conv_in.weight",
            ],
            &["latent"],
        ),
        (&["time_embedding.linear_1.weight"], &["config.json"]),
    ] {
        place.tensors("odd.safetensors", &named(names), Default::default());
        place
            .run("info --model odd.safetensors")
            .refuses("info", 3, &[&["odd.safetensors"], words].concat());
    }
    for (name, words) in [
        ("vp-precond.pkl", &["VPPrecond", "only EDMPrecond"][..]),
        ("other-deviation.pkl", &["sigma_data", "only 0.5"]),
        ("drunet.pt", &["any size"]),
    ] {
        let line = format!("info {}", fixture(name));
        place.run(&line).refuses(&line, 3, &[&[name], words].concat());
    }
}

#[test]
fn the_first_tensor_that_disagrees_is_named_and_nothing_is_written() {
    let place = Place::new();
    let shapes = std::fs::read_to_string(fixture("drunet_color.shapes.json")).unwrap();
    let shapes: std::collections::BTreeMap<String, Vec<usize>> = serde_json::from_str(&shapes).unwrap();
    // A network of an eighth of the width.
    let narrow = |(name, shape): (String, Vec<usize>)| {
        let shape: Vec<usize> = shape.into_iter().map(|n| if n >= 64 { n / 8 } else { n }).collect();
        let values = vec![0.01; shape.iter().product()];
        (name, (shape, values))
    };
    let whole: Tensors = shapes.into_iter().map(narrow).collect();
    let refuses = |change: &dyn Fn(&mut Tensors), words: &[&str]| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        place.tensors("w.safetensors", &tensors, Default::default());
        let line = "convert w.safetensors -o out.safetensors --image-size 16";
        place.run(line).refuses(line, 3, words);
        assert!(!place.path("out.safetensors").exists());
    };
    place.tensors("w.safetensors", &whole, Default::default());
    place.succeeds("convert w.safetensors -o whole.safetensors --image-size 16");
    let without = |tensors: &mut Tensors| drop(tensors.remove("m_down2.1.res.0.weight"));
    refuses(&without, &["`m_down2.1.res.0.weight` is missing"]);
    let beside = |tensors: &mut Tensors| drop(tensors.insert("m_more.weight".into(), (vec![1], vec![0.0])));
    refuses(&beside, &["unknown tensor `m_more.weight`"]);
    let wide =
        |tensors: &mut Tensors| drop(tensors.insert("m_up1.2.res.2.weight".into(), (vec![8, 9, 3, 3], vec![0.0; 648])));
    refuses(&wide, &["`m_up1.2.res.2.weight` has shape [8, 9, 3, 3]"]);
    let infinite = |tensors: &mut Tensors| tensors.get_mut("m_tail.weight").unwrap().1[5] = f32::INFINITY;
    refuses(&infinite, &["`m_tail.weight` is not finite at element 5"]);
}

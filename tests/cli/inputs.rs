//! What commands take: parts of a problem, a run's samples, files whose kind shows in what they hold.

use qcs::files::npy;

use crate::support::{IMAGE, IMAGES, Place};

#[test]
fn a_part_of_a_problem_gives_the_samples_of_the_whole() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --levels 5 --quiet";
    place.succeeds(&format!("{line} --out whole"));
    place.succeeds(&format!("{line} --out part --first 1 --count 1"));
    place.succeeds(&format!("{line} --out rest --first 1"));
    let read = |name: &str| npy::read(place.path(name)).unwrap();
    let (whole, part, rest) = (
        read("whole/ep/samples.npy").to_f32().into_owned(),
        read("part/ep/samples.npy"),
        read("rest/ep/samples.npy"),
    );
    let n = IMAGE.len();
    assert_eq!(part.to_f32()[..], whole[n..2 * n]);
    assert_eq!(rest.to_f32()[..], whole[n..]);
    let rows = |name: &str| place.text(name).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        rows("part/metrics.csv"),
        rows("whole/metrics.csv")[1..2],
        "it is image 1"
    );
    assert_eq!(rows("rest/metrics.csv"), rows("whole/metrics.csv")[1..]);
    let eval = place.succeeds("eval part --truth problem.safetensors --json").json();
    let written: serde_json::Value = serde_json::from_slice(&place.read("part/metrics.json")).unwrap();
    assert_eq!(eval["images"], written["images"]);
    place.succeeds("run --config part/config.toml --out again --quiet");
    assert_eq!(place.read("again/ep/samples.npy"), place.read("part/ep/samples.npy"));
    let line = format!("{line} --out beyond --first 2 --count 2");
    place
        .run(&line)
        .refuses(&line, 2, &["2 images from index 2 on", "holds 3"]);
}

/// Also with several passes, where a draw begins from what is left of its own image.
#[test]
fn a_part_of_a_problem_is_the_same_for_turbo() {
    let place = Place::new();
    place.succeeds("measure bundled:digits -o p.safetensors --count 3 -m 50 --quiet");
    let line = "run p.safetensors --method turbo --chains 2 --draw-steps 2 --evaluations 3 --quiet";
    place.succeeds(&format!("{line} --out whole"));
    place.succeeds(&format!("{line} --out part --first 2"));
    let read = |name: &str| npy::read(place.path(name)).unwrap().to_f32().into_owned();
    assert_eq!(
        read("part/turbo/samples.npy"),
        read("whole/turbo/samples.npy")[4 * 784..]
    );
}

#[test]
fn a_runs_samples_have_scores() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --chains 2 --out run --quiet");
    let samples = npy::read(place.path("run/ep/samples.npy")).unwrap();
    let states = samples.to_f32().into_owned();
    npy::write(place.path("flat.npy"), &[2 * IMAGES, 1, 8, 8], &states).unwrap();
    let score = "score --model model.safetensors --beta 0.5";
    place.succeeds(&format!("{score} --x run/ep/samples.npy -o s.npy"));
    place.succeeds(&format!("{score} --x flat.npy -o flat-s.npy"));
    let read = |name: &str| npy::read(place.path(name)).unwrap();
    assert_eq!(read("s.npy").shape, samples.shape);
    assert_eq!(read("s.npy").to_f32(), read("flat-s.npy").to_f32());

    // The second chain of each image alone: state b is of image b.
    let n = IMAGE.len();
    let second: Vec<f32> = states.chunks(2 * n).flat_map(|image| image[n..].to_vec()).collect();
    npy::write(place.path("second.npy"), &[IMAGES, 1, 8, 8], &second).unwrap();
    let likelihood = "likelihood --problem problem.safetensors --beta 0.5";
    place.succeeds(&format!("{likelihood} --x run/ep/samples.npy -o g.npy"));
    place.succeeds(&format!("{likelihood} --x second.npy -o second-g.npy"));
    let all = read("g.npy");
    assert_eq!(all.shape, samples.shape);
    let of_second: Vec<f32> = all
        .to_f32()
        .chunks(2 * n)
        .flat_map(|image| image[n..].to_vec())
        .collect();
    assert_eq!(of_second, read("second-g.npy").to_f32()[..]);
}

#[test]
fn the_shape_of_the_images_serves_a_model_that_does_not_say_its_own() {
    let place = Place::new();
    place.model("nameless.safetensors", IMAGE, |_, metadata| {
        metadata.remove("image_size");
    });
    let score = "score --x images.npy --beta 0.5";
    place.succeeds(&format!("{score} --model nameless.safetensors -o a.npy"));
    place.succeeds(&format!("{score} --model model.safetensors -o b.npy"));
    assert_eq!(place.read("a.npy"), place.read("b.npy"));
}

#[test]
fn info_looks_what_a_file_is() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --out run --quiet");
    let of = |file: &str| place.succeeds(&format!("info {file} --json")).json();
    let problem = of("problem.safetensors");
    assert_eq!(
        (&problem["problem"]["images"], &problem["problem"]["measurements"]),
        (&3.into(), &24.into())
    );
    assert!(
        problem["model"].is_null(),
        "the shipped model has nothing to do with it"
    );
    let model = of("model.safetensors");
    assert_eq!(model["model"]["shape"], "1,8,8");
    assert!(model["machine"]["batch_bytes"].is_number());
    let images = of("images.npy");
    assert_eq!(
        (&images["images"]["count"], &images["images"]["shape"]),
        (&3.into(), &"1,8,8".into())
    );
    let run = of("run");
    assert_eq!(
        (&run["run"]["finished"], &run["run"]["images"]),
        (&true.into(), &3.into())
    );
    assert_eq!(
        (&run["model"]["shape"], &run["problem"]["images"]),
        (&"1,8,8".into(), &3.into())
    );
    assert!(place.succeeds("info run").stdout.contains("by ep; seed 0; finished"));
    assert_eq!(of("")["model"]["file"], "bundled:mnist");

    for line in [
        "info --batch 18446744073709551615",
        "info --model model.safetensors --problem problem.safetensors --batch 18446744073709551615",
    ] {
        place.run(line).refuses(line, 2, &["--batch", "at most"]);
    }
    let line = "info --shape 3,4,4";
    place.run(line).refuses(line, 3, &["1-channel images"]);
    place.write("text", "neither this nor that");
    let line = "info text";
    place.run(line).refuses(line, 3, &["text", "holds no images"]);
}

#[test]
fn a_tiny_noise_level_is_told_without_its_zeros() {
    let place = Place::new();
    let ran = place.succeeds("measure images.npy -o p.safetensors -m 8 --sigma 1e-300");
    assert!(ran.stderr.contains("sigma 1e-300"), "{}", ran.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn images_with_a_name_that_is_no_text_can_be_measured() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let name = std::ffi::OsString::from_vec(b"im\xffages.npy".to_vec());
    std::fs::rename(place.path("images.npy"), place.path("").join(&name)).unwrap();
    let mut command = place.command("measure -o p.safetensors -m 8");
    let ran = command.arg(&name).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn an_error_of_the_command_line_is_one_line() {
    let place = Place::new();
    for line in [
        "run images.npy",
        "run images.npy --out r --chains -1",
        "nonsense",
        "run --out r --chain 2",
    ] {
        let ran = place.run(line);
        assert_eq!(
            (ran.code, ran.stderr.lines().count()),
            (Some(2), 1),
            "qcs {line}\n{}",
            ran.stderr
        );
    }
}

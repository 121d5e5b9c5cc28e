//! Each command does what its help says.

use qcs::files::npy;

use crate::folders::files_in;
use crate::support::{IMAGE, IMAGES, Place, images};

#[test]
fn help_of_every_command_has_examples() {
    let place = Place::new();
    let help = place.succeeds("--help").stdout;
    for command in [
        "demo",
        "measure",
        "run",
        "eval",
        "sample",
        "score",
        "likelihood",
        "info",
        "completions",
    ] {
        assert!(help.contains(command), "{help}");
        let own = place.succeeds(&format!("{command} --help")).stdout;
        assert!(
            own.contains("Examples:") && own.contains(&format!("  qcs {command}")),
            "{own}"
        );
    }
    assert!(place.succeeds("--version").stdout.starts_with("qcs "));
}

#[test]
fn measure_writes_what_info_describes() {
    let place = Place::new();
    let line = "measure images.npy -o p.safetensors -m 20 --matrix ill-conditioned --kappa 50 --bits 3 --step 0.4 \
                --sigma 0.1 --first 1 --count 2 --seed 9 --json";
    let done = place.succeeds(line).json();
    assert_eq!((done["images"].as_u64(), done["step"].as_f64()), (Some(2), Some(0.4)));
    let info = place
        .succeeds("info --model model.safetensors --problem p.safetensors --json")
        .json();
    let problem = &info["problem"];
    assert_eq!(problem["measurements"], 20);
    assert_eq!(problem["pixels"], 64);
    assert_eq!(problem["shape"], "1,8,8");
    assert_eq!(problem["sigma"], 0.1);
    assert_eq!(problem["bits"], 3);
    assert_eq!(problem["matrix"]["kappa"], 50.0);
    assert_eq!(problem["truth"], true);
    // Singular values fall by kappa^(1/M) from one to the next, M − 1 times.
    let condition = problem["condition"].as_f64().unwrap();
    assert!((condition / 50f64.powf(19.0 / 20.0) - 1.0).abs() < 1e-9, "{condition}");
    assert_eq!(info["model"]["network"], "NCSNv2, ngf 4");
    assert_eq!(info["model"]["levels"], 6);
    assert!(info["machine"]["engine"].as_str().unwrap().starts_with("CPU"));
    let text = place
        .succeeds("info --model model.safetensors --problem p.safetensors")
        .stdout;
    assert!(
        text.contains("20 × 64") && text.contains("3 bit(s), step 0.4"),
        "{text}"
    );
}

#[test]
fn a_matrix_from_a_file_is_used_as_it_is() {
    let place = Place::new();
    let a: Vec<f64> = (0..6 * 64).map(|i| ((i * 31 % 17) as f64 - 8.0) / 20.0).collect();
    npy::write(place.path("A.npy"), &[6, 64], &a).unwrap();
    place.succeeds("measure images.npy -o p.safetensors --matrix A.npy --sigma 0 --bits 1");
    let problem = qcs::problem::Problem::read(place.path("p.safetensors")).unwrap();
    assert_eq!(problem.a().matrix().unwrap().to_f64(), a);
    let x: Vec<f64> = images(IMAGES).image(1).iter().map(|&v| f64::from(v)).collect();
    for (value, lower) in problem.a().times(&x).iter().zip(problem.cells().image(1).0) {
        assert_eq!(*value >= 0.0, *lower == 0.0, "without noise a cell is the sign of A·x");
    }
}

#[test]
fn run_writes_the_folder_it_promises() {
    let place = Place::with_problem();
    let ran = place
        .succeeds("run problem.safetensors --model model.safetensors --out run --method diag,ep --chains 2 --json");
    let expected = [
        "config.toml",
        "diag/0000.png",
        "diag/0001.png",
        "diag/0002.png",
        "diag/mean.npy",
        "diag/samples.npy",
        "diag/samples/0000-00.png",
        "diag/samples/0000-01.png",
        "diag/samples/0001-00.png",
        "diag/samples/0001-01.png",
        "diag/samples/0002-00.png",
        "diag/samples/0002-01.png",
        "diag/std.npy",
        "ep/0000.png",
    ];
    let files = files_in(&place.path("run"));
    assert_eq!(files[..expected.len()], expected);
    assert_eq!(
        files[files.len() - 4..],
        ["grid.png", "metrics.csv", "metrics.json", "truth.npy"]
    );
    let samples = npy::read(place.path("run/ep/samples.npy")).unwrap();
    assert_eq!(samples.shape, [IMAGES, 2, IMAGE.channels, IMAGE.height, IMAGE.width]);
    let (samples, mean) = (
        samples.to_f32().into_owned(),
        npy::read(place.path("run/ep/mean.npy")).unwrap(),
    );
    assert!((mean.to_f32()[5] - (samples[5] + samples[64 + 5]) / 2.0).abs() < 1e-6);
    let metrics = ran.json();
    let mut written: serde_json::Value = serde_json::from_slice(&place.read("run/metrics.json")).unwrap();
    let checksum = written.as_object_mut().unwrap().remove("checksum");
    assert_eq!(metrics, written);
    assert!(checksum.is_some_and(|checksum| checksum.is_string()));
    assert_eq!(metrics["images"].as_array().unwrap().len(), 2 * IMAGES);
    assert!(metrics["methods"][1]["psnr"]["mean"].as_f64().unwrap() > 0.0);
    assert!(ran.stderr.is_empty(), "--json means a machine reads: {}", ran.stderr);
}

#[test]
fn a_run_from_images_equals_measuring_first() {
    let place = Place::new();
    let measure = "-m 24 --matrix correlated --rho 0.3 --bits 2 --step 0.5 --sigma 0.02 --seed 5";
    place.succeeds(&format!("measure images.npy -o p.safetensors {measure}"));
    place.succeeds("run p.safetensors --model model.safetensors --seed 5 --out a");
    place.succeeds(&format!("run images.npy --model model.safetensors --out b {measure}"));
    assert_eq!(place.read("a/ep/samples.npy"), place.read("b/ep/samples.npy"));
    assert_eq!(place.read("a/metrics.csv"), place.read("b/metrics.csv"));
}

#[test]
fn an_earlier_run_is_replaced_only_by_force() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --out run --quiet";
    place.succeeds(&format!("{line} --method both"));
    place.write("run/notes.txt", "mine");
    let samples = place.read("run/ep/samples.npy");
    let other = format!("{line} --seed 1");
    place
        .run(&other)
        .refuses(&other, 2, &["holds an earlier run", "--force"]);
    assert_eq!(place.read("run/ep/samples.npy"), samples);
    place.succeeds(&format!("{other} --force"));
    assert_ne!(place.read("run/ep/samples.npy"), samples);
    assert!(
        !place.path("run/diag").exists(),
        "nothing of the earlier run is left among the new one's files"
    );
    assert_eq!(place.text("run/notes.txt"), "mine", "what is not the run's stays");

    std::fs::create_dir(place.path("photos")).unwrap();
    place.write("photos/me.png", "picture");
    let line = "run problem.safetensors --model model.safetensors --out photos --quiet";
    place.run(line).refuses(line, 2, &["is not empty", "--force"]);
}

#[test]
fn epsilon_is_the_papers_name_for_the_step() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --sigma-end 0.1 --levels 5";
    place.succeeds(&format!("{line} --epsilon 0.005 --out a"));
    place.succeeds(&format!("{line} --step-scale 0.5 --out b"));
    let config: toml::Table = place.text("a/config.toml").parse().unwrap();
    assert!((config["settings"]["ep"]["step_scale"].as_float().unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(
        config["settings"]["ep"]["sigma_begin"].as_float(),
        Some(5.0),
        "the model's own level stays"
    );
    // The two differ by rounding of the step alone.
    let read = |name: &str| npy::read(place.path(name)).unwrap().to_f32().into_owned();
    let pairs = read("a/ep/samples.npy").into_iter().zip(read("b/ep/samples.npy"));
    assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 1e-3);
}

#[test]
fn eval_gives_the_metrics_that_the_run_wrote() {
    let place = Place::with_problem();
    let run = place
        .succeeds("run problem.safetensors --model model.safetensors --out run --chains 2 --json")
        .json();
    let of_folder = place.succeeds("eval run --problem problem.safetensors --json").json();
    assert_eq!(of_folder["images"], run["images"]);
    let of_file = place
        .succeeds("eval run/ep/samples.npy --truth problem.safetensors --json")
        .json();
    for (index, image) in run["images"].as_array().unwrap().iter().enumerate() {
        assert_eq!(of_file["images"][index]["psnr"], image["psnr"]);
        assert_eq!(of_file["images"][index]["consistency"], serde_json::Value::Null);
        assert_eq!(of_file["images"][index]["ssim"], image["ssim"]);
    }
    // Pictures hold 8 bits: half of 1/255 is 54 dB down, far below the error of these samples.
    let pictures = place.succeeds("eval run/ep --truth run --json").json();
    let (exact, rounded) = (
        &run["methods"][0]["psnr"]["mean"],
        &pictures["methods"][0]["psnr"]["mean"],
    );
    assert!(
        (exact.as_f64().unwrap() - rounded.as_f64().unwrap()).abs() < 0.1,
        "{exact} {rounded}"
    );
    let perfect = place.succeeds("eval images.npy --truth images.npy --json").json();
    assert_eq!(
        (&perfect["images"][0]["psnr"], &perfect["images"][0]["ssim"]),
        (&serde_json::Value::Null, &1.0.into())
    );
    let text = place.succeeds("eval run").stdout;
    assert!(
        text.contains("QCS-SGM+") && text.contains("PSNR") && text.contains("±"),
        "{text}"
    );
}

#[test]
fn score_and_likelihood_are_those_of_the_library_and_keep_the_shape() {
    let place = Place::with_problem();
    place.succeeds("score --model model.safetensors --x images.npy --beta 0.5 --out s.npy");
    let score = npy::read(place.path("s.npy")).unwrap();
    assert_eq!(score.shape, [IMAGES, 1, 8, 8]);
    let prior = qcs::prior::Prior::open(&place.path("model.safetensors"), None).unwrap();
    let mut engine = qcs::engine::cpu::CpuEngine::new(1);
    let expected = qcs::methods::prior_score(&mut engine, &prior, &images(IMAGES), 0.5).unwrap();
    assert_eq!(score.to_f32(), expected.data);

    let x = images(IMAGES).data;
    npy::write(place.path("flat.npy"), &[IMAGES, 64], &x).unwrap();
    npy::write(place.path("second.npy"), &[2, 64], &[&x[..64], &x[..64]].concat()).unwrap();
    let line = "likelihood --problem problem.safetensors --beta 0.3";
    for method in ["ep --ep-iters 5", "diag"] {
        place.succeeds(&format!(
            "{line} --x flat.npy --method {method} --out flat-g.npy --force"
        ));
        place.succeeds(&format!(
            "{line} --x images.npy --method {method} --out g.npy --force --threads 1"
        ));
        let (flat, g) = (
            npy::read(place.path("flat-g.npy")).unwrap(),
            npy::read(place.path("g.npy")).unwrap(),
        );
        assert_eq!(
            (flat.shape.clone(), g.shape.clone()),
            (vec![IMAGES, 64], vec![IMAGES, 1, 8, 8])
        );
        assert_eq!(flat.to_f32(), g.to_f32());
        // The same state, compared with the measurements of two images, has two scores.
        place.succeeds(&format!(
            "{line} --x second.npy --method {method} --out second-g.npy --force"
        ));
        let second = npy::read(place.path("second-g.npy")).unwrap().to_f32().into_owned();
        assert_eq!(second[..64], flat.to_f32()[..64]);
        assert_ne!(second[64..], second[..64]);
    }
}

#[test]
fn sample_draws_a_sheet_and_an_array() {
    let place = Place::new();
    let line = "sample --model model.safetensors --count 5 -o sheet.png --samples s.npy --quiet";
    place.succeeds(line);
    let samples = npy::read(place.path("s.npy")).unwrap();
    assert_eq!(samples.shape, [5, 1, 8, 8]);
    assert!(place.read("sheet.png").starts_with(b"\x89PNG"));
    place.succeeds(&format!("{line} --seed 1 --batch 2 --force"));
    assert_ne!(npy::read(place.path("s.npy")).unwrap(), samples);
}

#[test]
fn sample_takes_langevin_steps_when_asked_for_them_or_for_their_size() {
    let place = Place::new();
    let draw = |flags: &str| {
        let line = format!("sample --model model.safetensors --count 2 -o sheet.png --samples s.npy --force {flags}");
        let steps = place.succeeds(&line).stderr;
        (steps, npy::read(place.path("s.npy")).unwrap())
    };
    let levels = "--sigma-begin 2 --sigma-end 0.1 --levels 6";
    let (steps, reverse) = draw(levels);
    assert!(steps.contains("7 steps"), "{steps}");
    let (steps, langevin) = draw(&format!("{levels} --langevin"));
    assert!(!steps.contains("7 steps"), "{steps}");
    assert_ne!(langevin, reverse);
    let (steps, _) = draw(&format!("{levels} --steps-per-level 4"));
    assert!(steps.contains("24 steps"), "{steps}");
}

#[test]
fn the_manual_has_a_page_to_each_command() {
    let place = Place::new();
    place.succeeds("manual man1");
    for page in ["qcs", "qcs-run", "qcs-sweep", "qcs-manual"] {
        let text = place.text(&format!("man1/{page}.1"));
        assert!(
            text.contains(".SH SYNOPSIS") && text.contains(page.split('-').next_back().unwrap()),
            "{page}: {text}"
        );
    }
}

#[test]
fn completions_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.succeeds(&format!("completions {shell}")).stdout;
        assert!(script.contains("likelihood") && script.contains("ep-iters"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let mut child = place
        .command("completions bash")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

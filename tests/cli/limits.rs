//! Numbers, files and limits that nobody has in mind: one line, an exit code, and never a crash or a wait.

use crate::support::Place;

#[test]
fn a_number_beyond_every_configuration_is_refused() {
    let place = Place::with_problem();
    for flag in [
        "--levels",
        "--ep-iters",
        "--steps-per-level",
        "--evaluations",
        "--chains",
        "--count",
    ] {
        for number in ["9223372036854775808", "18446744073709551615"] {
            let line = format!("run problem.safetensors --model model.safetensors --out run {flag} {number}");
            place.run(&line).refuses(&line, 2, &[flag]);
        }
    }
    let line = "bench forward --ngf 1000000 --device cpu";
    place.run(line).refuses(line, 2, &["--ngf 1000000"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let place = Place::with_problem();
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo")
            .arg(place.path(name))
            .status()
            .unwrap();
        assert!(made.success());
    };
    std::fs::create_dir(place.path("folder")).unwrap();
    std::fs::create_dir(place.path("run")).unwrap();
    for name in [
        "pipe",
        "pipe.safetensors",
        "pipe.npy",
        "pipe.toml",
        "pipe.npz",
        "pipe.png",
        "folder/a.png",
        "run/config.toml",
    ] {
        pipe(name);
    }
    for (line, code) in [
        ("run pipe.safetensors --out out", 3),
        ("run pipe.npy --out out -m 8", 3),
        ("run pipe --out out -m 8", 3),
        ("run --config pipe.toml --out out", 3),
        ("run problem.safetensors --model pipe.safetensors --out out", 3),
        ("run --resume --out run", 3),
        ("measure pipe.png -m 8 -o p", 3),
        ("measure pipe.npz -m 8 -o p", 3),
        ("measure folder -m 8 -o p", 3),
        ("measure images.npy --matrix pipe.npy -o p", 3),
        ("sweep pipe.toml", 3),
        ("eval pipe.npy --truth images.npy", 3),
        ("info pipe", 3),
    ] {
        let mut child = place
            .command(line)
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed().as_secs() > 60 {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("qcs {line} waits");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(code), "qcs {line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn where_memory_or_files_end_one_line_says_so() {
    let place = Place::new();
    let limited = |limit: &str, line: &str| {
        let script = format!("ulimit {limit}; exec {} {line}", env!("CARGO_BIN_EXE_qcs"));
        let mut shell = std::process::Command::new("sh");
        shell
            .arg("-c")
            .arg(script)
            .current_dir(place.path(""))
            .env("QCS_DEVICE", "cpu");
        crate::support::Ran::from(shell.output().unwrap())
    };
    // 2 GiB, of which threads reserve a part; the matrix would take 10.
    let line = "measure images.npy -m 20000000 -o p.safetensors --threads 1";
    limited("-v 2097152", line).refuses(line, 1, &["GiB of memory"]);
    // A·Aᵀ and what belongs to it: 6 GB.
    let line = "run images.npy -m 15000 --model model.safetensors --levels 2 --out run --threads 1";
    limited("-v 3145728", line).refuses(line, 1, &["the factorisation of A", "GiB of memory"]);
    // A header that claims more than there is, in a file that is as long as it says.
    let header = br#"{"A":{"dtype":"F64","shape":[1000000,40000],"data_offsets":[0,320000000000]}}      "#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    place.write("large.safetensors", &bytes);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("large.safetensors"))
        .unwrap();
    if file.set_len(bytes.len() as u64 + 320_000_000_000).is_ok() {
        let ran = place.run("run large.safetensors --out large");
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    }
    std::fs::remove_file(place.path("large.safetensors")).unwrap();
    // A file may have 64 KiB.
    let line = "measure images.npy -m 4000 -o p.safetensors";
    let ran = limited("-f 64", line);
    ran.refuses(line, 1, &["cannot write"]);
    assert!(!place.path("p.safetensors").exists());
}

#[test]
fn a_run_whose_arrays_are_gone_is_not_finished_and_goes_on_with_any_batch() {
    let place = Place::with_problem();
    let line = "run problem.safetensors --model model.safetensors --levels 5 --pictures none --out run";
    place.succeeds(&format!("{line} --quiet"));
    let samples = place.read("run/ep/samples.npy");
    std::fs::remove_file(place.path("run/ep/samples.npy")).unwrap();
    place.succeeds(&format!("{line} --resume --batch 2"));
    assert!(place.read("run/ep/samples.npy") == samples);
    let again = place.succeeds("run --resume --out run --batch 5");
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    // The state that is kept says what to do where it is damaged.
    std::fs::remove_file(place.path("run/metrics.json")).unwrap();
    place.write("run/checkpoint-ep.safetensors", "damaged");
    let line = "run --resume --out run";
    place
        .run(line)
        .refuses(line, 3, &["checkpoint-ep.safetensors", "remove it"]);
    std::fs::remove_file(place.path("run/checkpoint-ep.safetensors")).unwrap();
    place.succeeds(line);
    assert!(place.read("run/ep/samples.npy") == samples);
}

#[test]
fn a_sweep_is_one_at_a_time_heals_a_point_and_lists_every_file() {
    let place = Place::new();
    let line = "sweep --images images.npy --model model.safetensors -m 12,24 --bits 2 --step 0.5 --levels 3 --out grid";
    place.succeeds(line);
    let point = std::fs::read_dir(place.path("grid/points"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = std::fs::read(point.join("ep/samples.npy")).unwrap();
    for broken in ["metrics.json", "config.toml"] {
        std::fs::write(point.join(broken), "{").unwrap();
        place.succeeds(line);
        assert!(
            std::fs::read(point.join("ep/samples.npy")).unwrap() == whole,
            "{broken}"
        );
        assert!(std::fs::metadata(point.join(broken)).unwrap().len() > 10, "{broken}");
    }
    // One digit is another: only the checksum tells.
    let whole = std::fs::read_to_string(point.join("metrics.json")).unwrap();
    let at = whole.find("\"consistency\": 0.").unwrap() + "\"consistency\": 0.".len();
    let digit = if whole.as_bytes()[at] == b'7' { "8" } else { "7" };
    let mut damaged = whole.clone();
    damaged.replace_range(at..=at, digit);
    std::fs::write(point.join("metrics.json"), damaged).unwrap();
    let ran = place.succeeds(line);
    assert!(ran.stderr.contains("its checksum is another"), "{}", ran.stderr);
    let metrics = |text: &str| {
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        json["methods"][0]["seconds"] = 0.into();
        json["checksum"] = 0.into();
        json
    };
    let again = std::fs::read_to_string(point.join("metrics.json")).unwrap();
    assert_eq!(metrics(&again), metrics(&whole));
    place.write(
        "a.toml",
        "images = \"nowhere\"\nmodel = \"model.safetensors\"\nmeasurements = 8\nbits = 2\nstep = 0.5\nlevels = 3\n",
    );
    place.write(
        "b.toml",
        "images = \"images.npy\"\nmodel = \"model.safetensors\"\nmeasurements = 8\nbits = 2\nstep = 0.5\nlevels = 3\n",
    );
    let ran = place.run("sweep a.toml b.toml --out two --dry-run");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("two/b: 1 points, 1 to run"), "{}", ran.stdout);
}

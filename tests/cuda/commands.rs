//! `qcs check` and `qcs bench` with a GPU.

use crate::emulated::Emulated;

#[test]
fn check_is_green_and_says_so_in_a_table() {
    let emulated = Emulated::new();
    let ran = emulated.succeeds("check --device cuda");
    let last = ran.stdout.lines().last().unwrap();
    let (correct, cases) = last.rsplit_once(": ").unwrap().1.split_once(" of ").unwrap();
    assert_eq!(format!("{correct} cases correct"), cases, "{last}");
    assert!(correct.parse::<usize>().unwrap() > 200, "{last}");
    for kernel in ["conv ", "conv+norm ", "ep_moments ", "langevin ", "rotate_in "] {
        assert!(ran.stdout.contains(&format!("\n{kernel}")), "{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("WRONG"));
}

#[test]
fn check_names_what_is_wrong_and_fails() {
    let emulated = Emulated::new();
    let line = "check --device cuda --only elu";
    let ran = emulated.run(line, &[("QCS_EMU_FAULT_KERNEL", "elu:2")]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("WRONG"), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("WRONG elu") && ran.stderr.contains("cases are wrong on cuda:0"),
        "{}",
        ran.stderr
    );

    let line = "check --device cuda --only nonsense";
    emulated.run(line, &[]).refuses(line, 2, &["nonsense"]);
    let line = "check --device cuda:0,1";
    emulated.run(line, &[]).refuses(line, 2, &["one device"]);
}

#[test]
fn check_reports_device_kernels_and_every_case_and_can_do_a_share_of_them() {
    let emulated = Emulated::new();
    let report = |line: &str, environment: &[(&str, &str)], code: i32| {
        let ran = emulated.run(
            &format!("check --device cuda --report r.json --force {line}"),
            environment,
        );
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        let report: serde_json::Value = serde_json::from_str(&emulated.place.text("r.json")).unwrap();
        (report, ran.stdout)
    };
    let cases = |report: &serde_json::Value| {
        let cases = report["cases"].as_array().unwrap();
        let name = |case: &serde_json::Value| format!("{} {}", case["name"], case["engine"]);
        cases.iter().map(name).collect::<Vec<_>>()
    };
    let (whole, _) = report("--only langevin", &[], 0);
    let gpu = &whole["gpu"];
    assert_eq!(gpu["driver_version"], 12080);
    assert_eq!(gpu["compute_capability"], 80);
    assert!(gpu["image"].as_str().unwrap().starts_with("PTX for sm_80"), "{gpu}");
    let kernels = gpu["kernels"].as_array().unwrap();
    let conv = kernels.iter().find(|k| k["name"] == "conv_f16_64x64").unwrap();
    assert!(conv["registers"].as_i64().unwrap() > 32 && conv["local"] == 0 && conv["shared"] == 40960);
    let every = cases(&whole);
    assert!(every.len() > 4, "{every:?}");
    for case in whole["cases"].as_array().unwrap() {
        assert!(
            case["correct"] == true && case["seconds"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    let mut parts: Vec<String> = Vec::new();
    for part in 1..=3 {
        let (share, _) = report(&format!("--only langevin --part {part}/3"), &[], 0);
        parts.extend(cases(&share));
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(parts), sorted(every), "each case is in one part");

    let (wrong, said) = report("--only elu --all", &[("QCS_EMU_FAULT_KERNEL", "elu:2")], 1);
    let case = wrong["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["correct"] == false);
    assert!(
        case.unwrap()["reason"].as_str().unwrap().contains("a kernel failed"),
        "{wrong}"
    );
    assert!(wrong["error"].as_str().unwrap().contains("cases are wrong"));
    assert!(
        said.contains("conv_f16_64x64") && said.contains("none uses local memory"),
        "{said}"
    );
    let (closed, _) = report("", &[("QCS_EMU_NO_DEVICE", "1")], 5);
    assert!(
        closed["error"].as_str().unwrap().contains("no NVIDIA GPU is visible"),
        "{closed}"
    );

    let line = "check --device cuda --part 4/3";
    emulated.run(line, &[]).refuses(line, 2, &["4/3", "like 2/4"]);
}

/// Hardware may answer such a load from a cache that stores do not reach.
#[test]
fn no_kernel_writes_what_it_reads_as_constant() {
    let emulated = Emulated::new();
    // All rooms but the convolutions, whose many sizes take long to count: a share of them.
    for line in ["--only langevin", "--only turbo", "--only ep_", "--part 1/7"] {
        let line = format!("check --device cuda {line}");
        let ran = emulated.run(&line, &[("QCS_EMU_PROFILE", "1"), ("QCS_EMU_RACES", "0")]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let stats = emulated.stats();
        for kernel in stats["kernels"].as_array().unwrap() {
            let total = &kernel["total"];
            assert_eq!(total["memory"]["constant_written"], 0, "{}", total["kernel"]);
        }
    }
}

#[test]
fn bench_measures_a_gpu() {
    let emulated = Emulated::new();
    let line =
        "bench step --preset mnist --ngf 4 --batch 1 -m 16 -r 2 --json --quiet --device cuda --precision fp32,fp16";
    let ran = emulated.succeeds(line);
    let rows: Vec<serde_json::Value> = ran.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let precisions: Vec<&str> = rows.iter().map(|row| row["precision"].as_str().unwrap()).collect();
    assert_eq!(precisions, ["fp32", "fp16"]);
    assert!(
        rows.iter()
            .all(|row| row["device"] == "cuda:0" && row["peak_share"].as_f64().is_some())
    );
}

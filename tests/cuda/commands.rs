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

//! The demo's claim, on a shorter way: 20 noise levels. The gap was 1.2 to 1.7 dB for the seeds and steps tried.

use crate::support::Place;

#[test]
fn on_the_demos_problem_ep_beats_diag_in_mean_psnr() {
    let place = Place::new();
    place.write("demo.toml", qcs::run::demo::config().to_toml().unwrap());
    let line = "run --config demo.toml --out run --json --levels 20";
    let metrics = place.succeeds(line).json();
    let mean = |method: usize| metrics["methods"][method]["psnr"]["mean"].as_f64().unwrap();
    assert_eq!(
        (&metrics["methods"][0]["method"], &metrics["methods"][1]["method"]),
        (&"diag".into(), &"ep".into())
    );
    println!("QCS-SGM {:.2} dB, QCS-SGM+ {:.2} dB", mean(0), mean(1));
    assert!(
        mean(1) > mean(0),
        "QCS-SGM {:.2} dB, QCS-SGM+ {:.2} dB",
        mean(0),
        mean(1)
    );
}

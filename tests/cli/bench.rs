//! `qcs bench` on the CPU: what scripts and people read of it. How fast it is, is no matter of tests.

use crate::support::Place;

#[test]
fn the_form_that_scripts_rely_on_is_one_json_object_per_line() {
    let place = Place::new();
    let ran = place.succeeds("bench forward --preset mnist,cifar10 --ngf 4 --batch 1,2 --device cpu --json -r 2");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.stdout);
    for (line, (preset, batch)) in lines
        .iter()
        .zip([("mnist", 1), ("mnist", 2), ("cifar10", 1), ("cifar10", 2)])
    {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        for (name, value) in [
            ("name", "forward"),
            ("preset", preset),
            ("device", "cpu"),
            ("precision", "fp32"),
        ] {
            assert_eq!(row[name], value, "{line}");
        }
        assert_eq!((&row["ngf"], &row["batch"]), (&4.into(), &batch.into()), "{line}");
        for name in ["ms_mean", "gflops"] {
            assert!(row[name].as_f64().unwrap() > 0.0, "{line}");
        }
        assert!(row["ms_stddev"].as_f64().unwrap() >= 0.0, "{line}");
    }
}

#[test]
fn the_network_of_the_shipped_priors_can_be_measured_too() {
    let place = Place::new();
    let line = "bench forward --preset mnist --network unet --ngf 4 --batch 1 --device cpu -r 1 --quiet";
    let row: serde_json::Value = serde_json::from_str(&place.succeeds(&format!("{line} --json")).stdout).unwrap();
    assert_eq!((&row["network"], &row["ngf"]), (&"unet".into(), &4.into()));
    let table = place.succeeds(line).stdout;
    assert!(table.contains("\n| forward | mnist | unet 4 | 1 | cpu |"), "{table}");
}

#[test]
fn without_a_preset_a_model_is_measured_at_any_size() {
    let place = Place::new();
    let rows = |line: &str| -> Vec<serde_json::Value> {
        let ran = place.succeeds(&format!(
            "bench {line} --batch 1 --device cpu -r 1 --warm-up 0 --json --quiet"
        ));
        ran.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let own = rows("");
    assert_eq!((own.len(), &own[0]["network"]), (1, &"bundled:mnist".into()));
    assert_eq!(
        (&own[0]["preset"], &own[0]["ngf"]),
        (&"mnist".into(), &serde_json::Value::Null)
    );
    let photo = rows("forward products turbo --model bundled:photo --shape 3,18,22");
    let names: Vec<&serde_json::Value> = photo.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["forward", "turbo"]);
    assert_eq!(
        (&photo[1]["preset"], &photo[1]["measurements"]),
        (&"none".into(), &594.into())
    );
    let line = "bench --model bundled:photo --ngf 8";
    place.run(line).refuses(line, 2, &["--ngf"]);
}

#[test]
fn every_part_can_be_measured_and_shown_as_a_table_or_csv() {
    let place = Place::new();
    let line = "bench all --preset mnist --ngf 4 --batch 2 -m 20 --levels 1 --device cpu -r 1 --warm-up 0 --quiet";
    let parts = ["forward", "ep", "diag", "langevin", "products", "step", "turbo", "run"];
    let table = place.succeeds(line).stdout;
    for part in parts {
        assert_eq!(
            table
                .matches(&format!("\n| {part} | mnist | 4 | 2 | cpu | fp32 | "))
                .count(),
            1,
            "{table}"
        );
    }
    let csv = place.succeeds(&format!("{line} --csv")).stdout;
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    for (line, part) in lines.by_ref().zip(parts) {
        assert!(line.starts_with(&format!("{part},mnist,4,2,\"cpu\",fp32,")), "{line}");
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    assert_eq!(lines.count(), 0);
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    let place = Place::new();
    for (line, says) in [
        ("bench forward --preset imagenet", "imagenet"),
        ("bench forward --batch 0", "--batch"),
        ("bench forward --precision fp8", "fp8"),
        ("bench forward --device cpu,tpu", "tpu"),
        ("bench forward -r 0", "--repetitions"),
    ] {
        place.run(line).refuses(line, 2, &[says]);
    }
}

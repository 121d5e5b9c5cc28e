//! Files that are damaged, hostile or not what they should be: exit code 3, and a line that names the file and the fault.

use std::collections::HashMap;

use crate::support::{IMAGE, Place, Tensors};

/// A safetensors file with any header, honest or not.
fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Files that claim to be safetensors, and are not.
fn hostile_safetensors(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let beyond = r#"{"A":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}"#;
    let overflow = r#"{"A":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,16]}}"#;
    let backwards = r#"{"A":{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}}"#;
    vec![
        ("empty", Vec::new()),
        ("seven-bytes", vec![1; 7]),
        ("half", good[..good.len() / 2].to_vec()),
        ("all-but-one-byte", good[..good.len() - 1].to_vec()),
        ("header-only", good[..64].to_vec()),
        ("endless-header", [&u64::MAX.to_le_bytes()[..], &good[8..]].concat()),
        ("not-json", with_header("{{{{{{{{", &[0; 16])),
        ("not-utf8", [&8u64.to_le_bytes()[..], &[0xff; 24]].concat()),
        ("deep", with_header(&"[".repeat(100_000), &[])),
        ("beyond", with_header(beyond, &[0; 16])),
        ("overflow", with_header(overflow, &[0; 16])),
        ("backwards", with_header(backwards, &[0; 16])),
        ("text", b"these are the voyages of the starship".to_vec()),
    ]
}

#[test]
fn damaged_and_hostile_safetensors_are_bad_input_wherever_they_are_read() {
    let place = Place::with_problem();
    for (name, bytes) in hostile_safetensors(&place.read("problem.safetensors")) {
        let file = format!("{name}.safetensors");
        place.write(&file, bytes);
        for line in [
            format!("run {file} --model model.safetensors --out run"),
            format!("run problem.safetensors --model {file} --out run"),
            format!("likelihood --problem {file} --x images.npy --beta 1 --out g.npy"),
            format!("measure images.npy --matrix {file} -o p.safetensors"),
        ] {
            place.run(&line).refuses(&line, 3, &[&file]);
        }
        assert!(!place.path("run").exists() && !place.path("g.npy").exists() && !place.path("p.safetensors").exists());
    }
}

#[test]
fn damaged_and_hostile_arrays_are_bad_input_wherever_they_are_read() {
    let place = Place::with_problem();
    let good = place.read("images.npy");
    let header = |text: &str| {
        [
            b"\x93NUMPY\x01\x00",
            &(text.len() as u16).to_le_bytes()[..],
            text.as_bytes(),
        ]
        .concat()
    };
    let cases = [
        ("empty", Vec::new()),
        ("magic-only", good[..6].to_vec()),
        ("half", good[..good.len() / 2].to_vec()),
        ("too-long", [&good[..], &[0]].concat()),
        (
            "huge",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 1, 8, 8), }"),
        ),
        (
            "overflow",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 8), }"),
        ),
        (
            "objects",
            header("{'descr': '|O', 'fortran_order': False, 'shape': (3, 1, 8, 8), }"),
        ),
        ("no-header", header("import os")),
        (
            "none",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1, 8, 8), }"),
        ),
        ("text", b"0.1, 0.2, 0.3".to_vec()),
    ];
    for (name, bytes) in cases {
        let file = format!("{name}.npy");
        place.write(&file, bytes);
        for line in [
            format!("measure {file} -o p.safetensors -m 16"),
            format!("measure images.npy --matrix {file} -o p.safetensors"),
            format!("score --model model.safetensors --x {file} --beta 1 --out s.npy"),
            format!("likelihood --problem problem.safetensors --x {file} --beta 1 --out g.npy"),
            format!("eval {file} --truth images.npy"),
            format!("eval images.npy --truth {file}"),
        ] {
            place.run(&line).refuses(&line, 3, &[&file]);
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let place = Place::with_problem();
    for line in [
        "run nowhere.safetensors --model model.safetensors --out run",
        "run nowhere.npy --model model.safetensors --out run",
        "run problem.safetensors --model nowhere.safetensors --out run",
        "run --config nowhere.toml --out run",
        "measure nowhere/ -o p.safetensors",
        "score --model model.safetensors --x nowhere.npy --beta 1 --out s.npy",
        "score --model nowhere.safetensors --x images.npy --beta 1 --out s.npy",
        "likelihood --problem nowhere.safetensors --x images.npy --beta 1 --out g.npy",
        "eval nowhere.npy --truth images.npy",
        "eval images.npy --truth nowhere.npy",
        "info --problem nowhere.safetensors",
    ] {
        place.run(line).refuses(line, 3, &["nowhere", "cannot read"]);
    }
    std::fs::create_dir(place.path("nothing")).unwrap();
    let line = "measure nothing -o p.safetensors";
    place.run(line).refuses(line, 3, &["nothing", "holds no .png"]);
}

#[test]
fn a_model_with_wrong_tensors_is_refused_by_their_names() {
    let place = Place::with_problem();
    type Change = fn(&mut Tensors, &mut HashMap<String, String>);
    let cases: [(&str, Change, &[&str]); 9] = [
        (
            "missing",
            |t, _| drop(t.remove("res3.0.conv1.weight")),
            &["`res3.0.conv1.weight` is missing"],
        ),
        (
            "no-begin",
            |t, _| drop(t.remove("begin_conv.weight")),
            &["`begin_conv.weight` is missing"],
        ),
        (
            "unknown",
            |t, _| drop(t.insert("attention.q".into(), (vec![1], vec![0.0]))),
            &["unknown tensor `attention.q`"],
        ),
        (
            "shape",
            |t, _| t.get_mut("end_conv.bias").unwrap().0 = vec![1, 1],
            &["`end_conv.bias` has shape [1, 1]", "[1]"],
        ),
        (
            "begin",
            |t, _| t.get_mut("begin_conv.weight").unwrap().0 = vec![36],
            &["`begin_conv.weight` has shape [36]"],
        ),
        (
            "nan",
            |t, _| t.get_mut("end_conv.weight").unwrap().1[5] = f32::NAN,
            &["`end_conv.weight` is not finite at element 5"],
        ),
        ("size", |_, m| drop(m.remove("image_size")), &["image_size", "--shape"]),
        (
            "nonsense",
            |_, m| drop(m.insert("image_size".into(), "big".into())),
            &["image_size", "big"],
        ),
        (
            "levels",
            |_, m| drop(m.insert("num_classes".into(), "-4".into())),
            &["num_classes"],
        ),
    ];
    for (name, change, says) in cases {
        let file = format!("{name}.safetensors");
        place.model(&file, IMAGE, change);
        for line in [
            format!("run problem.safetensors --model {file} --out run"),
            format!("score --model {file} --x images.npy --beta 1 --out s.npy"),
            format!("info --model {file}"),
        ] {
            // X has a shape, which serves a model that does not say its own.
            if name == "size" && line.starts_with("score") {
                continue;
            }
            let says: Vec<&str> = says.iter().copied().chain([file.as_str()]).collect();
            place.run(&line).refuses(&line, 3, &says);
        }
    }
    place.succeeds("score --model size.safetensors --shape 1,8,8 --x images.npy --beta 1 --out s.npy");
}

#[test]
fn a_problem_that_is_none_is_refused_with_its_fault() {
    let place = Place::new();
    const M: usize = 4;
    let n = IMAGE.len();
    type Change = fn(&mut Tensors, &mut HashMap<String, String>);
    let cases: [(&str, Change, &[&str]); 14] = [
        (
            "nan-in-A",
            |t, _| t.get_mut("A").unwrap().1[70] = f32::NAN,
            &["NaN or infinity in row 1, column 6"],
        ),
        (
            "inf-in-A",
            |t, _| t.get_mut("A").unwrap().1[0] = f32::INFINITY,
            &["row 0, column 0"],
        ),
        ("zero-A", |t, _| t.get_mut("A").unwrap().1.fill(0.0), &["scale A"]),
        (
            "flat-A",
            |t, _| t.get_mut("A").unwrap().0 = vec![256],
            &["`A` has shape [256]"],
        ),
        ("no-A", |t, _| drop(t.remove("A")), &["no tensor `A`"]),
        ("no-upper", |t, _| drop(t.remove("upper")), &["no tensor `upper`"]),
        (
            "empty-cell",
            |t, _| t.get_mut("upper").unwrap().1[5] = -3.0,
            &["measurement 1 of image 1", "empty cell"],
        ),
        (
            "nan-cell",
            |t, _| t.get_mut("lower").unwrap().1[0] = f32::NAN,
            &["measurement 0 of image 0"],
        ),
        (
            "short",
            |t, _| *t.get_mut("upper").unwrap() = (vec![2, 3], vec![1.0; 6]),
            &["upper [2, 3]", "[B, 4]"],
        ),
        (
            "negative-sigma",
            |_, m| drop(m.insert("sigma".into(), "-0.1".into())),
            &["sigma is -0.1"],
        ),
        ("no-sigma", |_, m| drop(m.remove("sigma")), &["no `sigma`"]),
        (
            "word-sigma",
            |_, m| drop(m.insert("sigma".into(), "small".into())),
            &["`sigma` is \"small\""],
        ),
        (
            "bits",
            |_, m| m.extend([("bits".into(), "12".into()), ("step".into(), "1".into())]),
            &["1 to 8 bits"],
        ),
        (
            "shape",
            |_, m| drop(m.insert("shape".into(), "1,8,9".into())),
            &["1,8,9"],
        ),
    ];
    for (name, change, says) in cases {
        let entries = (0..M * n).map(|i| (i % 7) as f32 / 7.0).collect();
        let mut tensors: Tensors = HashMap::from([
            ("A".to_owned(), (vec![M, n], entries)),
            ("lower".to_owned(), (vec![2, M], vec![-1.0; 2 * M])),
            ("upper".to_owned(), (vec![2, M], vec![f32::INFINITY; 2 * M])),
        ]);
        let mut metadata = HashMap::from([("sigma".to_owned(), "0.05".to_owned())]);
        place.tensors("good.safetensors", &tensors, metadata.clone());
        change(&mut tensors, &mut metadata);
        let file = format!("{name}.safetensors");
        place.tensors(&file, &tensors, metadata);
        for line in [
            format!("run {file} --model model.safetensors --out run"),
            format!("likelihood --problem {file} --x images.npy --beta 1 --out g.npy"),
            format!("info --problem {file}"),
        ] {
            let says: Vec<&str> = says.iter().copied().chain([file.as_str()]).collect();
            place.run(&line).refuses(&line, 3, &says);
        }
    }
    place.succeeds("run good.safetensors --model model.safetensors --out run --step-scale 0.1");
}

#[test]
fn arrays_of_the_wrong_shape_or_range_are_refused() {
    let place = Place::with_problem();
    let write = |name: &str, shape: &[usize], value: f32| {
        let values = vec![value; shape.iter().product()];
        qcs::files::npy::write(place.path(name), shape, &values).unwrap();
    };
    write("small.npy", &[2, 1, 6, 6], 0.5);
    write("flat.npy", &[3, 64], 0.5);
    write("many.npy", &[4, 64], 0.5);
    write("line.npy", &[64], 0.5);
    write("nan.npy", &[2, 1, 8, 8], f32::NAN);
    write("bytes.npy", &[2, 1, 8, 8], 200.0);
    write("signed.npy", &[2, 1, 8, 8], -1.0);
    write("A.npy", &[10, 63], 0.5);
    write("cube.npy", &[2, 2, 2], 0.5);
    for (line, says) in [
        (
            "score --model model.safetensors --x small.npy --beta 1 --out s.npy",
            "[2, 1, 6, 6]",
        ),
        (
            "score --model model.safetensors --x flat.npy --beta 1 --out s.npy",
            "[3, 64]",
        ),
        (
            "score --model model.safetensors --x nan.npy --beta 1 --out s.npy",
            "NaN",
        ),
        (
            "likelihood --problem problem.safetensors --x small.npy --beta 1 --out s.npy",
            "[2, 1, 6, 6]",
        ),
        (
            "likelihood --problem problem.safetensors --x line.npy --beta 1 --out s.npy",
            "[64]",
        ),
        (
            "likelihood --problem problem.safetensors --x nan.npy --beta 1 --out s.npy",
            "NaN",
        ),
        (
            "likelihood --problem problem.safetensors --x many.npy --beta 1 --out s.npy",
            "4 states",
        ),
        ("measure bytes.npy -o p.safetensors -m 8", "divide by 255"),
        ("measure signed.npy -o p.safetensors -m 8", "[-1, 1]"),
        ("measure nan.npy -o p.safetensors -m 8", "NaN"),
        ("measure images.npy -o p.safetensors --matrix A.npy", "63 columns"),
        ("measure images.npy -o p.safetensors --matrix cube.npy", "[2, 2, 2]"),
        ("eval small.npy --truth images.npy", "small.npy"),
        (
            "eval images.npy --problem problem.safetensors --truth small.npy",
            "images.npy",
        ),
    ] {
        place.run(line).refuses(line, 3, &[says]);
    }
}

#[test]
fn a_configuration_with_a_typo_is_refused_by_line_and_name() {
    let place = Place::with_problem();
    place.succeeds("run problem.safetensors --model model.safetensors --out run");
    let good = place.text("run/config.toml");
    for (from, to, says) in [
        ("steps_per_level", "steps_per_levle", "steps_per_levle"),
        ("methods = [\"ep\"]", "methods = [\"map\"]", "map"),
        ("chains = 1", "chains = one", "line"),
        ("chains = 1", "chains = -1", "line"),
        ("sigma_end", "sigma_last", "sigma_last"),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        place.write("bad.toml", good.replace(from, to));
        let line = "run --config bad.toml --out again";
        place.run(line).refuses(line, 3, &["bad.toml: line", says]);
    }
    place.write("bad.toml", good.replacen("problem = ", "# ", 1));
    let line = "run --config bad.toml --out again";
    place.run(line).refuses(line, 2, &["problem"]);
}

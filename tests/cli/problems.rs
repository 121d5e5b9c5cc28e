//! `qcs run` with several problem files, and `--cache`: weights and matrices are worked on once.

use crate::support::{Place, assert_same_run};

const RUN: &str = "--model model.safetensors --levels 4 --step-scale 1e-6";

/// Three problems with two different matrices, none of which brings its factorisation.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("in")).unwrap();
    for (name, seed, bits) in [("a", 7, 2), ("b", 7, 3), ("c", 8, 2)] {
        place.succeeds(&format!(
            "measure images.npy -o in/{name}.safetensors -m 24 --bits {bits} --step 0.5 --seed {seed}"
        ));
    }
    place
}

#[test]
fn each_problem_is_what_it_would_be_alone_and_has_a_folder_of_its_own() {
    let place = place();
    let ran = place.succeeds(&format!("run in/*.safetensors --out all {RUN}"));
    assert!(ran.stderr.contains("[2/3] b"), "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("results in").count(), 3, "{}", ran.stdout);
    for name in ["a", "b", "c"] {
        place.succeeds(&format!("run in/{name}.safetensors --out {name} {RUN}"));
        assert_same_run(&place, &format!("all/{name}"), name);
    }
    // What is there is said before anything is computed, and not computed again.
    let again = format!("run in/a.safetensors in/b.safetensors --out all {RUN}");
    place
        .run(&again)
        .refuses(&again, 2, &["all/a is not empty", "--resume"]);
    std::fs::remove_dir_all(place.path("all/b")).unwrap();
    let ran = place.succeeds(&format!("{again} --resume"));
    assert!(
        ran.stderr.contains("nothing to do") && ran.stdout.contains("results in all/b"),
        "{}",
        ran.stderr
    );
    place.succeeds(&format!("{again} --force --quiet"));
}

#[test]
fn one_that_fails_is_named_and_the_others_are_done() {
    let place = place();
    let bytes = place.read("in/b.safetensors");
    place.write("in/b.safetensors", &bytes[..bytes.len() / 2]);
    let line = format!("run in/a.safetensors in/b.safetensors in/c.safetensors --out all {RUN}");
    let ran = place.run(&line);
    assert!(
        ran.stderr.contains("b: ") && ran.stderr.contains("in/b.safetensors"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .ends_with("error: 1 of 3 problems failed: b; the others are done\n"),
        "{}",
        ran.stderr
    );
    assert!(place.path("all/c/metrics.json").exists() && !place.path("all/b/metrics.json").exists());
    // Mended, the same command goes on.
    place.write("in/b.safetensors", bytes);
    place.succeeds(&format!("{line} --resume"));
    assert!(place.path("all/b/metrics.json").exists());
}

#[test]
fn what_cannot_be_several_is_refused_before_anything_is_written() {
    let place = place();
    std::fs::create_dir(place.path("other")).unwrap();
    place.write("other/a.safetensors", place.read("in/a.safetensors"));
    for (inputs, words) in [
        ("in/a.safetensors images.npy", "images.npy is no problem file"),
        ("in/a.safetensors other/a.safetensors", "would both be written to a"),
        ("in/*.none", "no file matches"),
    ] {
        let line = format!("run {inputs} --out out {RUN}");
        place.run(&line).refuses(&line, 2, &[words]);
        assert!(!place.path("out").exists(), "{inputs}");
    }
}

#[test]
fn a_factorisation_is_kept_and_believed_only_if_it_is_right() {
    let place = place();
    place.succeeds(&format!("run in/a.safetensors --out plain {RUN}"));
    let run = |out: &str| {
        place
            .succeeds(&format!("run in/a.safetensors --out {out} --cache known {RUN}"))
            .stderr
    };
    let said = run("first");
    assert!(said.contains("A's factorisation is kept in known"), "{said}");
    let said = run("second");
    assert!(said.contains("A is factorised in known"), "{said}");
    for out in ["first", "second"] {
        assert_same_run(&place, out, "plain");
    }
    // Of the same matrix with other measurements too, of another not.
    let said = place.succeeds(&format!(
        "run in/b.safetensors in/c.safetensors --out more --cache known {RUN}"
    ));
    assert!(
        said.stderr.contains("is factorised in known") && said.stderr.contains("is kept in known"),
        "{}",
        said.stderr
    );
    let files: Vec<_> = std::fs::read_dir(place.path("known"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(files.len(), 2, "{files:?}");
    // Half a file, and the file of another matrix.
    let [one, other] = [&files[0], &files[1]].map(|path| std::fs::read(path).unwrap());
    for wrong in [&one[..one.len() / 2], &other[..]] {
        for path in &files {
            std::fs::write(path, wrong).unwrap();
        }
        let said = place.succeeds(&format!(
            "run in/a.safetensors in/c.safetensors --out again --force --cache known {RUN}"
        ));
        assert!(said.stderr.contains("is made again"), "{}", said.stderr);
        assert!(place.read("again/a/ep/samples.npy") == place.read("plain/ep/samples.npy"));
    }
    // A method without EP needs none.
    place.succeeds(&format!(
        "run in/a.safetensors --out diag --method diag --cache unused {RUN}"
    ));
    assert!(!place.path("unused").exists());
}

//! Whole messages as a user reads them: errors with their exit codes, and the short help of every command. `cargo insta review`, or
//! `INSTA_UPDATE=always cargo test --release --test cli messages`, takes over a change; its diff is what is to be read.

use crate::support::Place;

/// What the commands say, one after the other, with their exit codes.
fn said(place: &Place, lines: &[&str]) -> String {
    let folder = place.path("").display().to_string();
    let of = |line: &&str| {
        let ran = place.run(line);
        let code = ran.code.expect("it ends by itself");
        format!(
            "$ qcs {line}\n[{code}] {}\n",
            ran.stderr.trim_end().replace(&folder, "")
        )
    };
    lines.iter().map(of).collect::<Vec<_>>().join("\n")
}

#[test]
fn messages_on_arguments() {
    let place = Place::with_problem();
    let lines = [
        "measure images.npy -o p.safetensors -m 16 --bits 9",
        "measure images.npy -o p.safetensors -m 16 --bits 2",
        "measure images.npy -o p.safetensors -m 16 --sigma -1",
        "measure images.npy -o p.safetensors -m 16 --matrix ill-conditioned",
        "measure images.npy -o p.safetensors -m 16 --matrix nonsense",
        "measure images.npy -o p.safetensors --matrix hadamard -m 65",
        "measure images.npy -o p.safetensors -m 16 --first 2 --count 2",
        "run problem.safetensors --model model.safetensors --out run --chains 0",
        "run problem.safetensors --model model.safetensors --out run --method map",
        "run problem.safetensors --model model.safetensors --out run --momentum 1",
        "run problem.safetensors --model model.safetensors --out run --xi 1 --gamma 1",
        "run problem.safetensors --model model.safetensors --out run --bits 2",
        "run problem.safetensors --model model.safetensors --out run --method turbo",
        "run problem.safetensors --model model.safetensors --out run --shard 4/3",
        "run problem.safetensors --model model.safetensors",
        "score --model model.safetensors --x images.npy --beta 0 --out s.npy",
        "check --part 4/3",
        "frobnicate",
    ];
    insta::assert_snapshot!(said(&place, &lines));
}

#[test]
fn messages_on_files() {
    let place = Place::with_problem();
    place.write("empty.npy", "");
    place.write("text.npy", "no images at all");
    place.write("text.safetensors", "no tensors at all");
    place.write("half.safetensors", &place.read("problem.safetensors")[..900]);
    place.write("broken.png", b"\x89PNG\r\n\x1a\n");
    std::fs::create_dir(place.path("folder")).unwrap();
    let lines = [
        "measure nowhere.npy -o p.safetensors -m 16",
        "measure empty.npy -o p.safetensors -m 16",
        "measure text.npy -o p.safetensors -m 16",
        "measure broken.png -o p.safetensors -m 16",
        "measure folder -o p.safetensors -m 16",
        "measure bundled:dog -o p.safetensors -m 16",
        "measure bundled:mnist -o p.safetensors -m 16",
        "run half.safetensors --model model.safetensors --out run",
        "run text.safetensors --model model.safetensors --out run",
        "run model.safetensors --model model.safetensors --out run",
        "run problem.safetensors --model text.safetensors --out run",
        "run problem.safetensors --model problem.safetensors --out run",
        "measure images.npy -o problem.safetensors -m 16",
        "measure images.npy -o nowhere/p.safetensors -m 16",
        "merge folder",
        "run --resume --out nowhere",
        "info nowhere.safetensors",
        "eval images.npy --truth model.safetensors",
    ];
    insta::assert_snapshot!(said(&place, &lines));
}

#[test]
fn the_short_help_of_every_command() {
    let place = Place::new();
    let commands = [
        "demo",
        "measure",
        "merge",
        "sweep",
        "eval",
        "sample",
        "score",
        "likelihood",
        "convert",
        "calibrate",
        "check",
        "info",
    ];
    let of = |command: &&str| {
        let help = place.succeeds(&format!("{command} -h")).stdout;
        // The global options are those of every command.
        let own = help.split("\nGlobal options:").next().unwrap_or_default().trim_end();
        format!("$ qcs {command} -h\n{own}\n")
    };
    let all: Vec<String> = commands.iter().map(of).collect();
    insta::assert_snapshot!(all.join("\n"));
}

//! One rule for every command that writes a file: an earlier one is replaced by --force alone, an input never.

use crate::support::Place;

/// Commands that write `OUT`, and their inputs.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("measure images.npy -m 8 -o OUT", &["images.npy"]),
    ("measure images.npy --matrix A.npy -o OUT", &["images.npy", "A.npy"]),
    (
        "score --model model.safetensors --x images.npy --beta 1 -o OUT",
        &["images.npy", "model.safetensors"],
    ),
    (
        "likelihood --problem problem.safetensors --x images.npy --beta 1 -o OUT",
        &["images.npy", "problem.safetensors"],
    ),
    ("convert checkpoint.pth -o OUT", &["checkpoint.pth"]),
    (
        "sample --model model.safetensors --count 1 --levels 2 --quiet -o sheet.png --samples OUT",
        &["model.safetensors"],
    ),
];

fn place() -> Place {
    let place = Place::with_problem();
    let a: Vec<f32> = (0..4 * 64).map(|i| (i % 13) as f32 / 13.0).collect();
    qcs::files::npy::write(place.path("A.npy"), &[4, 64], &a).unwrap();
    place.write(
        "checkpoint.pth",
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/convert/list.pth")).unwrap(),
    );
    place
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let place = place();
    for (command, _) in COMMANDS {
        place.write("old", "an earlier result");
        let _ = std::fs::remove_file(place.path("sheet.png"));
        let line = command.replace("OUT", "old");
        place.run(&line).refuses(&line, 2, &["old exists", "--force"]);
        assert_eq!(place.text("old"), "an earlier result", "{line}");
        place.succeeds(&format!("{line} --force"));
        assert_ne!(place.read("old"), b"an earlier result", "{line}");
    }
    let line = "sample --model model.safetensors --count 1 --levels 2 --quiet -o sheet.png";
    place.run(line).refuses(line, 2, &["sheet.png exists"]);
    let line = "sample --model model.safetensors --count 1 -o s --samples s";
    place.run(line).refuses(line, 2, &["same file"]);
}

#[test]
fn no_command_replaces_its_own_input() {
    let place = place();
    for (command, inputs) in COMMANDS {
        for input in inputs {
            let before = place.read(input);
            let other = format!("./{input}");
            for out in [*input, &other] {
                let line = format!("{} --force", command.replace("OUT", out));
                let _ = std::fs::remove_file(place.path("sheet.png"));
                place.run(&line).refuses(&line, 2, &["is an input of the command"]);
            }
            assert!(place.read(input) == before, "{command}: {input} has changed");
        }
    }
    // A picture of a folder that is measured, and the truth that a run was made of.
    place.succeeds("run problem.safetensors --model model.safetensors --levels 5 --out run --quiet");
    let line = "measure run/ep -m 8 -o run/ep/0000.png --force";
    place.run(line).refuses(line, 2, &["is an input"]);
    let line = "run run/truth.npy --model model.safetensors -m 8 --out run --force";
    place.run(line).refuses(line, 2, &["would replace its input"]);
    place.succeeds("run --config run/config.toml --out run --force --quiet");
}

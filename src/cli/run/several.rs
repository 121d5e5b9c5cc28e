//! Several problem files in one command: one prior, one device, a folder for each.

use std::path::{Path, PathBuf};

use qcs::metrics::Summary;
use qcs::output::Report;
use qcs::run::{Found, RunFolder};
use qcs::{Error, Result};

use super::super::flags::is_problem;
use super::super::{table, terminal};
use super::RunCommand;

/// The inputs, with patterns replaced by the files that they name, in the order of their names: for more files than a shell
/// passes on.
pub fn expanded(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for input in inputs {
        let pattern = input
            .to_str()
            .filter(|text| text.contains(['*', '?', '[']) && !input.exists());
        let Some(pattern) = pattern else {
            all.push(input.clone());
            continue;
        };
        let bad = |reason: String| Error::usage(format!("{pattern}: {reason}"));
        let found = glob::glob(pattern).map_err(|e| bad(format!("is not a pattern: {}", e.msg)))?;
        let found = found.collect::<Result<Vec<_>, _>>();
        let found = found.map_err(|e| Error::Failed(e.to_string()))?;
        if found.is_empty() {
            return Err(bad("no file matches".to_owned()));
        }
        all.extend(found);
    }
    Ok(all)
}

/// A line to each problem that is done, and method.
fn summary(named: &[(String, &Path)], out: &Path) -> String {
    let mut rows = vec![
        ["problem", "method", "images", "PSNR", "consistency"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (name, _) in named {
        let Ok(report) = Report::read_json(&RunFolder::new(out.join(name)).metrics_json()) else {
            continue;
        };
        let mean = |summary: Option<Summary>, digits: usize| {
            summary.map_or(String::new(), |summary| format!("{:.digits$}", summary.mean))
        };
        rows.extend(report.methods.iter().map(|method| {
            vec![
                name.clone(),
                method.method.clone(),
                method.images.to_string(),
                mean(method.psnr, 2),
                mean(method.consistency, 3),
            ]
        }));
    }
    table::aligned(&rows)
}

/// Runs one after the other. One that fails does not keep the others from running.
pub(super) fn run(command: &mut RunCommand<'_>, inputs: &[PathBuf]) -> Result<()> {
    let named = named(inputs)?;
    let (args, out) = (command.args, &command.args.out);
    // What is there already is said before hours have passed.
    for (name, _) in named.iter().filter(|_| !args.resume && !args.force) {
        let folder = out.join(name);
        if command.args.shard.is_none() && !matches!(RunFolder::new(&folder).find()?, Found::Nothing) {
            return Err(Error::usage(format!(
                "{} is not empty: --resume goes on with what is unfinished, --force starts over",
                folder.display()
            )));
        }
    }
    let mut failed = Vec::new();
    for (index, (name, input)) in named.iter().enumerate() {
        if !command.global.quiet && !args.json {
            terminal::note(&format!("[{}/{}] {name}", index + 1, named.len()));
        }
        match command.run(Some(input), &out.join(name)) {
            Ok(()) => {}
            Err(Error::Interrupted(_)) => {
                let words = format!(
                    "stopped with {index} of {} problems done; the same command with --resume goes on",
                    named.len()
                );
                return Err(Error::Interrupted(words));
            }
            Err(error) => {
                terminal::note(&format!("{name}: {error}"));
                failed.push(name.as_str());
            }
        }
    }
    if !args.json && args.shard.is_none() {
        terminal::print(&format!("\n{}", summary(&named, out)))?;
    }
    match failed.len() {
        0 => Ok(()),
        n => Err(Error::Failed(format!(
            "{n} of {} problems failed: {}; the others are done",
            named.len(),
            failed.join(", ")
        ))),
    }
}

/// Each input with the name of its folder: its own without the ending.
fn named(inputs: &[PathBuf]) -> Result<Vec<(String, &Path)>> {
    let mut named: Vec<(String, &Path)> = Vec::new();
    for input in inputs {
        let shown = input.display();
        if !is_problem(input) {
            return Err(Error::usage(format!(
                "{shown} is no problem file: several inputs must be; `qcs measure` makes them of images"
            )));
        }
        let name = input.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((_, other)) = named.iter().find(|(taken, _)| *taken == name) {
            return Err(Error::usage(format!(
                "{} and {shown} would both be written to {name}: give one of them another name",
                other.display()
            )));
        }
        named.push((name, input));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_the_files_that_they_name_and_names_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["b.safetensors", "a.safetensors", "c.txt", "x[1].safetensors"] {
            std::fs::write(path(name), "").unwrap();
        }
        let of = |name: &str| expanded(&[path(name)]);
        assert_eq!(
            of("[ab].safetensors").unwrap(),
            [path("a.safetensors"), path("b.safetensors")]
        );
        // A file that is called like a pattern is meant itself, and one that is not there is refused by who reads it.
        assert_eq!(of("x[1].safetensors").unwrap(), [path("x[1].safetensors")]);
        assert_eq!(of("none.safetensors").unwrap(), [path("none.safetensors")]);
        assert!(of("*.npz").unwrap_err().to_string().contains("no file matches"));
        assert!(of("[.npz").unwrap_err().to_string().contains("is not a pattern"));
    }

    #[test]
    fn every_problem_has_a_folder_of_its_own() {
        let paths = ["p/a.safetensors", "p/b.safetensors"].map(PathBuf::from);
        let names: Vec<String> = named(&paths).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        let twice = ["p/a.safetensors", "q/a.safetensors"].map(PathBuf::from);
        let words = named(&twice).unwrap_err().to_string();
        assert!(
            words.contains("p/a.safetensors") && words.contains("q/a.safetensors"),
            "{words}"
        );
        assert!(named(&["a.png".into(), "b.png".into()]).is_err());
    }
}

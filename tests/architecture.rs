//! The rooms of `src/` in the order of ARCHITECTURE.md: each may use those above it, never one below. So there are no cycles.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms that use the same ones stand in one line.
const ORDER: [&[&str]; 14] = [
    &["error"],
    &["images", "pool"],
    &["files"],
    &["bundled"],
    &["plan"],
    &["problem"],
    &["prior"],
    &["likelihood"],
    &["engine"],
    &["methods", "metrics"],
    &["output"],
    &["reconstruct"],
    &["run"],
    &["sweep"],
];

/// What the crate's root hands on, and the room that it comes from.
const AT_THE_ROOT: [(&str, &str); 4] = [
    ("Error", "error"),
    ("Result", "error"),
    ("ImageShape", "images"),
    ("Images", "images"),
];

fn floor(room: &str) -> usize {
    let line = ORDER.iter().position(|rooms| rooms.contains(&room));
    line.unwrap_or_else(|| panic!("room {room} has no place in the order"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that a source names by `crate::`, in paths and in lists.
fn rooms_named(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut named = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` of a macro is the same crate.
        let rest = &code[at + "crate::".len()..];
        let words: Vec<String> = match rest.strip_prefix('{') {
            Some(list) => {
                let list = &list[..list.find('}').unwrap()];
                list.split(',').map(|word| word.trim().to_owned()).collect()
            }
            None => vec![rest.to_owned()],
        };
        for word in words {
            let name: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                let room = AT_THE_ROOT.iter().find(|(item, _)| *item == name);
                named.push(room.map_or(name, |(_, room)| (*room).to_owned()));
            }
        }
    }
    named
}

#[test]
fn no_room_uses_one_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
    let mut files = Vec::new();
    sources(&root, &mut files);
    for path in files {
        let relative = path.strip_prefix(&root).unwrap();
        let room = relative
            .iter()
            .next()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".rs");
        // The command line is a program of its own, on top of the library.
        if matches!(room, "lib" | "main" | "cli") {
            continue;
        }
        for named in rooms_named(&fs::read_to_string(&path).unwrap()) {
            if named != room {
                uses.insert((room.to_owned(), named), relative.to_owned());
            }
        }
    }
    assert!(uses.len() > 20, "the sources were read: {}", uses.len());
    let wrong: Vec<String> = uses
        .iter()
        .filter(|((room, used), _)| floor(used) >= floor(room))
        .map(|((room, used), path)| format!("{room} uses {used} ({})", path.display()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The texts in quotes of a source, without comments and tests.
fn texts(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let code: Vec<&str> = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let mut found = Vec::new();
    let (mut text, mut inside) = (String::new(), false);
    let mut characters = code.join("\n").chars().collect::<Vec<_>>().into_iter().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if inside => drop(characters.next()),
            // A quote as a character.
            '\'' if !inside && characters.peek() == Some(&'"') => drop(characters.next()),
            '"' => {
                if inside {
                    found.push(std::mem::take(&mut text));
                }
                inside = !inside;
            }
            c if inside => text.push(c),
            _ => {}
        }
    }
    found
}

fn names_a_flag(text: &str) -> bool {
    text.match_indices("--")
        .any(|(at, _)| text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()))
}

/// A style sheet, whose variables begin like flags.
fn is_style(text: &str) -> bool {
    text.contains(":root{")
}

#[test]
fn the_library_names_no_flags() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.retain(|path| !path.starts_with(root.join("cli")));
    let mut read = 0;
    for path in files {
        let texts = texts(&fs::read_to_string(&path).unwrap());
        read += texts.len();
        let flags: Vec<&String> = texts
            .iter()
            .filter(|text| names_a_flag(text) && !is_style(text))
            .collect();
        assert!(flags.is_empty(), "{}: {flags:?}", path.display());
    }
    assert!(read > 1000, "the texts were read: {read}");
    assert_eq!(
        texts("let a = \"x --y\"; // \n let c = '\"'; f(\"z\\\"--w\")"),
        ["x --y", "z--w"]
    );
    assert!(names_a_flag("take a smaller --batch") && !names_a_flag("|---|"));
}

#[test]
fn paths_and_lists_are_both_understood() {
    let text = "use crate::plan::Op;\nuse crate::{Error, Images};\n// crate::cli\nlet x = crate::run::y;";
    assert_eq!(rooms_named(text), ["plan", "error", "images", "run"]);
}

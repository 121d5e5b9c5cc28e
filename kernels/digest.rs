//! The digest that ties the committed PTX to the kernel sources: FNV-1a over what the device sees of every file the PTX
//! depends on. Comments, white space between words and tests do not count.
//!
//! `build-ptx.sh` compiles this file as a program and writes the digest into the first line of the PTX; `build.rs`
//! includes it as a module and refuses PTX whose digest is another.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The digest of the kernel crate in `root`, as 16 hexadecimal digits.
///
/// Files count in the order of their names, each with its name and the length of what counts of it.
pub fn digest(root: &Path) -> io::Result<String> {
    let mut files = vec![root.join("build-ptx.sh")];
    collect(&root.join("src"), &mut files)?;
    let mut named: Vec<(String, PathBuf)> = files.into_iter().map(|path| (name(root, &path), path)).collect();
    named.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (name, path) in named {
        let text = fs::read_to_string(path)?;
        let counts = if name.ends_with(".rs") {
            seen(&text)
        } else {
            text.replace('\r', "")
        };
        add(name.as_bytes());
        add(&(counts.len() as u64).to_le_bytes());
        add(counts.as_bytes());
    }
    Ok(format!("{hash:016x}"))
}

/// What a compiler makes code of: without comments and tests, white space as single spaces.
pub fn seen(source: &str) -> String {
    without_tests(&without_comments(source))
}

/// Words and texts as they are; comments are left out, and white space becomes one space.
fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            first.len_utf8()
        } else {
            let length = literal(rest).unwrap_or(first.len_utf8());
            out.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    out
}

/// The length of a block comment; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the text or character that begins here, if one does: what stands in it is no comment. A lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let raw = text.strip_prefix('b').unwrap_or(text);
    if let Some(hashes) = raw.strip_prefix('r') {
        let count = hashes.len() - hashes.trim_start_matches('#').len();
        if hashes[count..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(count));
            let body = text.len() - hashes.len() + count + 1;
            let found = text[body..].find(&end)?;
            return Some(body + found + end.len());
        }
    }
    let quote = text.chars().next()?;
    let is_character = || {
        let mut inside = text[1..].chars();
        match inside.next() {
            Some('\\') => true,
            Some(_) => inside.next() == Some('\''),
            None => false,
        }
    };
    if !(quote == '"' || quote == '\'' && is_character()) {
        return None;
    }
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Leaves out every item behind `#[cfg(test)]`, to its semicolon or closing brace.
fn without_tests(source: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        let (mut depth, mut end) = (0usize, 0);
        while let Some(character) = rest[end..].chars().next() {
            let length = literal(&rest[end..]).unwrap_or(character.len_utf8());
            end += length;
            match character {
                '{' => depth += 1,
                '}' if depth == 1 => break,
                '}' => depth -= 1,
                ';' if depth == 0 => break,
                _ => {}
            }
        }
        rest = &rest[end..];
    }
    out + rest
}

/// The path below `root`, with slashes on every system.
fn name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).expect("collected below the root");
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[allow(dead_code)] // build.rs includes this file and has its own
fn main() {
    let root = std::env::args_os().nth(1).expect("usage: digest KERNEL_CRATE");
    println!("{}", digest(Path::new(&root)).expect("the kernel sources are readable"));
}

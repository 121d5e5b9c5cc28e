//! The digest that ties the committed PTX to the kernel sources: FNV-1a over every file the PTX depends on.
//!
//! `build-ptx.sh` compiles this file as a program and writes the digest into the first line of the PTX; `build.rs`
//! includes it as a module and refuses PTX whose digest is another.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The digest of the kernel crate in `root`, as 16 hexadecimal digits.
///
/// Files count in the order of their names, each with its name and its length; line ends count as `\n`.
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
        let text: Vec<u8> = fs::read(path)?.into_iter().filter(|&byte| byte != b'\r').collect();
        add(name.as_bytes());
        add(&(text.len() as u64).to_le_bytes());
        add(&text);
    }
    Ok(format!("{hash:016x}"))
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

//! Tells the binary what it was built with, for `qcs --version` and `qcs info`.

use std::process::Command;

pub fn main() {
    // It reads no file: without a word cargo would run it again after every change of the package.
    println!("cargo:rerun-if-env-changed=RUSTC");
    let target = std::env::var("TARGET").expect("cargo sets it");
    let rustc = std::env::var("RUSTC").expect("cargo sets it");
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    let version = version.split_whitespace().nth(1).unwrap_or("unknown").to_owned();
    println!("cargo:rustc-env=QCS_BUILD=rustc {version}, {target}");
}

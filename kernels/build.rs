//! Refuses committed PTX that the sources beside it would not give.

#[path = "digest.rs"]
mod digest;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=ptx");
    println!("cargo::rerun-if-changed=build-ptx.sh");
    println!("cargo::rerun-if-changed=digest.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = digest::digest(root).expect("the kernel sources are readable");
    for architecture in ["sm_70", "sm_80"] {
        let path = root.join(format!("ptx/qcs_{architecture}.ptx"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        if first != format!("// qcs-kernels {expected}") {
            println!(
                "cargo::error=kernels/ptx/qcs_{architecture}.ptx does not match kernels/src: run kernels/build-ptx.sh"
            );
        }
    }
}

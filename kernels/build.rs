//! Refuses committed PTX that the sources beside it would not give, and leaves machine code out that was not made of it.

#[path = "digest.rs"]
mod digest;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=ptx");
    println!("cargo::rerun-if-changed=cubin");
    println!("cargo::rerun-if-changed=build-ptx.sh");
    println!("cargo::rerun-if-changed=digest.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = digest::digest(root).expect("the kernel sources are readable");
    for architecture in ["sm_70", "sm_80"] {
        let path = root.join(format!("ptx/qcs_{architecture}.ptx"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        if first != format!("// qcs-kernels {expected}") {
            // While one works on the sources, the committed kernels serve on; what is released must be made of them.
            let optimised = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
            let how = if optimised { "error" } else { "warning" };
            println!(
                "cargo::{how}=kernels/ptx/qcs_{architecture}.ptx does not match kernels/src: run kernels/build-ptx.sh"
            );
        }
    }
    cubins(root, &expected);
}

/// Machine code is a fallback, and takes NVIDIA's assembler to make: without it, or with one that is out of date, the
/// build goes on.
fn cubins(root: &Path, expected: &str) {
    let folder = root.join("cubin");
    let made_of = std::fs::read_to_string(folder.join("DIGEST")).unwrap_or_default();
    let mut list = String::from("&[");
    if made_of.trim() == expected {
        for architecture in [70, 75, 80, 86, 89, 90] {
            // Named from where the crate lies when it is compiled: a clone may be moved with its build folder.
            let path = format!("/cubin/qcs_sm_{architecture}.cubin.gz");
            list += &format!(
                "({architecture}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})) as &[u8]), "
            );
        }
    } else {
        println!(
            "cargo::warning=kernels/cubin was not made of kernels/ptx and is left out: run kernels/build-cubin.sh"
        );
    }
    list.push(']');
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("cubins.rs"), list).expect("the build folder can be written");
}

//! Files that ask for more memory than there is.

use std::io::Write;
use std::process::Command;

use flate2::{Compression, write::GzEncoder};

use crate::support::{Place, Ran};

/// The shell's limit on the address space stands for a small machine.
#[test]
#[cfg(target_os = "linux")]
fn images_that_do_not_fit_into_memory_are_an_error_and_not_an_abort() {
    const COUNT: u32 = 128;
    let place = Place::new();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&[0, 0, 8, 3]).unwrap();
    for side in [COUNT, 1024, 1024] {
        packed.write_all(&side.to_be_bytes()).unwrap();
    }
    for _ in 0..COUNT {
        packed.write_all(&[0; 1 << 20]).unwrap();
    }
    place.write("bomb.gz", packed.finish().unwrap());
    let limited = |line: &str| {
        // In KiB; the images take 512 MiB as f32.
        let script = format!("ulimit -v 450000; exec {} {line}", env!("CARGO_BIN_EXE_qcs"));
        let mut shell = Command::new("sh");
        Ran::from(
            shell
                .args(["-c", &script])
                .current_dir(place.path(""))
                .output()
                .unwrap(),
        )
    };
    let line = "measure bomb.gz -m 1 -o p.safetensors";
    limited(line).refuses(line, 3, &["bomb.gz", "do not fit into memory"]);
    // One of them fits, with an A of one row.
    let line = "measure bomb.gz -m 1 -o p.safetensors --count 1";
    let ran = limited(line);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

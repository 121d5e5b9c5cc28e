//! What a user is told about a file that cannot be converted.

use qcs::prior::convert::{ConvertOptions, convert};

use crate::{complaint, fixture, for_8x8};

/// The complaint about a fixture in which every `from` is replaced by `to`, a text of the same length.
fn complaint_after(name: &str, from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(fixture(name)).unwrap();
    let places: Vec<usize> = (0..bytes.len() - from.len())
        .filter(|&at| bytes[at..].starts_with(from.as_bytes()))
        .collect();
    assert!(!places.is_empty(), "{from} is not in {name}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    complaint_about(&bytes)
}

pub(crate) fn complaint_about(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pth");
    std::fs::write(&path, bytes).unwrap();
    complaint(&path)
}

#[test]
fn missing_and_unknown_tensors_are_named() {
    let line = complaint_after("half_legacy.pth", "normalizer.beta", "normalizer.zeta");
    assert!(
        line.contains("lacks `normalizer.beta` and has besides `normalizer.zeta`"),
        "{line}"
    );
    let line = complaint_after("half_legacy.pth", "refine3.", "refine5.");
    assert!(
        line.contains("`refine3.adapt_convs.0.1_1_conv.weight`") && line.contains("more"),
        "{line}"
    );
}

#[test]
fn another_network_is_refused_by_what_the_file_holds() {
    let line = complaint_after("half_legacy.pth", "begin_conv.weight", "other_conv.weight");
    assert!(
        line.contains("holds no weights of a network") && line.contains("entry `sigmas`"),
        "{line}"
    );
    let line = complaint_after("list_legacy.pth", "begin_conv.weight", "other_conv.weight");
    assert!(line.contains("a list of 5") && line.contains("an int"), "{line}");
}

#[test]
fn a_call_of_a_command_is_refused_by_name() {
    let line = complaint(&fixture("evil.pth"));
    assert!(
        line.contains("`posix.system`") && line.contains("nothing was executed"),
        "{line}"
    );
    assert!(line.contains("evil/data.pkl"), "{line}");
}

#[test]
fn an_unknown_storage_type_is_named() {
    let line = complaint_after("half_legacy.pth", "HalfStorage", "HalfStorags");
    assert!(line.contains("`torch.HalfStorags`"), "{line}");
}

#[test]
fn files_that_are_no_checkpoint_are_told_apart() {
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("folder/checkpoint.pth", zip::write::SimpleFileOptions::default())
        .unwrap();
    let zip = zip.finish().unwrap().into_inner();
    for (bytes, expected) in [
        (&b"hello, world"[..], "is no PyTorch checkpoint"),
        (&tar, "tar archive"),
        (&zip, "`folder/checkpoint.pth`"),
        (&b"PK\x03\x04 and so on"[..], "damaged zip archive"),
    ] {
        let line = complaint_about(bytes);
        assert!(line.contains(expected), "{line}");
    }
    let safetensors = fixture("expected.safetensors");
    assert!(complaint(&safetensors).contains("is no PyTorch checkpoint"));
}

#[test]
fn an_empty_and_an_absent_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pth");
    assert_eq!(
        convert(&path, &folder.path().join("out"), &for_8x8())
            .unwrap_err()
            .exit_code(),
        3
    );
    std::fs::write(&path, "").unwrap();
    complaint(&path);
}

#[test]
fn a_flipped_weight_inside_a_zip_fails_its_checksum() {
    let mut bytes = std::fs::read(fixture("list.pth")).unwrap();
    let at = bytes.windows(13).position(|window| window == b"list/data/300").unwrap();
    // The storage begins at the next multiple of 64 behind its name.
    bytes[(at + 13).next_multiple_of(64)] ^= 1;
    let line = complaint_about(&bytes);
    assert!(line.contains("`list/data/300` is damaged"), "{line}");
}

#[test]
fn a_failed_conversion_leaves_the_older_result() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.safetensors");
    std::fs::write(&output, "older").unwrap();
    convert(&fixture("evil.pth"), &output, &for_8x8()).unwrap_err();
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "older");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_image_size_that_cannot_be_halved_is_a_usage_error() {
    for size in [0, 27, 5000] {
        let options = ConvertOptions {
            image_size: Some(size),
            ..ConvertOptions::default()
        };
        let error = convert(&fixture("list.pth"), std::path::Path::new("/dev/null"), &options).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}

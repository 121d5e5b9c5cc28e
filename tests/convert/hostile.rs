//! Damaged and malicious files: an error or a result, never a panic, a hang or a huge allocation.

use std::path::Path;

use qcs::prior::convert::convert;

use crate::errors::complaint_about;
use crate::memory::largest_allocation;
use crate::{fixture, for_8x8};

/// More than any file in these tests has a right to: they are all smaller than 20 MB.
const LARGEST: usize = 100 << 20;

/// Converts files made in memory, one after the other under one name.
struct Victim {
    folder: tempfile::TempDir,
}

impl Victim {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Whether the bytes are a checkpoint; if not, the complaint must be one line that names the file.
    fn accepts(&self, bytes: &[u8]) -> bool {
        let path = self.folder.path().join("a.pth");
        // Some file systems flush a file that is written over to the disk, but not one that is new.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        let Err(error) = convert(&path, Path::new("/dev/null"), &for_8x8()) else {
            return true;
        };
        let line = error.to_string();
        assert!(
            line.contains("a.pth") && !line.contains('\n') && error.exit_code() == 3,
            "{line}"
        );
        false
    }
}

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// Fixtures are visited in strides, which leave out no kind of entry; the small files byte by byte.
const STRIDE: usize = 29;

fn small_files() -> [Vec<u8>; 2] {
    let weights = [
        &b"\x80\x02}X\x11\0\0\0begin_conv.weight"[..],
        &tensor(18, &[2, 1, 3, 3], &[9, 9, 3, 1]),
        b"s.",
    ];
    [bytes_of("evil.pth"), legacy(&weights.concat())]
}

#[test]
fn a_checkpoint_cut_anywhere_is_refused() {
    let victim = Victim::new();
    let refuses = |whole: &[u8], stride: usize| {
        for length in (0..whole.len()).step_by(stride) {
            assert!(
                !victim.accepts(&whole[..length]),
                "cut to {length} bytes of {}",
                whole.len()
            );
        }
    };
    small_files().iter().for_each(|file| refuses(file, 1));
    refuses(&bytes_of("half_legacy.pth"), STRIDE);
    refuses(&bytes_of("shadow_params_deflated.pth"), STRIDE);
    assert!(largest_allocation() < LARGEST);
}

#[test]
fn a_checkpoint_with_any_byte_changed_never_panics() {
    let victim = Victim::new();
    let survives = |mut bytes: Vec<u8>, stride: usize| {
        for at in (0..8 * bytes.len()).step_by(stride) {
            bytes[at / 8] ^= 1 << (at % 8);
            victim.accepts(&bytes);
            bytes[at / 8] ^= 1 << (at % 8);
        }
    };
    // Odd numbers of bits, so that every bit of a byte has its turn; with 5, every byte has one.
    small_files().into_iter().for_each(|file| survives(file, 5));
    survives(bytes_of("half_legacy.pth"), 8 * STRIDE + 1);
    survives(bytes_of("shadow_params_deflated.pth"), 8 * STRIDE + 1);
    assert!(largest_allocation() < LARGEST);
}

/// A file of the older container with this pickle as the saved object.
fn legacy(object: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec();
    bytes.extend(b"\x80\x02M\xe9\x03.\x80\x02}.");
    bytes.extend(object);
    bytes.extend(b"\x80\x02].");
    bytes
}

fn repeated(start: &[u8], part: &[u8], times: usize, end: &[u8]) -> Vec<u8> {
    [start, &part.repeat(times), end].concat()
}

#[test]
fn whatever_a_pickle_calls_is_named() {
    for (pickle, name) in [
        (&b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."[..], "`os.system`"),
        (b"\x80\x02cbuiltins\neval\nX\x01\0\0\0a\x85R.", "`builtins.eval`"),
        (
            b"\x80\x04\x8c\x0asubprocess\x8c\x05Popen\x93X\x02\0\0\0ls\x85R.",
            "`subprocess.Popen`",
        ),
        (b"\x80\x02c__builtin__\ngetattr\n)R.", "`__builtin__.getattr`"),
        (b"\x80\x02ctorch.hub\nload\n)R.", "`torch.hub.load`"),
        (
            b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nN)NtR.",
            "`os.system`",
        ),
    ] {
        let line = complaint_about(&legacy(pickle));
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn an_instance_of_an_unknown_class_is_inert() {
    let line = complaint_about(&legacy(b"\x80\x02csubprocess\nPopen\nX\x02\0\0\0ls\x85\x81}b."));
    assert!(
        line.contains("an object of class `subprocess.Popen`, pickled whole"),
        "{line}"
    );
}

#[test]
fn the_text_protocols_and_extensions_are_refused_by_instruction() {
    for pickle in [
        &b"cos\nsystem\n(S'ls'\ntR."[..],
        b"\x80\x02\x82\x01.",
        b"(i__main__\nX\n.",
        b"P1\n.",
    ] {
        let line = complaint_about(&legacy(pickle));
        assert!(line.contains("none that torch.save writes"), "{line}");
    }
}

#[test]
fn hostile_lengths_are_checked_against_the_file() {
    for pickle in [
        &b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab."[..],
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f].",
        b"\x80\x02X\xff\xff\xff\xffab.",
        b"\x80\x02\x8b\xff\xff\xff\xff\x01.",
        b"\x80\x04\x96\x00\x00\x00\x00\x00\x01\x00\x00.",
    ] {
        let line = complaint_about(&legacy(pickle));
        assert!(
            line.contains("more than there are") || line.contains("truncated"),
            "{line}"
        );
    }
    assert!(largest_allocation() < LARGEST);
}

/// ('storage', torch.FloatStorage, '0', 'cpu', `elements`) as a pickled tensor with this shape and these strides.
fn tensor(elements: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    tensor_under("0", elements, shape, strides)
}

/// The same in the storage of this key.
pub(crate) fn tensor_under(key: &str, elements: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let int = |value: &i64| [b"\x8a\x08".to_vec(), value.to_le_bytes().to_vec()].concat();
    let tuple = |sides: &[i64]| [b"(".to_vec(), sides.iter().flat_map(int).collect(), b"t".to_vec()].concat();
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX".to_vec(),
        (key.len() as u32).to_le_bytes().to_vec(),
        key.as_bytes().to_vec(),
        b"X\x03\0\0\0cpu".to_vec(),
        int(&elements),
        b"tQK\0".to_vec(),
        tuple(shape),
        tuple(strides),
        b"\x89NtR".to_vec(),
    ]
    .concat()
}

#[test]
fn hostile_sizes_of_tensors_are_refused_by_name() {
    for (elements, shape, strides) in [
        (i64::MAX, &[2, 1, 3, 3][..], &[9, 9, 3, 1][..]),
        (-1, &[2, 1, 3, 3], &[9, 9, 3, 1]),
        (18, &[1 << 40, 1, 3, 3], &[0, 0, 0, 0]),
        (18, &[4096, 256, 3, 3], &[0, 0, 0, 0]),
        (18, &[-2, 1, 3, 3], &[9, 9, 3, 1]),
        (18, &[2, 1, 3, 3], &[i64::MAX, i64::MAX, i64::MAX, i64::MAX]),
        (18, &[2, 1, 3, 3], &[9]),
    ] {
        let object = [
            &b"\x80\x02}X\x11\0\0\0begin_conv.weight"[..],
            &tensor(elements, shape, strides),
            b"s.",
        ]
        .concat();
        complaint_about(&legacy(&object));
    }
    assert!(largest_allocation() < LARGEST);
}

#[test]
fn bombs_of_nesting_copies_and_references_end_at_a_limit() {
    const MANY: usize = 400_000;
    let dict = b"collections\nOrderedDict\n";
    for pickle in [
        // Lists inside lists, twice as deep as any stack; then more of them than are allowed.
        repeated(b"\x80\x02]", b"]", MANY, &[vec![b'a'; MANY], b".".to_vec()].concat()),
        repeated(b"\x80\x02", b"]", 4 * MANY, b"."),
        // A list that contains itself, and a billion laughs.
        b"\x80\x02]q\0h\0a.".to_vec(),
        repeated(b"\x80\x02]q\0", b"]q\x01(h\0h\0h\0h\0e0h\x01q\0", MANY / 20, b"."),
        // One long list of pairs, copied into dict after dict; one long tuple as arguments, and as a shape.
        [
            repeated(b"\x80\x02(", b"NN\x86", MANY / 2, b"tq\0"),
            repeated(b"", &[b"c", &dict[..], b"h\0\x85R0"].concat(), 9999, b"N."),
        ]
        .concat(),
        [
            repeated(b"\x80\x02(", b"N", MANY, b"tq\0"),
            repeated(b"", b"ctorch\ndevice\nh\0R0", 9999, b"N."),
        ]
        .concat(),
        // The same dict as every item of the root.
        [
            repeated(b"\x80\x02](}q\0(", b"NN", MANY / 4, b"u"),
            repeated(b"", b"h\0", MANY, b"e."),
        ]
        .concat(),
        repeated(b"\x80\x02", b"(", MANY, b"."),
        repeated(b"\x80\x02N", b"r\xff\xff\xff\xff2", MANY, b"."),
    ] {
        complaint_about(&legacy(&pickle));
    }
    assert!(largest_allocation() < LARGEST);
}

#[test]
fn an_entry_that_inflates_beyond_its_claim_or_the_limit_is_refused() {
    use std::io::Write;
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.start_file("a/data.pkl", options).unwrap();
    for _ in 0..80 {
        writer.write_all(&vec![b'N'; 1 << 20]).unwrap();
    }
    let bomb = writer.finish().unwrap().into_inner();
    let line = complaint_about(&bomb);
    assert!(line.contains("`a/data.pkl` claims"), "{line}");
    assert!(largest_allocation() < LARGEST);
}

/// A pickle without a container, which may hold storages and objects with their source.
mod bare {
    use super::*;

    /// `torch.storage._load_from_bytes` of these bytes.
    fn storage(blob: &[u8]) -> Vec<u8> {
        let length = (blob.len() as u32).to_le_bytes();
        [b"ctorch.storage\n_load_from_bytes\nB", &length[..], blob, b"\x85R"].concat()
    }

    /// A storage of two floats as a file of its own.
    fn floats() -> Vec<u8> {
        let id = b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ.";
        let keys = b"\x80\x02]X\x01\0\0\x000a.";
        let mut bytes = legacy(id);
        bytes.truncate(bytes.len() - 4);
        [&bytes[..], keys, &2u64.to_le_bytes(), &[0; 8]].concat()
    }

    #[test]
    fn what_it_calls_is_named_and_its_source_is_no_call() {
        let line = complaint_about(b"\x80\x04\x8c\x02os\x8c\x06system\x93X\x02\0\0\0ls\x85R.");
        assert!(
            line.contains("`os.system`") && line.contains("nothing was executed"),
            "{line}"
        );
        let line = complaint_about(b"\x80\x04cdnnlib.util\ncall_func_by_name\n)R.");
        assert!(line.contains("`dnnlib.util.call_func_by_name`"), "{line}");
        let class = b"\x80\x02ctorch_utils.persistence\n_reconstruct_persistent_obj\n}(X\x04\0\0\0typeX\x05\0\0\0class\
            X\x0a\0\0\0class_nameX\x01\0\0\0AX\x05\0\0\0state}u\x85R.";
        let line = complaint_about(class);
        assert!(
            line.contains("an object of class `torch_utils.persistence.A`"),
            "{line}"
        );
        let line = complaint_about(b"\x80\x02ctorch_utils.persistence\n_reconstruct_persistent_obj\n}\x85R.");
        assert!(line.contains("no class with its name and state"), "{line}");
    }

    #[test]
    fn a_number_alone_is_no_checkpoint_and_a_persistent_id_has_no_bytes() {
        assert!(complaint_about(b"\x80\x02K\x01.").contains("is no PyTorch checkpoint"));
        let weight = [
            &b"\x80\x02}X\x11\0\0\0begin_conv.weight"[..],
            &tensor(18, &[2, 1, 3, 3], &[9, 9, 3, 1]),
            b"s.",
        ];
        complaint_about(&weight.concat());
    }

    #[test]
    fn storages_inside_storages_and_one_named_again_and_again_are_refused() {
        let whole = [&b"\x80\x02]"[..], &storage(&floats()), b"a."].concat();
        let line = complaint_about(&whole);
        assert!(line.contains("holds no weights"), "{line}");
        let mut nested = floats();
        for _ in 0..3 {
            nested = legacy(&[&b"\x80\x02"[..], &storage(&nested), b"."].concat());
        }
        let line = complaint_about(&[&b"\x80\x02]"[..], &storage(&nested), b"a."].concat());
        assert!(line.contains("a storage holds another"), "{line}");
        let blob = floats();
        let length = (blob.len() as u32).to_le_bytes();
        let start = [&b"\x80\x02B"[..], &length, &blob, b"\x85q\0"].concat();
        let line = complaint_about(&repeated(
            &start,
            b"ctorch.storage\n_load_from_bytes\nh\0R0",
            200_000,
            b".",
        ));
        assert!(line.contains("over and over"), "{line}");
        for cut in 0..blob.len() {
            complaint_about(&[&b"\x80\x02]"[..], &storage(&blob[..cut]), b"a."].concat());
        }
        assert!(largest_allocation() < LARGEST);
    }

    #[test]
    fn modules_that_hold_each_other_end_at_a_limit() {
        // Each module holds the next one twice, and the last one the first.
        let object = |index: u8| [&b"ccopyreg\n_reconstructor\ncm\nC\n\x85Rq"[..], &[index]].concat();
        let mut pickle = b"\x80\x02".to_vec();
        (0..60).for_each(|index| pickle.extend([object(index), b"0".to_vec()].concat()));
        for index in 0..60u8 {
            let next = [b'h', (index + 1) % 60];
            pickle.extend([b'h', index]);
            pickle.extend(b"}(X\x0b\0\0\0_parameters}X\x08\0\0\0_modules}(X\x01\0\0\0a");
            pickle.extend(next);
            pickle.extend(b"X\x01\0\0\0b");
            pickle.extend(next);
            pickle.extend(b"uub0");
        }
        pickle.extend(b"}X\x03\0\0\0emah\0s.");
        let line = complaint_about(&pickle);
        assert!(line.contains("holds no weights"), "{line}");
    }
}

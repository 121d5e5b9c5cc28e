//! A conversion holds a tensor at a time, whatever the size of the file.

use std::io::Write;
use std::path::Path;

use qcs::prior::convert::{ConvertOptions, convert_published};

use crate::hostile::tensor_under;
use crate::memory::most_held;

/// Names and shapes of DRUNet's file, of 125 MiB in f32.
const SHAPES: &str = include_str!("../goldens/published/drunet_color.shapes.json");

/// A checkpoint as torch.save writes it, every number a zero.
fn checkpoint(path: &Path) -> u64 {
    let shapes: std::collections::BTreeMap<String, Vec<i64>> = serde_json::from_str(SHAPES).unwrap();
    let mut pickle = b"\x80\x02}(".to_vec();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (at, (name, shape)) in shapes.iter().enumerate() {
        let count: i64 = shape.iter().product();
        let strides = |axis: usize| shape[axis + 1..].iter().product();
        let strides: Vec<i64> = (0..shape.len()).map(strides).collect();
        pickle.extend(b"X");
        pickle.extend((name.len() as u32).to_le_bytes());
        pickle.extend(name.as_bytes());
        pickle.extend(tensor_under(&at.to_string(), count, shape, &strides));
        zip.start_file(format!("a/data/{at}"), stored).unwrap();
        let zeros = vec![0; 1 << 16];
        let mut left = 4 * count as usize;
        while left > 0 {
            let some = left.min(zeros.len());
            zip.write_all(&zeros[..some]).unwrap();
            left -= some;
        }
    }
    pickle.extend(b"u.");
    zip.start_file("a/data.pkl", stored).unwrap();
    zip.write_all(&pickle).unwrap();
    zip.finish().unwrap().metadata().unwrap().len()
}

#[test]
fn a_conversion_holds_a_few_tensors_and_not_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("big.pth"), folder.path().join("big.safetensors"));
    let size = checkpoint(&input);
    assert!(size > 120 << 20, "{size}");
    for f16 in [false, true] {
        let options = ConvertOptions {
            f16,
            image_size: Some(64),
            ..ConvertOptions::default()
        };
        let held = most_held(|| {
            let written = convert_published(&input, &output, &options).unwrap().unwrap();
            assert_eq!(written.parameters, 32_640_960);
        });
        // The largest tensor has 9 MiB; its bytes, its values and what is made of them may stand side by side.
        assert!(held < 40 << 20, "{held} bytes held");
        let expected = 32_640_960 * if f16 { 2 } else { 4 };
        assert!(std::fs::metadata(&output).unwrap().len() > expected);
    }
}

//! The files that are damaged: small ones, of every kind that is read.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use qcs::prior::units::{Level, Output, Resample, Steps, Unit, UnitNetwork};
use qcs::prior::{Ncsnv2, Norms, Prior, UNet, parameters};
use qcs::problem::{Cells, Matrix, Problem};
use qcs::{ImageShape, Images};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

/// A valid file.
pub struct Seed {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// Makes the checksums of a damaged one good again, so that the damage is met and not the checksum.
    pub repair: fn(&mut [u8]),
}

impl Seed {
    pub fn new(name: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            name,
            bytes,
            repair: |_| {},
        }
    }
}

/// The fixtures with one of these extensions that the readers take.
pub fn seeds(extensions: &[&str]) -> Vec<Seed> {
    const NAMES: [&str; 19] = [
        "arrays/f4_v1.npy",
        "arrays/f4_fortran.npy",
        "arrays/f8_v2.npy",
        "arrays/f2_big_endian.npy",
        "arrays/bool.npy",
        "arrays/scalar.npy",
        "arrays/empty.npy",
        "arrays/deflated.npz",
        "arrays/stored.npz",
        "pictures/grey.jpg",
        "pictures/rgb.jpg",
        "pictures/turned.jpg",
        "pictures/progressive.jpg",
        "pictures/cmyk.jpg",
        "convert/list.pth",
        "convert/list_legacy.pth",
        "convert/half_legacy.pth",
        "convert/helper_deflated.pth",
        "convert/shadow_params_deflated.pth",
    ];
    let fixtures: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures"].iter().collect();
    let wanted = |name: &&&str| extensions.iter().any(|e| Path::new(name).extension().unwrap() == *e);
    let seed = |name: &&'static str| {
        let file = name.split_once('/').unwrap().1;
        Seed::new(file, std::fs::read(fixtures.join(name)).unwrap())
    };
    NAMES.iter().filter(wanted).map(seed).collect()
}

/// Arrays of images: bytes, and floats in [0, 1].
pub fn image_arrays() -> Vec<Seed> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let mut seeds = Vec::new();
    qcs::files::npy::write(&path, &[2, 5, 6], &(0..60).collect::<Vec<u8>>()).unwrap();
    seeds.push(Seed::new("bytes.npy", std::fs::read(&path).unwrap()));
    qcs::files::npy::write(&path, &[2, 4, 4, 3], &[0.5f32; 96]).unwrap();
    seeds.push(Seed::new("floats.npy", std::fs::read(&path).unwrap()));
    seeds
}

/// Plain and gzipped.
pub fn idx() -> Vec<Seed> {
    let mut plain = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 5];
    plain.extend(0..40);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&plain).unwrap();
    vec![
        Seed::new("plain-idx", plain),
        Seed::new("packed-idx", packed.finish().unwrap()),
    ]
}

/// Grey and RGB, 8 and 16 bits, a palette, and one with everything a camera writes beside the pixels.
pub fn png() -> Vec<Seed> {
    use png::{BitDepth, ColorType, Encoder, Info};
    let encoded = |name, colour, depth, length: usize, extras: fn(&mut Info<'_>)| {
        let mut info = Info::with_size(9, 7);
        (info.color_type, info.bit_depth) = (colour, depth);
        extras(&mut info);
        let mut bytes = Vec::new();
        let mut writer = Encoder::with_info(&mut bytes, info).unwrap().write_header().unwrap();
        let data: Vec<u8> = (0..length).map(|i| (i * 37 % 251) as u8).collect();
        writer.write_image_data(&data).unwrap();
        drop(writer);
        Seed {
            repair: repair_png,
            ..Seed::new(name, bytes)
        }
    };
    vec![
        encoded("grey.png", ColorType::Grayscale, BitDepth::Eight, 63, |_| {}),
        encoded("rgb16.png", ColorType::Rgb, BitDepth::Sixteen, 378, |_| {}),
        encoded("palette.png", ColorType::Indexed, BitDepth::One, 14, |info| {
            info.palette = Some((&[1, 2, 3, 200, 100, 50][..]).into());
        }),
        encoded("extras.png", ColorType::Rgb, BitDepth::Eight, 189, |info| {
            info.icc_profile = Some((&[7; 100][..]).into());
            info.exif_metadata = Some((&b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"[..]).into());
        }),
    ]
}

/// Puts the right checksum behind every chunk whose length still lies inside the file.
fn repair_png(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let end = at + 8 + length;
        if end + 4 > bytes.len() {
            return;
        }
        let mut checksum = flate2::Crc::new();
        checksum.update(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.sum().to_be_bytes());
        at = end + 4;
    }
}

/// As `qcs measure` writes them: with everything, and with the least.
pub fn problems() -> Vec<Seed> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("problem.safetensors");
    let problem = || {
        let a: Vec<f64> = (0..48).map(|i| f64::from(i * 7 % 11) - 5.0).collect();
        let lower = vec![-1.0, f64::NEG_INFINITY, 0.25, -0.5, 0.0, f64::NEG_INFINITY];
        let upper = vec![1.0, 0.0, f64::INFINITY, 0.5, 1.0, f64::INFINITY];
        let cells = Cells::new(3, lower, upper).unwrap();
        Problem::new(Matrix::from_f64(3, 16, a).unwrap(), cells, 0.1).unwrap()
    };
    problem().write(&path).unwrap();
    let least = std::fs::read(&path).unwrap();
    let truth = Images::new(ImageShape::new(1, 4, 4), vec![0.5; 32]);
    let full = problem().with_truth(truth).unwrap();
    full.spectrum().unwrap();
    full.write(&path).unwrap();
    vec![
        Seed::new("least.safetensors", least),
        Seed::new("full.safetensors", std::fs::read(&path).unwrap()),
    ]
}

/// One of each unit that a diffusion network has.
fn published(image: ImageShape) -> UnitNetwork {
    let block = |name: &str, resample, skip| Unit::Block {
        name: name.into(),
        width: 8,
        resample,
        skip,
    };
    UnitNetwork {
        family: "a small one".into(),
        image,
        channels: image.channels,
        output: Output::Epsilon,
        level: Some(Level {
            steps: Some(Steps {
                count: 4,
                ..Steps::LINEAR
            }),
            width: 4,
            hidden: 3,
            cosines_first: true,
            shift: 0.0,
            scale_shift: true,
        }),
        groups: 2,
        least_of_group: 1,
        epsilon: 1e-5,
        factor: 1.0,
        units: vec![
            Unit::Conv {
                name: "first".into(),
                width: 8,
                bias: true,
            },
            Unit::Push,
            block("down", Resample::Halve, false),
            Unit::Attention {
                name: "attention".into(),
                heads: 1,
            },
            block("up", Resample::Double, false),
            Unit::Join,
            block("join", Resample::Keep, true),
            Unit::End {
                norm: "norm".into(),
                name: "last".into(),
            },
        ],
    }
}

/// Networks of two feature maps, NCSNv2 in f32 and in f16 and a U-Net, and a published one.
pub fn priors() -> Vec<Seed> {
    let image = ImageShape::new(1, 4, 4);
    let ncsnv2 = Prior::random(Ncsnv2::new(2, image), 1);
    let unet = UNet {
        widths: vec![2, 3],
        blocks: 1,
        norms: Norms::Instance,
        image,
    };
    let unet = Prior::random(unet, 1);
    let stored = |prior: &Prior, name, dtype, bytes_of: fn(f32) -> Vec<u8>| {
        let data: Vec<_> = parameters(prior.network())
            .into_iter()
            .map(|param| {
                let bytes: Vec<u8> = prior.weight(&param.name).iter().flat_map(|&v| bytes_of(v)).collect();
                (param.name, param.shape, bytes)
            })
            .collect();
        let views = data
            .iter()
            .map(|(name, shape, bytes)| (name, TensorView::new(dtype, shape.clone(), bytes).unwrap()));
        let metadata = [
            ("image_size", "4"),
            ("sigma_begin", "10"),
            ("sigma_end", "0.01"),
            ("num_classes", "8"),
            ("momentum", "0.9"),
        ];
        let metadata: HashMap<String, String> = metadata.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        Seed::new(name, safetensors::serialize(views, Some(metadata)).unwrap())
    };
    let mut units = Vec::new();
    let described = Prior::random(published(image), 1);
    described
        .write_units(Path::new("somewhere"), false, &mut units)
        .unwrap();
    vec![
        Seed::new("units.safetensors", units),
        stored(&ncsnv2, "f32.safetensors", Dtype::F32, |v| v.to_le_bytes().to_vec()),
        stored(&unet, "unet.safetensors", Dtype::F32, |v| v.to_le_bytes().to_vec()),
        stored(&ncsnv2, "f16.safetensors", Dtype::F16, |v| {
            half::f16::from_f32(v).to_le_bytes().to_vec()
        }),
    ]
}

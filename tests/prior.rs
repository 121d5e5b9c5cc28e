//! Priors: precisions, schedules, files that are not quite priors, and what those in `weights/` know.

use std::collections::HashMap;

use qcs::bundled;
use qcs::engine::Engine;
use qcs::engine::cpu::CpuEngine;
use qcs::methods::{ScorePlan, prior_score};
use qcs::prior::{Depth, Ncsnv2, Norms, Prior, Schedule, UNet, parameters};
use qcs::{ImageShape, Images};
use qcs_kernels::philox::{Domain, Stream};
use safetensors::{Dtype, tensor::TensorView};

const NETWORK: Ncsnv2 = Ncsnv2::new(4, ImageShape::new(1, 8, 8));

type Tensors = HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A U-Net whose widths are multiples of nothing, halving twice.
fn unet() -> UNet {
    UNet {
        widths: vec![3, 5, 6],
        blocks: 2,
        norms: Norms::Instance,
        image: NETWORK.image,
    }
}

fn tensors(prior: &Prior, dtype: Dtype) -> Tensors {
    let encode = |v: &f32| match dtype {
        Dtype::F32 => v.to_le_bytes().to_vec(),
        Dtype::F16 => half::f16::from_f32(*v).to_le_bytes().to_vec(),
        Dtype::BF16 => half::bf16::from_f32(*v).to_le_bytes().to_vec(),
        _ => f64::from(*v).to_le_bytes().to_vec(),
    };
    let tensor = |name: &str, shape: Vec<usize>| {
        let data = prior.weight(name).iter().flat_map(encode).collect();
        (name.to_owned(), (dtype, shape, data))
    };
    parameters(prior.network())
        .into_iter()
        .map(|p| tensor(&p.name, p.shape))
        .collect()
}

fn file(tensors: &Tensors, metadata: &[(&str, &str)]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, data))| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    let metadata = metadata.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    safetensors::serialize(views, Some(metadata)).unwrap()
}

const METADATA: [(&str, &str); 4] = [
    ("image_size", "8"),
    ("sigma_begin", "10"),
    ("sigma_end", "0.1"),
    ("num_classes", "5"),
];

fn open(bytes: &[u8]) -> qcs::Result<Prior> {
    Prior::from_bytes("prior.safetensors", bytes, None)
}

/// The message of the error that opening gives; it names the file and is one line.
fn refusal(bytes: &[u8]) -> String {
    let error = open(bytes).err().expect("this is no prior");
    assert_eq!(error.exit_code(), 3, "{error}");
    let message = error.to_string();
    assert!(
        message.contains("prior.safetensors") && !message.contains('\n'),
        "{message}"
    );
    message
}

#[test]
fn f32_f16_and_bf16_files_hold_the_same_prior_to_their_precision() {
    let prior = Prior::random(NETWORK, 1);
    for (dtype, bound) in [(Dtype::F32, 0.0), (Dtype::F16, 1e-3), (Dtype::BF16, 8e-3)] {
        let read = open(&file(&tensors(&prior, dtype), &METADATA)).unwrap();
        assert_eq!(
            (read.image(), read.network().describe()),
            (NETWORK.image, "NCSNv2, ngf 4".to_owned())
        );
        for param in parameters(&NETWORK) {
            for (a, b) in prior.weight(&param.name).iter().zip(read.weight(&param.name)) {
                assert!(
                    (a - b).abs() <= bound * a.abs().max(1e-3),
                    "{} {dtype:?}: {a} {b}",
                    param.name
                );
            }
        }
    }
}

#[test]
fn a_unet_is_known_by_its_metadata_or_its_tensors() {
    let prior = Prior::random(unet(), 1);
    let read = open(&file(&tensors(&prior, Dtype::F32), &METADATA)).unwrap();
    assert_eq!(
        (read.image(), read.network().describe()),
        (NETWORK.image, "U-Net, widths 3, 5, 6, 2 blocks each".to_owned())
    );
    for param in parameters(&unet()) {
        assert_eq!(prior.weight(&param.name), read.weight(&param.name), "{}", param.name);
    }
    let named = |network| {
        file(
            &tensors(&prior, Dtype::F32),
            &[("image_size", "8,16"), ("network", network)],
        )
    };
    let read = open(&named("unet")).unwrap();
    assert_eq!(read.image(), ImageShape::new(1, 8, 16));
    let message = refusal(&named("transformer"));
    assert!(
        message.contains("\"transformer\"") && message.contains("units, unet, ncsnv2"),
        "{message}"
    );
    // What the file says counts, not what its tensors look like.
    let message = refusal(&named("ncsnv2"));
    assert!(message.contains("missing"), "{message}");
}

#[test]
fn deeper_forms_of_ncsnv2_are_known_by_their_stages_and_have_the_published_weights() {
    for (depth, tensors_of_it, count) in [(Depth::Deeper, 191, 83_445_379), (Depth::Deepest, 229, 94_132_611)] {
        let network = |ngf, side| Ncsnv2 {
            ngf,
            depth,
            image: ImageShape::new(3, side, 2 * side),
        };
        let published = parameters(&network(128, 16));
        assert_eq!(published.len(), tensors_of_it, "{depth:?}");
        let values = published.iter().map(|p| p.shape.iter().product::<usize>());
        assert_eq!(values.sum::<usize>(), count, "{depth:?}");

        let prior = Prior::random(network(4, 8), 1);
        let all = tensors(&prior, Dtype::F32);
        let read = open(&file(&all, &[("image_size", "8,16")])).unwrap();
        assert_eq!(read.network().describe(), format!("NCSNv2{depth:?}, ngf 4"));
    }
}

#[test]
fn a_unet_with_a_weight_too_few_or_too_many_is_refused_by_its_name() {
    let good = tensors(&Prior::random(unet(), 1), Dtype::F32);
    for name in [
        "down.1.1.conv2.bias",
        "shrink.0.weight",
        "grow.1.bias",
        "up.0.0.normalize1.alpha",
    ] {
        let mut tensors = good.clone();
        tensors.remove(name);
        let message = refusal(&file(&tensors, &METADATA));
        assert!(message.contains(name) && message.contains("missing"), "{message}");
    }
    // A third resolution lost: what led to it is left over.
    let mut tensors = good.clone();
    tensors.retain(|name, _| !name.starts_with("down.2."));
    let message = refusal(&file(&tensors, &METADATA));
    assert!(
        message.contains("shrink.1") || message.contains("grow.1") || message.contains("up.1"),
        "{message}"
    );
}

/// `images` brought to a height and width, what is beyond them being their reflection.
fn reflected(images: &Images, height: usize, width: usize) -> Images {
    let from = images.shape;
    let turned = |at: usize, len: usize| if at < len { at } else { 2 * (len - 1) - at };
    let shape = ImageShape::new(from.channels, height, width);
    let pixel = |i: usize| {
        let (plane, y, x) = (i / (height * width), i / width % height, i % width);
        images.data[(plane * from.height + turned(y, from.height)) * from.width + turned(x, from.width)]
    };
    Images::new(shape, (0..images.count() * shape.len()).map(pixel).collect())
}

#[test]
fn an_image_that_a_network_cannot_halve_is_scored_as_one_continued_by_reflection() {
    let deep = |image| Ncsnv2 {
        ngf: 4,
        depth: Depth::Deepest,
        image,
    };
    let unet = |image| UNet { image, ..unet() };
    let (odd, whole) = (ImageShape::new(1, 13, 10), ImageShape::new(1, 16, 16));
    let pixels = (0..2 * odd.len()).map(|i| (i as f32 * 0.37).sin() / 2.0 + 0.5);
    let x = Images::new(odd, pixels.collect());
    let mut engine = CpuEngine::new(2);
    let mut score = |prior: Prior, x: &Images| prior_score(&mut engine, &prior, x, 0.3).unwrap();
    // Halved twice, 13 rows become 16 and 10 columns 12; halved three times, both become 16.
    let large = reflected(&x, 16, 12);
    let pairs = [
        (
            score(Prior::random(unet(odd), 3), &x),
            score(Prior::random(unet(large.shape), 3), &large),
        ),
        (
            score(Prior::random(deep(odd), 3), &x),
            score(Prior::random(deep(whole), 3), &reflected(&x, 16, 16)),
        ),
    ];
    for (of_odd, of_whole) in pairs {
        assert_eq!(of_odd.shape, odd);
        assert_eq!(of_odd.data, reflected(&of_whole, 13, 10).data);
    }
}

#[test]
fn an_image_that_a_network_can_halve_costs_no_op_more() {
    let ops = |height, width| {
        let engine = CpuEngine::new(1);
        let image = ImageShape::new(1, height, width);
        let prior = Prior::random(UNet { image, ..unet() }, 3);
        let plan = ScorePlan::of_prior(&prior, 1, engine.target());
        let ops = plan.plan.instructions().map(|instruction| instruction.op.name());
        ops.filter(|&name| name == "reflect").count()
    };
    assert_eq!([ops(8, 12), ops(8, 13), ops(7, 12)], [0, 2, 2]);
}

#[test]
fn the_paper_size_network_has_the_published_number_of_parameters() {
    for (channels, size, count) in [(1, 28, 29_689_473), (3, 32, 29_694_083), (3, 64, 29_694_083)] {
        let network = Ncsnv2::new(128, ImageShape::new(channels, size, size));
        let params = parameters(&network);
        assert_eq!(params.len(), 153);
        assert_eq!(
            params.iter().map(|p| p.shape.iter().product::<usize>()).sum::<usize>(),
            count
        );
    }
}

#[test]
fn the_schedule_comes_from_the_sigmas_or_the_metadata_or_not_at_all() {
    let prior = Prior::random(NETWORK, 1);
    let mut with_sigmas = tensors(&prior, Dtype::F32);
    let from_metadata = open(&file(&with_sigmas, &METADATA)).unwrap().schedule;
    assert_eq!(from_metadata, Some(Schedule::geometric(10.0, 0.1, 5).unwrap()));
    assert_eq!(open(&file(&with_sigmas, &METADATA[..1])).unwrap().schedule, None);
    let levels: Vec<u8> = [3f32, 2.0, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    with_sigmas.insert("sigmas".into(), (Dtype::F32, vec![3], levels));
    let from_tensor = open(&file(&with_sigmas, &METADATA)).unwrap().schedule;
    assert_eq!(from_tensor, Some(Schedule::new(vec![3.0, 2.0, 1.0]).unwrap()));
}

#[test]
fn a_missing_an_unknown_and_a_misshapen_weight_are_named() {
    let good = tensors(&Prior::random(NETWORK, 1), Dtype::F32);
    let broken = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = good.clone();
        change(&mut tensors);
        refusal(&file(&tensors, &METADATA))
    };
    let missing = broken(&|t| {
        t.remove("refine2.msf.convs.0.bias");
    });
    assert!(
        missing.contains("refine2.msf.convs.0.bias") && missing.contains("missing"),
        "{missing}"
    );
    let no_begin = broken(&|t| {
        t.remove("begin_conv.weight");
    });
    assert!(no_begin.contains("begin_conv.weight"), "{no_begin}");
    let unknown = broken(&|t| {
        t.insert("classifier.weight".into(), (Dtype::F32, vec![1], vec![0; 4]));
    });
    assert!(unknown.contains("classifier.weight"), "{unknown}");
    let misshapen = broken(&|t| {
        t.insert("end_conv.bias".into(), (Dtype::F32, vec![2], vec![0; 8]));
    });
    assert!(
        misshapen.contains("end_conv.bias") && misshapen.contains("[2]"),
        "{misshapen}"
    );
    let not_finite = broken(&|t| {
        t.insert(
            "end_conv.bias".into(),
            (Dtype::F32, vec![1], f32::NAN.to_le_bytes().to_vec()),
        );
    });
    assert!(not_finite.contains("end_conv.bias"), "{not_finite}");
    let doubles = refusal(&file(&tensors(&Prior::random(NETWORK, 1), Dtype::F64), &METADATA));
    assert!(doubles.contains("F64"), "{doubles}");
}

#[test]
fn metadata_that_make_no_sense_are_named() {
    let good = tensors(&Prior::random(NETWORK, 1), Dtype::F32);
    assert!(refusal(&file(&good, &[])).contains("image_size"));
    for (key, value) in [
        ("image_size", "big"),
        ("sigma_begin", "0.01"),
        ("sigma_end", "?"),
        ("num_classes", "-3"),
    ] {
        let mut metadata = METADATA.to_vec();
        metadata.retain(|(k, _)| *k != key);
        metadata.push((key, value));
        refusal(&file(&good, &metadata));
    }
}

#[test]
fn a_damaged_file_is_refused_and_never_panics() {
    let whole = file(&tensors(&Prior::random(NETWORK, 1), Dtype::F32), &METADATA);
    for length in (0..200).chain([whole.len() / 2, whole.len() - 1]) {
        refusal(&whole[..length]);
    }
    for byte in 0..1000 {
        for value in [0, 0xff, b'"', b'9'] {
            let mut damaged = whole.clone();
            damaged[byte] = value;
            // A changed digit may leave a file that is still a prior; all that matters is an answer.
            let _ = open(&damaged);
        }
    }
}

#[test]
fn a_prior_for_other_channels_is_refused_and_one_for_another_size_is_not() {
    let whole = file(&tensors(&Prior::random(NETWORK, 1), Dtype::F32), &METADATA);
    let opened = |image| Prior::from_bytes("prior.safetensors", &whole, Some(image));
    assert!(opened(ImageShape::new(3, 8, 8)).is_err());
    for image in [ImageShape::new(1, 16, 24), ImageShape::new(1, 9, 7)] {
        assert_eq!(opened(image).unwrap().image(), image);
    }
}

/// A disc on a sky that darkens: no photograph, but edges and slopes as photographs have them.
fn picture() -> Images {
    let shape = ImageShape::new(3, 32, 32);
    let colour = |channel: usize, y: usize, x: usize| {
        let inside = (x as f32 - 18.0).hypot(y as f32 - 14.0) < 8.0;
        let (disc, sky) = ([0.8, 0.5, 0.2][channel], [0.3, 0.5, 0.7][channel]);
        if inside { disc } else { sky + y as f32 / 160.0 }
    };
    let pixels = (0..shape.len()).map(|i| colour(i / 1024, i / 32 % 32, i % 32));
    Images::new(shape, pixels.collect())
}

/// Trousers, roughly: grey, a little brighter towards the waist, on black.
fn garment() -> Images {
    let shape = ImageShape::new(1, 28, 28);
    let grey = |y: usize, x: usize| {
        let cloth = (2..26).contains(&y) && (8..20).contains(&x) && (y < 9 || !(13..15).contains(&x));
        if cloth { 0.8 - y as f32 / 100.0 } else { 0.0 }
    };
    Images::new(shape, (0..shape.len()).map(|i| grey(i / 28, i % 28)).collect())
}

/// Mean squared error of `x + noise` after the prior has denoised it, x + sigma²·score, as a share of sigma².
fn left_of_the_noise(prior: &Prior, clean: &Images, sigma: f32) -> f32 {
    let mut noisy = clean.clone();
    let noise = Stream {
        seed: 1,
        domain: Domain::Noise,
        image: 0,
        chain: 0,
        step: 0,
    };
    let mut z = vec![0.0; clean.data.len()];
    noise.fill_normals(0, &mut z);
    noisy.data.iter_mut().zip(&z).for_each(|(x, z)| *x += sigma * z);
    let score = prior_score(&mut CpuEngine::new(0), prior, &noisy, f64::from(sigma)).unwrap();
    let errors = noisy.data.iter().zip(&score.data).zip(&clean.data);
    let sum: f32 = errors
        .map(|((x, s), clean)| (x + sigma * sigma * s - clean).powi(2))
        .sum();
    sum / clean.data.len() as f32 / (sigma * sigma)
}

#[test]
fn the_priors_in_weights_denoise_what_they_have_not_seen() {
    let open = |name: &str| {
        let weights = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("weights");
        Prior::open(&weights.join(format!("{name}.safetensors")), None).unwrap()
    };
    for (name, prior, clean) in [
        (
            "the default",
            Prior::shipped().unwrap(),
            bundled::digits(0, None).unwrap(),
        ),
        ("mnist", open("mnist"), bundled::digits(0, None).unwrap()),
        ("fashion-mnist", open("fashion-mnist"), garment()),
        ("cifar10-unet", open("cifar10-unet"), picture()),
    ] {
        assert!(prior.schedule.is_some() && prior.metadata.contains_key("steps_per_level"));
        for (sigma, share) in [(0.05, 0.5), (0.1, 0.3), (0.3, 0.1), (1.0, 0.05)] {
            let left = left_of_the_noise(&prior, &clean, sigma);
            assert!(left < share, "{name}: {left} of the noise is left at sigma = {sigma}");
        }
    }
}

//! The network against PyTorch in float64.

use std::collections::HashMap;

use crate::engines::every_engine;
use crate::golden::{Golden, relative_error};
use qcs::ImageShape;
use qcs::engine::cpu::CpuEngine;
use qcs::engine::{Constants, Engine, Precision, State};
use qcs::methods::ScorePlan;
use qcs::plan::{Program, Step};
use qcs::prior::{Depth, Ncsnv2, Network, Norms, Prior, Schedule, UNet};

fn ncsnv2(golden: &Golden, image: ImageShape) -> Prior {
    prior(golden, Ncsnv2::new(16, image))
}

fn prior(golden: &Golden, network: impl Network + 'static) -> Prior {
    let weights: HashMap<String, Vec<f32>> = golden
        .names()
        .iter()
        .filter_map(|name| {
            let key = name.strip_prefix("sd.")?;
            (key != "sigmas").then(|| (key.to_owned(), golden.f32(name)))
        })
        .collect();
    Prior::new(network, None, weights)
}

/// The noise level of each of the golden's images.
fn levels(golden: &Golden) -> Vec<f64> {
    if golden.names().iter().any(|name| name == "levels") {
        return golden.f64("levels");
    }
    let levels = Schedule::geometric(50.0, 0.01, 232).unwrap();
    let level = |&label: &f64| f64::from(levels.levels()[label as usize]);
    golden.f64("labels").iter().map(level).collect()
}

/// The scores of the golden's images, each at its own level, so many at a time.
pub fn scores(engine: &mut dyn Engine, prior: &Prior, golden: &Golden, batch: usize) -> Vec<f32> {
    let x = golden.f32("x");
    let levels = levels(golden);
    let n = prior.image().len();
    let compiled = ScorePlan::of_prior(prior, batch, engine.target());
    let constants = Constants {
        prior: Some(prior),
        steps: &[Step::default()],
        ..Constants::default()
    };
    let mut session = engine.session(&compiled.plan, constants).unwrap();
    session.bind(&[State { image: 0, chain: 0 }]).unwrap();
    let mut result = vec![0.0; x.len()];
    for ((x, levels), score) in x
        .chunks(batch * n)
        .zip(levels.chunks(batch))
        .zip(result.chunks_mut(batch * n))
    {
        session.write_values(compiled.x, x).unwrap();
        session.write_values(compiled.level, levels).unwrap();
        session.execute(Program::Step, 0).unwrap();
        session.read_values(compiled.score, score).unwrap();
    }
    result
}

/// Ten times the largest error of portable code, AVX2, sm_70 and sm_80.
const BOUND: f64 = 1.8e-5;

#[test]
fn networks_agree_with_float64_on_every_engine() {
    let unet = |widths: &[usize], blocks: usize, image: ImageShape| UNet {
        widths: widths.to_vec(),
        blocks,
        norms: Norms::Instance,
        image,
    };
    let grey = ImageShape::new(1, 28, 28);
    let colour = ImageShape::new(3, 32, 32);
    type Build<'a> = &'a dyn Fn(&Golden) -> Prior;
    let deep = |depth, image| Ncsnv2 { ngf: 8, depth, image };
    let goldens: [(&str, Build<'_>); 7] = [
        ("ncsnv2_ngf16_28x28x1.safetensors", &|g| ncsnv2(g, grey)),
        ("ncsnv2_ngf16_32x32x3.safetensors", &|g| ncsnv2(g, colour)),
        ("unet_28x28x1.safetensors", &|g| prior(g, unet(&[8, 16, 24], 2, grey))),
        ("unet_32x32x3.safetensors", &|g| {
            prior(g, unet(&[10, 12, 20], 1, colour))
        }),
        ("unet_by_level_24x36x3.safetensors", &|g| {
            let norms = Norms::ByLevel;
            prior(
                g,
                UNet {
                    norms,
                    ..unet(&[8, 16, 24], 1, ImageShape::new(3, 24, 36))
                },
            )
        }),
        ("ncsnv2_deeper.safetensors", &|g| {
            prior(g, deep(Depth::Deeper, ImageShape::new(1, 12, 16)))
        }),
        ("ncsnv2_deepest.safetensors", &|g| {
            prior(g, deep(Depth::Deepest, ImageShape::new(3, 16, 24)))
        }),
    ];
    for (name, build) in goldens {
        let golden = Golden::open(name);
        let prior = build(&golden);
        let n = prior.image().len();
        let expected = golden.f64("out_f64");
        for mut engine in every_engine(Precision::Fp32) {
            let score = scores(engine.as_mut(), &prior, &golden, 1);
            for (image, (score, expected)) in score.chunks(n).zip(expected.chunks(n)).enumerate() {
                let error = relative_error(score, expected);
                println!("{name} image {image} {}: {error:.1e}", engine.describe());
                assert!(error < BOUND, "{name}, image {image}, {}: {error:e}", engine.describe());
            }
        }
    }
}

#[test]
fn an_images_score_does_not_depend_on_its_batch_or_the_number_of_threads() {
    let golden = Golden::open("ncsnv2_ngf16_28x28x1.safetensors");
    let prior = ncsnv2(&golden, ImageShape::new(1, 28, 28));
    let alone = scores(&mut CpuEngine::new(1), &prior, &golden, 1);
    for threads in [1, 2, 3] {
        let together = scores(&mut CpuEngine::new(threads), &prior, &golden, 3);
        assert!(
            alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits()),
            "{threads} threads"
        );
    }
}

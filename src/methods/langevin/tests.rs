use super::*;
use crate::ImageShape;
use crate::methods::{Method, Options, PRESETS, QCS_SGM_PLUS, parse_list};
use crate::prior::Schedule;

fn settings(options: QcsSgmPlus) -> LangevinSettings {
    options
        .over(QcsSgmPlus::of_preset(&PRESETS[0]))
        .settings(Likelihood::default())
        .unwrap()
}

fn langevin(settings: &LangevinSettings) -> LangevinSteps {
    match settings.dynamics {
        Dynamics::Langevin(steps) => steps,
        Dynamics::Reverse => panic!("{settings:?}"),
    }
}

/// A model of MNIST's shape with three levels of its own, or without.
fn model(own_levels: bool) -> Prior {
    let mut prior = Prior::random_of_width(2, ImageShape::new(1, 28, 28), 0);
    prior.schedule = own_levels.then(|| Schedule::new(vec![4.0, 2.0, 1.5]).unwrap());
    prior
}

#[test]
fn every_preset_is_valid() {
    for preset in &PRESETS {
        let settings = QcsSgmPlus::of_preset(preset).settings(Likelihood::default()).unwrap();
        assert_eq!(settings.schedule.len(), preset.levels);
        assert!(preset.measurements < preset.image().len());
        assert_eq!(Preset::find(preset.name).unwrap().name, preset.name);
    }
    assert!(Preset::find("imagenet").is_err());
}

#[test]
fn flags_win_over_a_named_preset_and_that_over_the_model_and_that_over_the_shapes_preset() {
    let celeba = Preset::find("celeba").unwrap();
    let named = QcsSgmPlus::defaults(&model(true), Some(celeba), "ep", false).unwrap();
    assert_eq!(
        (named.sigma_begin, named.levels, named.xi),
        (Some(90.0), Some(500), Some(0.3))
    );
    let own = QcsSgmPlus::defaults(&model(true), None, "ep", false).unwrap();
    assert_eq!(
        (own.sigmas, own.levels, own.xi),
        (Some(vec![4.0, 2.0, 1.5]), None, Some(0.5))
    );
    let shape = QcsSgmPlus::defaults(&model(false), None, "ep", false).unwrap();
    assert_eq!((shape.sigma_begin, shape.levels), (Some(50.0), Some(232)));
    let flags = QcsSgmPlus {
        levels: Some(60),
        epsilon: Some(1.5e-4),
        gamma: Some(2.0),
        ..QcsSgmPlus::default()
    };
    let all = flags.clone().over(shape).settings(Likelihood::default()).unwrap();
    assert_eq!((all.schedule.begin(), all.schedule.len()), (50.0, 60));
    assert!(
        (langevin(&all).step_scale - 1.5).abs() < 1e-12,
        "epsilon is step_scale·beta_T²"
    );
    assert_eq!(all.gamma, crate::plan::GammaRule::Constant { gamma: 2.0 });
    let listed = flags.over(QcsSgmPlus::defaults(&model(true), None, "ep", false).unwrap());
    assert_eq!(listed.schedule().unwrap(), Schedule::geometric(4.0, 1.5, 60).unwrap());
}

#[test]
fn a_model_may_advise_every_method_or_one() {
    let mut prior = model(true);
    for (key, value) in [
        ("momentum", "0.9"),
        ("steps_per_level", "5"),
        ("ep.xi", "0.8"),
        ("ep.signs.xi", "0.3"),
        ("sigma_begin", "17"),
        ("sample.sigma_begin", "16"),
        ("sample.momentum", "0"),
        ("trained_by", "me"),
    ] {
        prior.metadata.insert(key.to_owned(), value.to_owned());
    }
    let advised = |key: &str| QcsSgmPlus::defaults(&prior, None, key, false).unwrap();
    let levels = |key: &str| advised(key).schedule().unwrap();
    assert_eq!(
        (levels("sample").begin(), advised("sample").momentum),
        (16.0, Some(0.0))
    );
    assert_eq!(levels("sample").len(), levels("ep").len());
    assert_ne!(f64::from(levels("ep").begin()), 17.0);
    assert_eq!((advised("ep").momentum, advised("ep").xi), (Some(0.9), Some(0.8)));
    assert_eq!(
        (advised("diag").steps_per_level, advised("diag").xi),
        (Some(5), Some(0.5))
    );
    let of_signs = |key: &str| QcsSgmPlus::defaults(&prior, None, key, true).unwrap();
    assert_eq!((of_signs("ep").momentum, of_signs("ep").xi), (Some(0.9), Some(0.3)));
    assert_eq!(of_signs("diag"), advised("diag"));
    for (name, value) in [
        ("momentum", "lots"),
        ("momentum", "1"),
        ("momentum", "-0.1"),
        ("momentum", "nan"),
        ("steps_per_level", "0"),
        ("step_scale", "large"),
        ("xi", "-1"),
    ] {
        let good = prior.metadata.insert(name.to_owned(), value.to_owned());
        let error = QcsSgmPlus::defaults(&prior, None, "diag", false).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().contains(name), "{error}");
        match good {
            Some(good) => prior.metadata.insert(name.to_owned(), good),
            None => prior.metadata.remove(name),
        };
    }
}

#[cfg(feature = "bundled")]
#[test]
fn the_shipped_prior_knows_how_to_sample_with_it() {
    let options = QcsSgmPlus::defaults(&Prior::shipped().unwrap(), None, "ep", false).unwrap();
    let settings = options.settings(Likelihood::default()).unwrap();
    let steps = langevin(&settings);
    assert_eq!((steps.steps_per_level, steps.step_scale, steps.momentum), (5, 1.4, 0.9));
    assert_eq!(settings.steps().len(), 300);
}

#[test]
fn a_model_of_unknown_shape_without_levels_asks_for_them() {
    let prior = Prior::random_of_width(2, ImageShape::new(1, 6, 6), 0);
    let open = QcsSgmPlus::defaults(&prior, None, "ep", false).unwrap();
    assert!(open.settings(Likelihood::default()).is_err());
    let levels = QcsSgmPlus::geometric(3.0, 0.1, 5).over(open);
    assert_eq!(levels.settings(Likelihood::default()).unwrap().schedule.len(), 5);
}

#[test]
fn a_schedule_is_described_by_its_ends_only_where_they_give_the_same_bits() {
    let geometric = Schedule::geometric(50.0, 0.01, 232).unwrap();
    let options = QcsSgmPlus::of_schedule(&geometric);
    assert_eq!(options, QcsSgmPlus::geometric(50.0, 0.01, 232));
    assert_eq!(options.schedule().unwrap(), geometric);
    let other = Schedule::new(vec![3.0, 2.0, 0.1]).unwrap();
    let options = QcsSgmPlus::of_schedule(&other);
    let text = serde_json::to_string(&options).unwrap();
    let again: QcsSgmPlus = serde_json::from_str(&text).unwrap();
    assert_eq!(again.schedule().unwrap(), other);
}

/// The variance that the steps leave a Gaussian state of variance beta² with, by iterating its covariance with the
/// previous movement.
fn variance(settings: &LangevinSettings, beta: f64) -> f64 {
    let step = langevin(settings).step(beta, Some(beta));
    let pull = step.alpha / (beta * beta);
    let (mut xx, mut xv, mut vv) = (1.0, 0.0, 0.0);
    for _ in 0..20_000 {
        // v' = momentum·v − pull·x + noise·z, x' = x + v'
        let next_vv =
            step.momentum.powi(2) * vv - 2.0 * step.momentum * pull * xv + pull * pull * xx + step.noise.powi(2);
        let x_next_v = step.momentum * xv - pull * xx;
        (xx, xv, vv) = (xx + 2.0 * x_next_v + next_vv, x_next_v + next_vv, next_vv);
    }
    xx
}

#[test]
fn small_steps_keep_the_variance_of_a_gaussian_whatever_the_momentum() {
    for momentum in [0.0, 0.5, 0.9] {
        for (step_scale, beta) in [(0.01, 0.3), (0.01, 7.0), (1.5, 0.3)] {
            let settings = settings(QcsSgmPlus {
                step_scale: Some(step_scale),
                momentum: Some(momentum),
                ..QcsSgmPlus::default()
            });
            let relative = variance(&settings, beta) / (beta * beta);
            // What is left is the step's own error, and momentum makes it smaller.
            let expected = 1.0 / (1.0 - step_scale / (2.0 * (1.0 + momentum)));
            assert!(
                (relative / expected - 1.0).abs() < 1e-9,
                "{settings:?}: {relative} {expected}"
            );
        }
    }
}

#[test]
fn a_movement_shrinks_with_the_noise_level() {
    let steps = langevin(&settings(QcsSgmPlus {
        momentum: Some(0.8),
        ..QcsSgmPlus::default()
    }));
    assert_eq!(steps.step(2.0, None).momentum, 0.0, "nothing has moved yet");
    assert_eq!(steps.step(1.0, Some(2.0)).momentum, 0.4);
    assert_eq!(steps.step(1.0, Some(1.0)).momentum, 0.8);
}

#[test]
fn the_reverse_sde_goes_from_level_to_level_once() {
    let settings = LangevinSettings {
        dynamics: Dynamics::Reverse,
        ..settings(QcsSgmPlus::geometric(9.0, 0.01, 40))
    };
    let steps = settings.steps();
    assert_eq!(steps.len(), 41, "the start, 39 from level to level, the last image");
    assert_eq!((steps[0].langevin.alpha, steps[0].langevin.noise), (0.0, 9.0));
    assert_eq!(steps[40].langevin.noise, 0.0);
    let stages = [0, 1, 2, 40].map(|step: usize| steps[step].stage);
    assert_eq!(stages, [1, 1, 2, 40]);
    let places = [0, 1, 2, 40].map(|step| settings.place(step));
    assert_eq!(places, [(1, 1), (1, 2), (2, 1), (40, 1)]);
}

#[test]
fn settings_out_of_range_are_refused_by_their_name() {
    let good = Method::from(QcsSgmPlus::of_preset(&PRESETS[0]));
    good.algorithm().unwrap();
    for (name, value) in [
        ("steps_per_level", "0"),
        ("steps_per_level", "9223372036854775807"),
        ("steps_per_level", "9223372036854775808"),
        ("ep_iters", "0"),
        ("ep_iters", "4294967296"),
        ("ep_iters", "many"),
        ("levels", "1"),
        ("step_scale", "-1"),
        ("step_scale", "nan"),
        ("momentum", "1"),
        ("momentum", "nan"),
        ("xi", "0"),
        ("gamma", "inf"),
        ("ep_rule", "fast"),
    ] {
        let mut above = QCS_SGM_PLUS.open();
        let set = above.set(name, value);
        let error = set
            .and_then(|()| above.over(good.clone()).algorithm().map(|_| ()))
            .unwrap_err();
        assert!(error.to_string().starts_with(name), "{error}");
    }
    let error = QCS_SGM_PLUS.open().set("momentums", "1").unwrap_err().to_string();
    assert!(error.contains("momentums") && error.contains("momentum,"), "{error}");
}

#[test]
fn lists_of_methods_are_read_as_they_are_typed() {
    let keys = |list: &str| parse_list(list).map(|kinds| kinds.iter().map(|k| k.key()).collect::<Vec<_>>());
    assert_eq!(keys("ep").unwrap(), ["ep"]);
    assert_eq!(keys("both").unwrap(), ["diag", "ep"]);
    assert_eq!(keys("ep,diag").unwrap(), ["ep", "diag"]);
    for bad in ["", "ep,", "ep,ep", "em"] {
        assert!(keys(bad).is_err(), "{bad}");
    }
}

//! The ops of the Langevin sampler.

use qcs_kernels::philox::Domain;
use qcs_kernels::sampler::denoise::denoise;
use qcs_kernels::sampler::gamma::gamma as gamma_of;
use qcs_kernels::sampler::langevin::langevin;
use qcs_kernels::sampler::set_level::set_level;
use qcs_kernels::sampler::start_state::start_state;

use super::values::{levels, normals, uniforms};
use super::{Builder, Case, SEED, absolute_error, each, part, same_bits};
use crate::engine::{State, step_record};
use crate::plan::{Contents, GammaRule, Langevin, LangevinNumbers, SamplerOp, Step, Target};

/// States and their length: the images of the three configurations (or a part), odd ones.
const SHAPES: [(usize, usize); 5] = [(1, 784), (5, 3072), (3, 37), (2, 1), (1, 1026)];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![level_case(1), level_case(300)];
    for (states, len) in SHAPES {
        cases.extend([
            start_case(states, len),
            gamma_case(states, len, GammaRule::Adaptive { xi: 0.3 }),
            gamma_case(states, len, GammaRule::Constant { gamma: 0.3 }),
            langevin_case(states, len, true, None),
            langevin_case(states, len, false, None),
            langevin_case(states, len, true, Some(0.7)),
            langevin_case(states, len, false, Some(0.0)),
            denoise_case(states, len),
        ]);
    }
    cases
}

pub fn paper_size() -> Vec<Case> {
    vec![
        langevin_case(8, 3072, true, None),
        langevin_case(8, 3072, true, Some(0.7)),
    ]
}

/// Image and chain of a state differ from its place in the batch.
fn builder<'a>(states: usize, target: &'a dyn Target) -> Builder<'a> {
    let mut case = Builder::new(states, target);
    let state = |s: usize| State {
        image: 3 * s + 1,
        chain: states + 7 - s,
    };
    case.states = (0..states).map(state).collect();
    case
}

/// Three steps, one after the other: each moves on to the next.
fn level_case(states: usize) -> Case {
    Case::new(format!("set_level {states}"), 0.0, move |target| {
        let mut case = builder(states, target);
        case.steps = [0.9, 0.6, 0.37].map(|beta| Step::plain(beta, 0.0, 0)).to_vec();
        case.executed = 0..3;
        let level = case.unset(Contents::F64(1));
        case.push(SamplerOp::SetLevel { level });
        case.finish(move |results| {
            let mut expected = vec![f64::NAN; states];
            set_level(0.37, &mut expected);
            Ok(absolute_error(&results.of(level), &expected))
        })
    })
}

fn start_case(states: usize, len: usize) -> Case {
    Case::new(format!("start_state {states}×{len}"), 0.0, move |target| {
        let mut case = builder(states, target);
        let keys: Vec<State> = case.states.clone();
        let (x, frozen) = (case.unset(Contents::F32(len)), case.unset(Contents::U32(1)));
        case.push(SamplerOp::StartState { x, frozen });
        case.finish(move |results| {
            let mut expected_frozen = vec![u32::MAX; states];
            let expected = each(f32::NAN, states, len, |s, x| {
                start_state(SEED, keys[s].key(), x, &mut expected_frozen[s]);
            });
            Ok(absolute_error(&results.of(x), &expected) + absolute_error(&results.of(frozen), &expected_frozen))
        })
    })
}

fn gamma_case(states: usize, len: usize, rule: GammaRule) -> Case {
    let kind = if rule.is_adaptive() { "adaptive" } else { "constant" };
    // Sums of positive terms in another order.
    Case::new(format!("gamma {kind} {states}×{len}"), 1e-14, move |target| {
        let mut case = builder(states, target);
        let (of_prior, mut of_likelihood) = (normals(20, states * len), normals(21, states * len));
        of_likelihood[..len].fill(0.0);
        // Measurements that are satisfied: the rest of a score, too small for a gamma that an f32 could hold.
        if states > 1 {
            of_likelihood[(states - 1) * len..].iter_mut().for_each(|v| *v *= 1e-37);
        }
        let prior = case.tensor(Contents::F32(len), &of_prior);
        let likelihood = case.tensor(Contents::F32(len), &of_likelihood);
        let gamma = case.unset(Contents::F64(1));
        case.push(SamplerOp::Gamma {
            prior,
            likelihood,
            rule,
            gamma,
        });
        case.finish(move |results| {
            let expected = each(f64::NAN, states, 1, |s, gamma| {
                let (prior, likelihood) = (part(&of_prior, states, s), part(&of_likelihood, states, s));
                gamma[0] = gamma_of(prior, likelihood, rule.factor(), rule.is_adaptive());
            });
            if expected.iter().any(|&gamma| !(gamma as f32).is_finite()) {
                return Err("a gamma that no f32 holds".into());
            }
            // State by state: they are of very different sizes.
            let one = |(gamma, expected): (f64, &f64)| {
                if *expected == 0.0 {
                    gamma.abs()
                } else {
                    (gamma / expected - 1.0).abs()
                }
            };
            let errors = results.of(gamma).into_iter().zip(&expected).map(one);
            Ok(errors.fold(0.0, |worst, error| if error <= worst { worst } else { error }))
        })
    })
}

/// The last state is frozen before the step and the one before it becomes infinite in it: both keep their x. A velocity
/// that must not be read is not a number.
fn langevin_case(states: usize, len: usize, with_likelihood: bool, momentum: Option<f64>) -> Case {
    let what = if with_likelihood { "with" } else { "without" };
    let moving = momentum.map_or_else(String::new, |momentum| format!(", momentum {momentum}"));
    let name = format!("langevin {states}×{len} {what} likelihood{moving}");
    Case::new(name, 0.0, move |target| {
        let mut case = builder(states, target);
        let step = Step {
            langevin: LangevinNumbers {
                beta: 0.4,
                alpha: 3.3e-5,
                noise: 0.004,
                momentum: momentum.unwrap_or(0.0),
            },
            index: 17,
            stage: 1,
        };
        case.steps[1] = step;
        let keys = case.states.clone();
        let of_velocity = match momentum {
            Some(0.0) | None => vec![f32::NAN; states * len],
            Some(_) => normals(21, states * len),
        };
        let (of_x, mut of_prior) = (uniforms(22, states * len), normals(23, states * len));
        let of_score = normals(24, states * len);
        let of_gamma: Vec<f64> = (0..states).map(|s| 0.1 + s as f64).collect();
        let mut flags = vec![0u32; states];
        if states > 1 {
            flags[states - 1] = 5;
            of_prior[(states - 1) * len - 1] = f32::INFINITY;
        }
        let vector = Contents::F32(len);
        let (x, prior) = (case.tensor(vector, &of_x), case.tensor(vector, &of_prior));
        let likelihood = with_likelihood.then(|| {
            let score = case.tensor(vector, &of_score);
            (score, case.tensor(Contents::F64(1), &of_gamma))
        });
        let velocity = momentum.map(|_| case.tensor(vector, &of_velocity));
        let frozen = case.tensor(Contents::U32(1), &flags);
        case.push(Langevin {
            x,
            prior,
            likelihood,
            velocity,
            frozen,
        });
        case.finish(move |results| {
            let (mut expected, mut moved, mut flags) = (of_x.clone(), of_velocity.clone(), flags.clone());
            for (s, (x, moved)) in expected.chunks_mut(len).zip(moved.chunks_mut(len)).enumerate() {
                langevin(
                    keys[s].key().stream(SEED, Domain::Noise, step.index),
                    step_record(step),
                    part(&of_prior, states, s),
                    with_likelihood.then(|| (part(&of_score, states, s), of_gamma[s])),
                    x,
                    momentum.map(|_| moved),
                    &mut flags[s],
                    &mut vec![f32::NAN; len],
                );
            }
            if velocity.is_some_and(|velocity| !same_bits(&results.of(velocity), &moved)) {
                return Err("another velocity".into());
            }
            Ok(absolute_error(&results.of(x), &expected) + absolute_error(&results.of(frozen), &flags))
        })
    })
}

/// The last state is frozen, and the score of the one before it is not finite.
fn denoise_case(states: usize, len: usize) -> Case {
    Case::new(format!("denoise {states}×{len}"), 0.0, move |target| {
        let mut case = builder(states, target);
        let (of_x, mut of_prior) = (uniforms(25, states * len), normals(26, states * len));
        let mut flags = vec![0u32; states];
        if states > 1 {
            flags[states - 1] = 5;
            of_prior[(states - 1) * len - 1] = f32::NAN;
        }
        let x = case.tensor(Contents::F32(len), &of_x);
        let level = case.tensor(Contents::F64(1), &levels(states));
        let prior = case.tensor(Contents::F32(len), &of_prior);
        let frozen = case.tensor(Contents::U32(1), &flags);
        case.push(SamplerOp::Denoise {
            x,
            level,
            prior,
            frozen,
        });
        case.finish(move |results| {
            let mut expected = of_x.clone();
            for (s, x) in expected.chunks_mut(len).enumerate() {
                denoise(levels(states)[s], part(&of_prior, states, s), flags[s], x);
            }
            Ok(absolute_error(&results.of(x), &expected))
        })
    })
}

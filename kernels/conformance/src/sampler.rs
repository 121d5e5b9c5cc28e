//! The ops of the Langevin sampler.

use crate::values::{levels, normals, uniforms};
use crate::{Array, Case, Gpu, absolute_error, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::launch::Arguments;
use qcs_kernels::philox::Domain;
use qcs_kernels::sampler::StateKey;
use qcs_kernels::sampler::denoise::{DenoiseArgs, denoise};
use qcs_kernels::sampler::gamma::{GammaArgs, gamma};
use qcs_kernels::sampler::langevin::{LangevinAcceptArgs, LangevinProposeArgs, langevin};
use qcs_kernels::sampler::set_level::{SetLevelArgs, set_level};
use qcs_kernels::sampler::start_state::{StartStateArgs, start_state};
use qcs_kernels::sampler::step::{AdvanceStepArgs, StepRecord, StepTable};

const SEED: u64 = 0x0123_4567_89ab_cdef;

/// States and their length: the images of the three configurations (or a part), odd ones.
const SHAPES: [(usize, usize); 5] = [(1, 784), (5, 3072), (3, 37), (2, 1), (1, 1026)];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![advance_case(), level_case(1), level_case(300)];
    for (states, len) in SHAPES {
        cases.extend([
            start_case(states, len),
            gamma_case(states, len, true),
            gamma_case(states, len, false),
            langevin_case(states, len, true, None),
            langevin_case(states, len, false, None),
            langevin_case(states, len, true, Some(0.7)),
            langevin_case(states, len, false, Some(0.0)),
            denoise_case(states, len),
        ]);
    }
    cases
}

/// A table of three records on the device; the cursor stands on the second, the others would give other numbers.
struct Steps<'a> {
    records: Array<'a, f64>,
    cursor: Array<'a, u32>,
}

impl<'a> Steps<'a> {
    /// The steps of an op that reads the noise level alone.
    fn at(gpu: &'a dyn Gpu, beta: f64) -> Result<Self, String> {
        let step = StepRecord {
            beta,
            alpha: f64::NAN,
            noise: f64::NAN,
            momentum: f64::NAN,
            index: 0,
        };
        Self::new(gpu, step)
    }

    /// The record in the middle of three is the current one.
    fn new(gpu: &'a dyn Gpu, step: StepRecord) -> Result<Self, String> {
        let mut records = [f64::NAN; 3 * StepRecord::WORDS];
        records[StepRecord::WORDS..][..StepRecord::WORDS].copy_from_slice(&step.words().map(f64::from_bits));
        Ok(Self {
            records: Array::new(gpu, &records)?,
            cursor: Array::new(gpu, &[1])?,
        })
    }

    fn table(&self) -> StepTable {
        StepTable {
            records: self.records.cast(),
            cursor: self.cursor.global(),
        }
    }
}

/// The key of a state: image and chain differ from its place in the batch.
fn key(state: usize) -> StateKey {
    StateKey {
        image: 3 * state as u32 + 1,
        chain: 7 - state as u32,
    }
}

fn keys(gpu: &dyn Gpu, states: usize) -> Result<Array<'_, u32>, String> {
    let words: Vec<u32> = (0..states).flat_map(|s| [key(s).image, key(s).chain]).collect();
    Array::new(gpu, &words)
}

fn advance_case() -> Case {
    Case::new("advance_step".into(), 0, 0.0, |gpu| {
        let cursor = Array::new(gpu, &[41u32])?;
        launch(
            gpu,
            AdvanceStepArgs {
                cursor: cursor.global(),
            },
        )?;
        Ok((f64::from(cursor.read()?[0]) - 42.0).abs())
    })
}

fn level_case(states: usize) -> Case {
    Case::new(format!("set_level {states}"), 0, 0.0, move |gpu| {
        let (steps, level) = (Steps::at(gpu, 0.37)?, Array::unset(gpu, states)?);
        let args = SetLevelArgs {
            steps: steps.table(),
            level: level.global(),
            states: states as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        let mut expected = vec![f64::NAN; states];
        set_level(0.37, &mut expected);
        Ok(absolute_error(&level.read()?, &expected))
    })
}

fn start_case(states: usize, len: usize) -> Case {
    Case::new(format!("start_state {states}×{len}"), 0, 0.0, move |gpu| {
        let mut expected = vec![f32::NAN; states * len];
        for (state, x) in expected.chunks_mut(len).enumerate() {
            start_state(SEED, key(state), x, &mut 1);
        }
        let keys = keys(gpu, states)?;
        let (x, frozen) = (Array::unset(gpu, states * len)?, Array::<u32>::unset(gpu, states)?);
        let args = StartStateArgs {
            keys: keys.cast(),
            x: x.global(),
            frozen: frozen.global(),
            seed: SEED,
            states: states as u32,
            len: len as u32,
        };
        launch(gpu, args)?;
        let flags = frozen.read()?.iter().map(|&f| f64::from(f)).sum::<f64>();
        Ok(absolute_error(&x.read()?, &expected) + flags)
    })
}

fn gamma_case(states: usize, len: usize, adaptive: bool) -> Case {
    let rule = if adaptive { "adaptive" } else { "constant" };
    // Sums of positive terms in another order.
    Case::new(format!("gamma {rule} {states}×{len}"), 0, 1e-14, move |gpu| {
        let (prior, mut likelihood) = (normals(20, states * len), normals(21, states * len));
        likelihood[..len].fill(0.0);
        let per_state = prior.chunks(len).zip(likelihood.chunks(len));
        let expected: Vec<f64> = per_state.map(|(p, l)| gamma(p, l, 0.3, adaptive)).collect();
        let (prior, likelihood) = (Array::new(gpu, &prior)?, Array::new(gpu, &likelihood)?);
        let result = Array::unset(gpu, states)?;
        let args = GammaArgs {
            prior: prior.global(),
            likelihood: likelihood.global(),
            gamma: result.global(),
            factor: 0.3,
            adaptive: u32::from(adaptive),
            states: states as u32,
            len: len as u32,
            unused: 0,
        };
        launch(gpu, args)?;
        Ok(relative_error(&result.read()?, &expected))
    })
}

/// The last state is frozen before the step and the one before it becomes infinite in it: both keep their x. A velocity
/// that must not be read is not a number.
fn langevin_case(states: usize, len: usize, with_likelihood: bool, momentum: Option<f64>) -> Case {
    let what = if with_likelihood { "with" } else { "without" };
    let moving = momentum.map_or_else(String::new, |momentum| format!(", momentum {momentum}"));
    Case::new(
        format!("langevin {states}×{len} {what} likelihood{moving}"),
        0,
        0.0,
        move |gpu| {
            let step = StepRecord {
                beta: 0.4,
                alpha: 3.3e-5,
                noise: 0.004,
                momentum: momentum.unwrap_or(0.0),
                index: 17,
            };
            let velocity = match momentum {
                Some(0.0) | None => vec![f32::NAN; states * len],
                Some(_) => normals(21, states * len),
            };
            let (x, mut prior) = (uniforms(22, states * len), normals(23, states * len));
            let likelihood = normals(24, states * len);
            let gamma: Vec<f64> = (0..states).map(|s| 0.1 + s as f64).collect();
            let mut frozen = vec![0u32; states];
            if states > 1 {
                frozen[states - 1] = 5;
                prior[(states - 1) * len - 1] = f32::INFINITY;
            }
            let (mut expected, mut expected_frozen) = (x.clone(), frozen.clone());
            let mut expected_velocity = velocity.clone();
            let moving = expected_velocity.chunks_mut(len);
            for ((state, x), velocity) in expected.chunks_mut(len).enumerate().zip(moving) {
                let at = state * len..(state + 1) * len;
                let likelihood = with_likelihood.then(|| (&likelihood[at.clone()], gamma[state]));
                langevin(
                    key(state).stream(SEED, Domain::Noise, step.index as u32),
                    step,
                    &prior[at],
                    likelihood,
                    x,
                    momentum.map(|_| velocity),
                    &mut expected_frozen[state],
                    &mut vec![f32::NAN; len],
                );
            }
            let steps = Steps::new(gpu, step)?;
            let keys = keys(gpu, states)?;
            let (x, next) = (Array::new(gpu, &x)?, Array::unset(gpu, states * len)?);
            let (prior, likelihood) = (Array::new(gpu, &prior)?, Array::new(gpu, &likelihood)?);
            let (gamma, frozen) = (Array::new(gpu, &gamma)?, Array::new(gpu, &frozen)?);
            let velocity = Array::new(gpu, &velocity)?;
            let velocity_or_none = if momentum.is_some() {
                velocity.global()
            } else {
                Global::NONE
            };
            let propose = LangevinProposeArgs {
                steps: steps.table(),
                keys: keys.cast(),
                x: x.global(),
                prior: prior.global(),
                likelihood: if with_likelihood {
                    likelihood.global()
                } else {
                    Global::NONE
                },
                gamma: gamma.global(),
                velocity: velocity_or_none,
                frozen: frozen.global(),
                next: next.global(),
                seed: SEED,
                states: states as u32,
                len: len as u32,
            };
            let accept = LangevinAcceptArgs {
                next: next.global(),
                frozen: frozen.global(),
                x: x.global(),
                velocity: velocity_or_none,
                states: states as u32,
                len: len as u32,
            };
            assert_eq!(propose.launch().grid[1] as usize, states);
            launch(gpu, propose)?;
            launch(gpu, accept)?;
            let moved = bits(&velocity.read()?) == bits(&expected_velocity);
            let wrong_velocity = if moved { 0.0 } else { f64::INFINITY };
            Ok(absolute_error(&x.read()?, &expected)
                + absolute_error(&frozen.read()?, &expected_frozen)
                + wrong_velocity)
        },
    )
}

/// Values as words: equal where they are not numbers, too.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The last state is frozen, and the score of the one before it is not finite.
fn denoise_case(states: usize, len: usize) -> Case {
    Case::new(format!("denoise {states}×{len}"), 0, 0.0, move |gpu| {
        let (x, mut prior) = (uniforms(25, states * len), normals(26, states * len));
        let mut frozen = vec![0u32; states];
        if states > 1 {
            frozen[states - 1] = 5;
            prior[(states - 1) * len - 1] = f32::NAN;
        }
        let mut expected = x.clone();
        for (state, x) in expected.chunks_mut(len).enumerate() {
            denoise(
                levels(states)[state],
                &prior[state * len..(state + 1) * len],
                frozen[state],
                x,
            );
        }
        let level = Array::new(gpu, &levels(states))?;
        let (x, prior, frozen) = (
            Array::new(gpu, &x)?,
            Array::new(gpu, &prior)?,
            Array::new(gpu, &frozen)?,
        );
        let args = DenoiseArgs {
            level: level.global(),
            prior: prior.global(),
            frozen: frozen.global(),
            x: x.global(),
            states: states as u32,
            len: len as u32,
        };
        launch(gpu, args)?;
        Ok(absolute_error(&x.read()?, &expected))
    })
}

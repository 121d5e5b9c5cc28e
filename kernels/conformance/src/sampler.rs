//! The ops of the Langevin sampler.

use crate::values::{normals, uniforms};
use crate::{Array, Case, Gpu, absolute_error, launch, relative_error};
use qcs_kernels::global::Global;
use qcs_kernels::launch::Arguments;
use qcs_kernels::sampler::StateKey;
use qcs_kernels::sampler::denoise::{DenoiseArgs, denoise};
use qcs_kernels::sampler::gamma::{GammaArgs, gamma};
use qcs_kernels::sampler::langevin::{LangevinAcceptArgs, LangevinProposeArgs, langevin};
use qcs_kernels::sampler::start_state::{StartStateArgs, start_state};
use qcs_kernels::sampler::step::{AdvanceStepArgs, Schedule, StepRecord};

const SEED: u64 = 0x0123_4567_89ab_cdef;

/// States and their length: the images of the three configurations (or a part), odd ones.
const SHAPES: [(usize, usize); 5] = [(1, 784), (5, 3072), (3, 37), (2, 1), (1, 1026)];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![advance_case()];
    for (states, len) in SHAPES {
        cases.extend([
            start_case(states, len),
            gamma_case(states, len, true),
            gamma_case(states, len, false),
            langevin_case(states, len, true),
            langevin_case(states, len, false),
            denoise_case(states, len),
        ]);
    }
    cases
}

/// A schedule of three records on the device; the cursor stands on the second, the others would give other numbers.
pub struct Steps<'a> {
    records: Array<'a, f64>,
    cursor: Array<'a, u32>,
}

impl<'a> Steps<'a> {
    pub fn new(gpu: &'a dyn Gpu, beta: f64, alpha: f64, index: u32) -> Result<Self, String> {
        let mut records = [f64::NAN; 9];
        records[3..6].copy_from_slice(&[beta, alpha, f64::from_bits(u64::from(index))]);
        Ok(Self {
            records: Array::new(gpu, &records)?,
            cursor: Array::new(gpu, &[1])?,
        })
    }

    pub fn schedule(&self) -> Schedule {
        Schedule {
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
        Ok(f64::from(cursor.read()?[0]) - 42.0)
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

/// The last state is frozen before the step and the one before it becomes infinite in it: both keep their x.
fn langevin_case(states: usize, len: usize, with_likelihood: bool) -> Case {
    let what = if with_likelihood { "with" } else { "without" };
    Case::new(
        format!("langevin {states}×{len} {what} likelihood"),
        0,
        0.0,
        move |gpu| {
            let step = StepRecord {
                beta: 0.4,
                alpha: 3.3e-5,
                index: 17,
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
            for (state, x) in expected.chunks_mut(len).enumerate() {
                let at = state * len..(state + 1) * len;
                let likelihood = with_likelihood.then(|| (&likelihood[at.clone()], gamma[state]));
                langevin(
                    SEED,
                    key(state),
                    step,
                    &prior[at],
                    likelihood,
                    x,
                    &mut expected_frozen[state],
                );
            }
            let steps = Steps::new(gpu, step.beta, step.alpha, step.index as u32)?;
            let keys = keys(gpu, states)?;
            let (x, next) = (Array::new(gpu, &x)?, Array::unset(gpu, states * len)?);
            let (prior, likelihood) = (Array::new(gpu, &prior)?, Array::new(gpu, &likelihood)?);
            let (gamma, frozen) = (Array::new(gpu, &gamma)?, Array::new(gpu, &frozen)?);
            let propose = LangevinProposeArgs {
                schedule: steps.schedule(),
                keys: keys.cast(),
                x: x.global(),
                prior: prior.global(),
                likelihood: if with_likelihood {
                    likelihood.global()
                } else {
                    Global::NONE
                },
                gamma: gamma.global(),
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
                states: states as u32,
                len: len as u32,
            };
            assert_eq!(propose.launch().grid[1] as usize, states);
            launch(gpu, propose)?;
            launch(gpu, accept)?;
            Ok(absolute_error(&x.read()?, &expected) + absolute_error(&frozen.read()?, &expected_frozen))
        },
    )
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
            denoise(0.01, &prior[state * len..(state + 1) * len], frozen[state], x);
        }
        let steps = Steps::new(gpu, 0.01, 0.0, 0)?;
        let (x, prior, frozen) = (
            Array::new(gpu, &x)?,
            Array::new(gpu, &prior)?,
            Array::new(gpu, &frozen)?,
        );
        let args = DenoiseArgs {
            schedule: steps.schedule(),
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

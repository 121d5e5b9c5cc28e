//! Turbo's steps between EP and the denoiser: the kernels' twins, state by state.

use qcs_kernels::turbo::Scalars;
use qcs_kernels::turbo::turbo_denoise::{Denoised, Limits, turbo_denoise};
use qcs_kernels::turbo::turbo_draw::{Levels, turbo_draw, turbo_draw_start};
use qcs_kernels::turbo::turbo_filter::turbo_filter;
use qcs_kernels::turbo::turbo_start::turbo_start;
use qcs_kernels::turbo::turbo_step::{Moving, turbo_step};

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::{Step, TurboOp};

/// A state's part of a tensor.
fn part<T>(values: &[T], states: usize, state: usize) -> &[T] {
    let len = values.len() / states;
    &values[state * len..(state + 1) * len]
}

fn part_mut<T>(values: &mut [T], states: usize, state: usize) -> &mut [T] {
    let len = values.len() / states;
    &mut values[state * len..(state + 1) * len]
}

/// A state's numbers in memory.
fn scalars(values: &[f64], state: usize) -> Scalars {
    let at = state * Scalars::LEN;
    Scalars::of(
        values[at..at + Scalars::LEN]
            .try_into()
            .expect("the slice has that length"),
    )
}

fn keep(values: &mut [f64], state: usize, scalars: Scalars) {
    part_mut(values, values.len() / Scalars::LEN, state).copy_from_slice(&scalars.values());
}

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn turbo(&mut self, op: &TurboOp, step: Step) {
        let (plan, states, seed) = (self.plan, self.plan.batch, self.constants.seed);
        let at = Operands {
            plan,
            arena: &self.arena,
        };
        let key = |state: usize| self.states[state].key();
        match *op {
            TurboOp::Start {
                mean,
                deviation,
                steps,
                mu,
                level,
                sites,
                scalars,
                done,
            } => {
                let (mean, steps) = (self.param(mean), at.read::<u32>(steps));
                let (mu, level, numbers) = (at.write(mu), at.write::<f64>(level), at.write::<f64>(scalars));
                let (z, h_g, tau_g) = (at.write(sites.z), at.write(sites.h_g), at.write::<f64>(sites.tau_g));
                let (done, count) = (at.write::<u32>(done), at.write::<u32>(sites.count));
                for state in (0..states).filter(|&state| steps[state] == 0) {
                    let mu = part_mut(mu, states, state);
                    let (z, h_g) = (part_mut(z, states, state), part_mut(h_g, states, state));
                    let scalars;
                    (level[state], tau_g[state], scalars) = turbo_start(mean, deviation, mu, z, h_g);
                    keep(numbers, state, scalars);
                    (done[state], count[state]) = (0, 0);
                }
            }
            TurboOp::Filter {
                level,
                input,
                tau_g,
                output,
                filter,
                pixels,
            } => {
                let (eigenvalues, sigma2) = (self.eigenvalues(), self.problem().sigma2_floored());
                let (level, input, tau_g) = (at.read::<f64>(level), at.read(input), at.read::<f64>(tau_g));
                let (output, filter) = (at.write(output), at.write::<f64>(filter));
                for state in 0..states {
                    let (input, output) = (part(input, states, state), part_mut(output, states, state));
                    let (level, tau_g) = (level[state], tau_g[state]);
                    let of = turbo_filter(eigenvalues, sigma2, level, pixels, input, tau_g, output);
                    filter[3 * state..3 * state + 3].copy_from_slice(&of);
                }
            }
            TurboOp::Step {
                steps,
                done,
                mu,
                score,
                filter,
                r,
                s,
                velocity,
                f,
                scalars: numbers,
                bounds,
            } => {
                let (steps, done) = (at.read::<u32>(steps), at.read::<u32>(done));
                let (mu, score, filter) = (at.read(mu), at.read(score), at.read::<f64>(filter));
                let (r, s, numbers) = (at.write(r), at.write::<f64>(s), at.write::<f64>(numbers));
                let (velocity, f) = (at.write(velocity), at.write(f));
                for state in (0..states).filter(|&state| done[state] == 0) {
                    let mut scalars = scalars(numbers, state);
                    let filter = [filter[3 * state], filter[3 * state + 1], filter[3 * state + 2]];
                    let moving = Moving {
                        r: part_mut(r, states, state),
                        s: &mut s[state],
                        velocity: part_mut(velocity, states, state),
                        f: part_mut(f, states, state),
                        scalars: &mut scalars,
                    };
                    let (mu, score) = (part(mu, states, state), part(score, states, state));
                    turbo_step(steps[state], mu, score, filter, bounds, moving);
                    keep(numbers, state, scalars);
                }
            }
            TurboOp::Denoise {
                log_levels,
                log_ratios,
                r,
                s,
                prior,
                d,
                mu,
                level,
                scalars: numbers,
                steps,
                done,
                tolerance,
                most,
                ..
            } => {
                let table = (self.param(log_levels), self.param(log_ratios));
                let (r, s, prior) = (at.read(r), at.read::<f64>(s), at.read(prior));
                let (d, mu, level) = (at.write(d), at.write(mu), at.write::<f64>(level));
                let (numbers, steps, done) = (at.write::<f64>(numbers), at.write::<u32>(steps), at.write::<u32>(done));
                let limits = Limits { tolerance, steps: most };
                for state in 0..states {
                    if done[state] != 0 {
                        continue;
                    }
                    let mut scalars = scalars(numbers, state);
                    let denoised = Denoised {
                        d: part_mut(d, states, state),
                        mu: part_mut(mu, states, state),
                        level: &mut level[state],
                        scalars: &mut scalars,
                    };
                    let (r, prior) = (part(r, states, state), part(prior, states, state));
                    done[state] = turbo_denoise(table, r, s[state], prior, steps[state], limits, denoised);
                    keep(numbers, state, scalars);
                    steps[state] += 1;
                }
            }
            TurboOp::DrawStart {
                r,
                s,
                x,
                level,
                ratio,
                done,
                spread,
                end,
                count,
            } => {
                let levels = Levels { spread, end, count };
                let (r, s, x) = (at.read(r), at.read::<f64>(s), at.write(x));
                let (level, ratio) = (at.write::<f64>(level), at.write::<f64>(ratio));
                at.write::<u32>(done).fill(0);
                for state in 0..states {
                    let (r, x) = (part(r, states, state), part_mut(x, states, state));
                    (level[state], ratio[state]) = turbo_draw_start(seed, key(state), r, s[state], levels, x);
                }
            }
            TurboOp::Draw {
                prior,
                ratio,
                x,
                level,
                count,
            } => {
                let (prior, ratio) = (at.read(prior), at.read::<f64>(ratio));
                let (x, level) = (at.write(x), at.write::<f64>(level));
                for state in 0..states {
                    let (prior, x) = (part(prior, states, state), part_mut(x, states, state));
                    let from = (level[state], ratio[state]);
                    level[state] = turbo_draw(seed, key(state), (step.index, count), prior, from, x);
                }
            }
        }
    }
}

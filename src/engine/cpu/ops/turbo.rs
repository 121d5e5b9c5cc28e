//! Turbo's steps between EP and the denoiser: the kernels' twins, state by state.

use qcs_kernels::turbo::Scalars;
use qcs_kernels::turbo::turbo_denoise::{Denoised, Limits, turbo_denoise};
use qcs_kernels::turbo::turbo_draw::{Levels, turbo_draw, turbo_draw_start};
use qcs_kernels::turbo::turbo_filter::turbo_filter;
use qcs_kernels::turbo::turbo_scale::{Known, Scaled, turbo_scale};
use qcs_kernels::turbo::turbo_start::turbo_start;
use qcs_kernels::turbo::turbo_step::{Moving, turbo_step};

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::plan::{
    Step, TurboDenoise, TurboDraw, TurboDrawStart, TurboFilter, TurboOp, TurboScale, TurboStart, TurboStep,
};

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
    pub(in crate::engine::cpu) fn turbo(&self, op: &TurboOp, step: Step) {
        match *op {
            TurboOp::Start(op) => self.turbo_start(op),
            TurboOp::Filter(op) => self.turbo_filter(op),
            TurboOp::Scale(op) => self.turbo_scale(op),
            TurboOp::Step(op) => self.turbo_step(op),
            TurboOp::Denoise(op) => self.turbo_denoise(op),
            TurboOp::DrawStart(op) => self.turbo_draw_start(op),
            TurboOp::Draw(op) => self.turbo_draw(op, step),
        }
    }

    fn turbo_start(&self, op: TurboStart) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (mean, steps) = (self.param(op.mean), at.read::<u32>(op.steps));
        let (mu, level, numbers) = (at.write(op.mu), at.write::<f64>(op.level), at.write::<f64>(op.scalars));
        let (z, h_g, tau_g) = (
            at.write(op.sites.z),
            at.write(op.sites.h_g),
            at.write::<f64>(op.sites.tau_g),
        );
        let (done, count) = (at.write::<u32>(op.done), at.write::<u32>(op.sites.count));
        for state in (0..states).filter(|&state| steps[state] == 0) {
            let mu = part_mut(mu, states, state);
            let (z, h_g) = (part_mut(z, states, state), part_mut(h_g, states, state));
            let scalars;
            (level[state], tau_g[state], scalars) = turbo_start(mean, op.deviation, mu, z, h_g);
            keep(numbers, state, scalars);
            (done[state], count[state]) = (0, 0);
        }
    }

    fn turbo_filter(&self, op: TurboFilter) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (eigenvalues, sigma2) = (self.eigenvalues(), self.problem().sigma2_floored());
        let (sqrt_nu, input, tau_g) = (at.read::<f64>(op.level), at.read(op.input), at.read::<f64>(op.tau_g));
        let (output, filter) = (at.write(op.output), at.write::<f64>(op.filter));
        for state in 0..states {
            let (input, output) = (part(input, states, state), part_mut(output, states, state));
            let (sqrt_nu, tau_g) = (sqrt_nu[state], tau_g[state]);
            let of = turbo_filter(eigenvalues, sigma2, sqrt_nu, op.pixels, input, tau_g, output);
            filter[3 * state..3 * state + 3].copy_from_slice(&of);
        }
    }

    fn turbo_scale(&self, op: TurboScale) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let known = Known {
            mean: op.peak.0,
            spread: op.peak.1,
            sigma2: self.problem().sigma2_floored(),
            row2: self.problem().mean_diag(),
        };
        let (steps, done) = (at.read::<u32>(op.steps), at.read::<u32>(op.done));
        let (level, d) = (at.read::<f64>(op.level), at.read(op.d));
        let (z, mu, r) = (at.write(op.z), at.write(op.mu), at.write(op.r));
        let numbers = at.write::<f64>(op.scalars);
        for state in (0..states).filter(|&state| done[state] == 0) {
            let cells = (part(&self.lower, states, state), part(&self.upper, states, state));
            let mut scalars = scalars(numbers, state);
            let scaled = Scaled {
                z: part_mut(z, states, state),
                mu: part_mut(mu, states, state),
                r: part_mut(r, states, state),
                scalars: &mut scalars,
            };
            turbo_scale(steps[state], known, cells, level[state], part(d, states, state), scaled);
            keep(numbers, state, scalars);
        }
    }

    fn turbo_step(&self, op: TurboStep) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (steps, done) = (at.read::<u32>(op.steps), at.read::<u32>(op.done));
        let (mu, score, filter) = (at.read(op.mu), at.read(op.score), at.read::<f64>(op.filter));
        let (r, s, numbers) = (at.write(op.r), at.write::<f64>(op.s), at.write::<f64>(op.scalars));
        let (velocity, f) = (at.write(op.velocity), at.write(op.f));
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
            turbo_step(steps[state], mu, score, filter, op.bounds, moving);
            keep(numbers, state, scalars);
        }
    }

    fn turbo_denoise(&self, op: TurboDenoise) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let table = (self.param(op.log_levels), self.param(op.log_ratios));
        let (r, s, prior) = (at.read(op.r), at.read::<f64>(op.s), at.read(op.prior));
        let (d, mu, level) = (at.write(op.d), at.write(op.mu), at.write::<f64>(op.level));
        let (steps, done) = (at.write::<u32>(op.steps), at.write::<u32>(op.done));
        let numbers = at.write::<f64>(op.scalars);
        let limits = Limits {
            tolerance: op.tolerance,
            steps: op.most,
        };
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

    fn turbo_draw_start(&self, op: TurboDrawStart) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let levels = Levels {
            spread: op.spread,
            end: op.end,
            count: op.count,
        };
        let (r, s, x) = (at.read(op.r), at.read::<f64>(op.s), at.write(op.x));
        let (level, ratio) = (at.write::<f64>(op.level), at.write::<f64>(op.ratio));
        at.write::<u32>(op.done).fill(0);
        for state in 0..states {
            let (r, x) = (part(r, states, state), part_mut(x, states, state));
            let key = self.states[state].key();
            (level[state], ratio[state]) = turbo_draw_start(self.constants.seed, key, r, s[state], levels, x);
        }
    }

    fn turbo_draw(&self, op: TurboDraw, step: Step) {
        let (at, states) = (Operands::new(self.plan, &self.arena), self.plan.batch);
        let (prior, ratio) = (at.read(op.prior), at.read::<f64>(op.ratio));
        let (x, level) = (at.write(op.x), at.write::<f64>(op.level));
        for state in 0..states {
            let (prior, x) = (part(prior, states, state), part_mut(x, states, state));
            let (key, from) = (self.states[state].key(), (level[state], ratio[state]));
            level[state] = turbo_draw(self.constants.seed, key, (step.index, op.count), prior, from, x);
        }
    }
}

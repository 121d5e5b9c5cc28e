//! Expectation propagation over a batch: a task per state, each the twin of its kernel.
//!
//! The moments take a fused multiply-add in most of their steps, so the twins of the loops over cells are compiled with the
//! instruction set of the machine; the bits are the same without it, only slower.

use std::ops::Range;

use qcs_kernels::likelihood::diag_gradient::diag_gradient;
use qcs_kernels::likelihood::ep_carry::ep_carry;
use qcs_kernels::likelihood::ep_damp::ep_damp;
use qcs_kernels::likelihood::ep_gradient::ep_gradient;
use qcs_kernels::likelihood::ep_moments::ep_moments;
use qcs_kernels::likelihood::ep_reset::ep_reset;
use qcs_kernels::likelihood::ep_separate::ep_separate;
use qcs_kernels::likelihood::ep_settle::ep_settle;
use qcs_kernels::likelihood::ep_start::ep_start;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, dispatch};
use crate::plan::{EpCarry, EpDamp, EpMoments, EpSeparate, EpSettle, EpStart, LikelihoodOp, Sites, TensorId};

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn likelihood(&mut self, op: &LikelihoodOp) {
        match *op {
            LikelihoodOp::EpStart {
                level,
                h_f,
                tau_f,
                start,
            } => self.ep_start(level, h_f, tau_f, start),
            LikelihoodOp::EpMoments(op) => self.ep_moments(op),
            LikelihoodOp::EpReset { sites } => self.ep_reset(sites),
            LikelihoodOp::EpCarry(op) => self.ep_carry(op),
            LikelihoodOp::EpDamp(op) => self.ep_damp(op),
            LikelihoodOp::EpSettle(op) => self.ep_settle(op),
            LikelihoodOp::EpSeparate(op) => self.ep_separate(op),
            LikelihoodOp::EpGradient { z, h_f, tau_f, g } => self.ep_gradient(z, h_f, tau_f, g),
            LikelihoodOp::DiagGradient { level, z, g } => self.diag_gradient(level, z, g),
        }
    }

    fn measurements(&self) -> usize {
        self.problem().a().rows()
    }

    fn ep_start(&self, level: TensorId, h_f: TensorId, tau_f: TensorId, start: EpStart) {
        let (at, problem) = (Operands::new(self.plan, &self.arena), self.problem());
        let matched = (start == EpStart::Matched).then(|| (problem.sigma2_floored(), problem.mean_diag()));
        let states = at.write::<f64>(h_f).chunks_exact_mut(self.measurements());
        for ((h_f, tau_f), &beta) in states.zip(at.write(tau_f)).zip(at.read::<f64>(level)) {
            ep_start(beta, matched, h_f, tau_f);
        }
    }

    fn ep_moments(&mut self, op: EpMoments) {
        let (at, isa, m) = (Operands::new(self.plan, &self.arena), self.isa, self.measurements());
        let (all_lower, all_upper) = (&self.lower, &self.upper);
        let live = op.live.map(|live| at.read::<u32>(live));
        let (all_z, all_h_f, all_tau_f) = (at.read::<f64>(op.z), at.read::<f64>(op.h_f), at.read::<f64>(op.tau_f));
        let messages = ((at.write(op.h_g), m), (at.write(op.tau_g), 1));
        self.threads.for_each2(messages.0, messages.1, &|state, h_g, tau_g| {
            if live.is_some_and(|live| live[state] == 0) {
                return;
            }
            let own = of_state(state, m);
            let (lower, upper) = (&all_lower[own.clone()], &all_upper[own.clone()]);
            let (z, h_f, tau_f) = (&all_z[own.clone()], &all_h_f[own], all_tau_f[state]);
            let tau_g = &mut tau_g[0];
            dispatch!(isa, moments(
                lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, h_g: &mut [f64], tau_g: &mut f64
            ));
        });
    }

    fn ep_reset(&self, sites: Sites) {
        let (at, m) = (Operands::new(self.plan, &self.arena), self.measurements());
        let (z, h_g) = (at.write::<f64>(sites.z), at.write::<f64>(sites.h_g));
        let vectors = z.chunks_exact_mut(m).zip(h_g.chunks_exact_mut(m));
        let numbers = at
            .write::<f64>(sites.tau_g)
            .iter_mut()
            .zip(at.write::<u32>(sites.count));
        for ((site_z, h_g), (tau_g, count)) in vectors.zip(numbers) {
            (*tau_g, *count) = ep_reset(site_z, h_g);
        }
    }

    fn ep_carry(&self, op: EpCarry) {
        let (at, m) = (Operands::new(self.plan, &self.arena), self.measurements());
        let (resting, z) = (at.read::<u32>(op.resting), at.read::<f64>(op.z));
        let (live, pace) = (at.write::<u32>(op.live), at.write::<f64>(op.pace));
        let (site_z, h_g) = (at.write::<f64>(op.sites.z), at.write::<f64>(op.sites.h_g));
        let tau_g = at.read::<f64>(op.sites.tau_g);
        let sites = site_z.chunks_mut(m).zip(h_g.chunks_mut(m));
        for (state, (site_z, h_g)) in sites.enumerate() {
            let (lives, paced) = ep_carry(resting[state], &z[of_state(state, m)], site_z, h_g, tau_g[state]);
            live[state] = lives;
            pace[of_state(state, 2)].copy_from_slice(&paced);
        }
    }

    fn ep_damp(&self, op: EpDamp) {
        let (at, m) = (Operands::new(self.plan, &self.arena), self.measurements());
        let (live, pace) = (at.read::<u32>(op.live), at.read::<f64>(op.pace));
        let (new_h_g, new_tau_g) = (at.read::<f64>(op.new_h_g), at.read::<f64>(op.new_tau_g));
        let (h_g, tau_g) = (at.write::<f64>(op.sites.h_g), at.write::<f64>(op.sites.tau_g));
        for (state, h_g) in h_g.chunks_mut(m).enumerate().filter(|(state, _)| live[*state] != 0) {
            let new = &new_h_g[of_state(state, m)];
            ep_damp(pace[2 * state], new, new_tau_g[state], h_g, &mut tau_g[state]);
        }
    }

    fn ep_settle(&self, op: EpSettle) {
        let (at, m) = (Operands::new(self.plan, &self.arena), self.measurements());
        let (new_h_f, new_tau_f) = (at.read::<f64>(op.new_h_f), at.read::<f64>(op.new_tau_f));
        let (h_g, h_f) = (at.read::<f64>(op.sites.h_g), at.write::<f64>(op.h_f));
        let (tau_f, pace) = (at.write::<f64>(op.tau_f), at.write::<f64>(op.pace));
        let (live, count) = (at.write::<u32>(op.live), at.write::<u32>(op.sites.count));
        for (state, h_f) in h_f.chunks_mut(m).enumerate() {
            if live[state] == 0 {
                continue;
            }
            let mut paced = [pace[2 * state], pace[2 * state + 1]];
            let (new, h_g) = (&new_h_f[of_state(state, m)], &h_g[of_state(state, m)]);
            let (new_tau_f, tau_f) = (new_tau_f[state], &mut tau_f[state]);
            let goes_on = ep_settle(new, new_tau_f, h_g, h_f, tau_f, &mut paced, op.tolerance);
            pace[of_state(state, 2)].copy_from_slice(&paced);
            live[state] = u32::from(goes_on);
            count[state] += 1;
        }
    }

    fn ep_separate(&mut self, op: EpSeparate) {
        let (at, m) = (Operands::new(self.plan, &self.arena), self.measurements());
        let (level, input, tau_g) = (
            at.read::<f64>(op.level),
            at.read::<f64>(op.input),
            at.read::<f64>(op.tau_g),
        );
        let (eigenvalues, sigma2) = (self.eigenvalues(), self.problem().sigma2_floored());
        let messages = ((at.write(op.output), m), (at.write(op.tau_f), 1));
        self.threads.for_each2(messages.0, messages.1, &|state, output, tau_f| {
            let input = &input[of_state(state, m)];
            tau_f[0] = ep_separate(sigma2, level[state], eigenvalues, input, tau_g[state], output);
        });
    }

    fn ep_gradient(&mut self, z: TensorId, h_f: TensorId, tau_f: TensorId, g: TensorId) {
        let (at, isa, m) = (Operands::new(self.plan, &self.arena), self.isa, self.measurements());
        let (all_lower, all_upper) = (&self.lower, &self.upper);
        let (all_z, all_h_f, all_tau_f) = (at.read::<f64>(z), at.read::<f64>(h_f), at.read::<f64>(tau_f));
        self.threads.for_each(at.write(g), m, &|state, g| {
            let own = of_state(state, m);
            let (lower, upper) = (&all_lower[own.clone()], &all_upper[own.clone()]);
            let (z, h_f, tau_f) = (&all_z[own.clone()], &all_h_f[own], all_tau_f[state]);
            dispatch!(isa, gradient(
                lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]
            ));
        });
    }

    fn diag_gradient(&mut self, level: TensorId, z: TensorId, g: TensorId) {
        let (at, isa, m) = (Operands::new(self.plan, &self.arena), self.isa, self.measurements());
        let (all_lower, all_upper) = (&self.lower, &self.upper);
        let (levels, all_z) = (at.read::<f64>(level), at.read::<f64>(z));
        let (diag, sigma2) = (self.problem().diag(), self.problem().sigma2_floored());
        self.threads.for_each(at.write(g), m, &|state, g| {
            let own = of_state(state, m);
            let (lower, upper) = (&all_lower[own.clone()], &all_upper[own.clone()]);
            let (z, beta) = (&all_z[own], levels[state]);
            dispatch!(isa, gradient_of_diag(
                sigma2: f64, beta: f64, diag: &[f64], lower: &[f64], upper: &[f64], z: &[f64], g: &mut [f64]
            ));
        });
    }
}

/// Where a state's values stand, `len` of each.
fn of_state(state: usize, len: usize) -> Range<usize> {
    state * len..(state + 1) * len
}

#[inline(always)]
fn moments<F: F32x8, D: F64x4>(
    lower: &[f64],
    upper: &[f64],
    z: &[f64],
    h_f: &[f64],
    tau_f: f64,
    h_g: &mut [f64],
    tau_g: &mut f64,
) {
    *tau_g = ep_moments(lower, upper, z, h_f, tau_f, h_g);
}

#[inline(always)]
fn gradient<F: F32x8, D: F64x4>(lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]) {
    ep_gradient(lower, upper, z, h_f, tau_f, g);
}

#[inline(always)]
fn gradient_of_diag<F: F32x8, D: F64x4>(
    sigma2: f64,
    beta: f64,
    diag: &[f64],
    lower: &[f64],
    upper: &[f64],
    z: &[f64],
    g: &mut [f64],
) {
    diag_gradient(sigma2, beta, diag, lower, upper, z, g);
}

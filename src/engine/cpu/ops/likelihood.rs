//! Expectation propagation over a batch: a task per state, each the twin of its kernel.
//!
//! The moments take a fused multiply-add in most of their steps, so the twins of the loops over cells are compiled with the
//! instruction set of the machine; the bits are the same without it, only slower.

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
use crate::plan::{EpStart, LikelihoodOp};

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn likelihood(&mut self, op: &LikelihoodOp) {
        let (plan, isa) = (self.plan, self.isa);
        let at = Operands {
            plan,
            arena: &self.arena,
        };
        let problem = self.problem();
        let (m, sigma2) = (problem.a().rows(), problem.sigma2_floored());
        let (all_lower, all_upper) = (&self.lower, &self.upper);
        match *op {
            LikelihoodOp::EpStart {
                level,
                h_f,
                tau_f,
                start,
            } => {
                let matched = (start == EpStart::Matched).then(|| (sigma2, problem.mean_diag()));
                let states = at.write::<f64>(h_f).chunks_exact_mut(m).zip(at.write(tau_f));
                for ((h_f, tau_f), &beta) in states.zip(at.read::<f64>(level)) {
                    ep_start(beta, matched, h_f, tau_f);
                }
            }
            LikelihoodOp::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live,
            } => {
                let live = live.map(|live| at.read::<u32>(live));
                let (all_z, all_h_f, all_tau_f) = (at.read::<f64>(z), at.read::<f64>(h_f), at.read::<f64>(tau_f));
                let messages = ((at.write(h_g), m), (at.write(tau_g), 1));
                self.threads.for_each2(messages.0, messages.1, &|state, h_g, tau_g| {
                    if live.is_some_and(|live| live[state] == 0) {
                            return;
                        }
                    let at = state * m..(state + 1) * m;
                    let (lower, upper) = (&all_lower[at.clone()], &all_upper[at.clone()]);
                    let (z, h_f, tau_f) = (&all_z[at.clone()], &all_h_f[at], all_tau_f[state]);
                    let tau_g = &mut tau_g[0];
                    dispatch!(isa, moments(lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, h_g: &mut [f64], tau_g: &mut f64));
                });
            }
            LikelihoodOp::EpReset { sites } => {
                let vectors = at
                    .write::<f64>(sites.z)
                    .chunks_exact_mut(m)
                    .zip(at.write::<f64>(sites.h_g).chunks_exact_mut(m));
                let numbers = at
                    .write::<f64>(sites.tau_g)
                    .iter_mut()
                    .zip(at.write::<u32>(sites.count));
                for ((site_z, h_g), (tau_g, count)) in vectors.zip(numbers) {
                    (*tau_g, *count) = ep_reset(site_z, h_g);
                }
            }
            LikelihoodOp::EpCarry {
                resting,
                z,
                sites,
                live,
                pace,
            } => {
                let (resting, z, tau_g) = (at.read::<u32>(resting), at.read::<f64>(z), at.read::<f64>(sites.tau_g));
                let m = z.len() / resting.len();
                let (live, pace) = (at.write::<u32>(live), at.write::<f64>(pace));
                let sites = at
                    .write::<f64>(sites.z)
                    .chunks_mut(m)
                    .zip(at.write::<f64>(sites.h_g).chunks_mut(m));
                for (state, (site_z, h_g)) in sites.enumerate() {
                    let z = &z[state * m..(state + 1) * m];
                    let (lives, paced) = ep_carry(resting[state], z, site_z, h_g, tau_g[state]);
                    live[state] = lives;
                    pace[2 * state..2 * state + 2].copy_from_slice(&paced);
                }
            }
            LikelihoodOp::EpDamp {
                live,
                pace,
                new_h_g,
                new_tau_g,
                sites,
            } => {
                let (live, pace) = (at.read::<u32>(live), at.read::<f64>(pace));
                let (new_h_g, new_tau_g) = (at.read::<f64>(new_h_g), at.read::<f64>(new_tau_g));
                let (h_g, tau_g) = (at.write::<f64>(sites.h_g), at.write::<f64>(sites.tau_g));
                let m = h_g.len() / live.len();
                for (state, h_g) in h_g.chunks_mut(m).enumerate().filter(|(state, _)| live[*state] != 0) {
                    let new = &new_h_g[state * m..(state + 1) * m];
                    ep_damp(pace[2 * state], new, new_tau_g[state], h_g, &mut tau_g[state]);
                }
            }
            LikelihoodOp::EpSettle {
                new_h_f,
                new_tau_f,
                sites,
                h_f,
                tau_f,
                pace,
                live,
                tolerance,
            } => {
                let (new_h_f, new_tau_f) = (at.read::<f64>(new_h_f), at.read::<f64>(new_tau_f));
                let (h_g, h_f) = (at.read::<f64>(sites.h_g), at.write::<f64>(h_f));
                let (tau_f, pace) = (at.write::<f64>(tau_f), at.write::<f64>(pace));
                let (live, count) = (at.write::<u32>(live), at.write::<u32>(sites.count));
                let m = h_f.len() / live.len();
                for (state, h_f) in h_f.chunks_mut(m).enumerate() {
                    if live[state] == 0 {
                        continue;
                    }
                    let of = state * m..(state + 1) * m;
                    let mut paced = [pace[2 * state], pace[2 * state + 1]];
                    let (new, h_g, tau_f) = (&new_h_f[of.clone()], &h_g[of], &mut tau_f[state]);
                    let goes_on = ep_settle(new, new_tau_f[state], h_g, h_f, tau_f, &mut paced, tolerance);
                    pace[2 * state..2 * state + 2].copy_from_slice(&paced);
                    live[state] = u32::from(goes_on);
                    count[state] += 1;
                }
            }
            LikelihoodOp::EpSeparate {
                level,
                input,
                tau_g,
                output,
                tau_f,
            } => {
                let (level, input, tau_g) = (at.read::<f64>(level), at.read::<f64>(input), at.read::<f64>(tau_g));
                let eigenvalues = self.eigenvalues();
                let messages = ((at.write(output), m), (at.write(tau_f), 1));
                self.threads.for_each2(messages.0, messages.1, &|state, output, tau_f| {
                    let input = &input[state * m..(state + 1) * m];
                    tau_f[0] = ep_separate(sigma2, level[state], eigenvalues, input, tau_g[state], output);
                });
            }
            LikelihoodOp::EpGradient { z, h_f, tau_f, g } => {
                let (all_z, all_h_f, all_tau_f) = (at.read::<f64>(z), at.read::<f64>(h_f), at.read::<f64>(tau_f));
                self.threads.for_each(at.write(g), m, &|state, g| {
                    let at = state * m..(state + 1) * m;
                    let (lower, upper) = (&all_lower[at.clone()], &all_upper[at.clone()]);
                    let (z, h_f, tau_f) = (&all_z[at.clone()], &all_h_f[at], all_tau_f[state]);
                    dispatch!(isa, gradient(lower: &[f64], upper: &[f64], z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]));
                });
            }
            LikelihoodOp::DiagGradient { level, z, g } => {
                let (levels, all_z, diag) = (at.read::<f64>(level), at.read::<f64>(z), problem.diag());
                self.threads.for_each(at.write(g), m, &|state, g| {
                    let at = state * m..(state + 1) * m;
                    let (lower, upper) = (&all_lower[at.clone()], &all_upper[at.clone()]);
                    let (z, beta) = (&all_z[at], levels[state]);
                    dispatch!(isa, gradient_of_diag(sigma2: f64, beta: f64, diag: &[f64], lower: &[f64], upper: &[f64], z: &[f64], g: &mut [f64]));
                });
            }
        }
    }
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

//! Expectation propagation over a batch: vectors, scalars and reductions in f64, a task per state.
//!
//! The moments take a fused multiply-add in most of their steps, so the loops over cells are compiled with the
//! instruction set of the machine; the bits are the same without it, only slower.

use qcs_kernels::likelihood::ep_carry::ep_carry;
use qcs_kernels::likelihood::ep_damp::ep_damp;
use qcs_kernels::likelihood::ep_settle::ep_settle;
use qcs_kernels::truncated_normal;

use crate::engine::cpu::memory::Operands;
use crate::engine::cpu::session::CpuSession;
use crate::engine::cpu::simd::{F32x8, F64x4, Isa, dispatch};
use crate::engine::cpu::threads::Threads;
use crate::plan::{EpStart, LikelihoodOp};

impl CpuSession<'_> {
    pub(in crate::engine::cpu) fn likelihood(&mut self, op: &LikelihoodOp) {
        let (plan, isa, covariance) = (self.plan, self.isa, self.covariance());
        let at = Operands {
            plan,
            arena: &self.arena,
        };
        let cells = CellsRef {
            lower: &self.lower,
            upper: &self.upper,
        };
        match *op {
            LikelihoodOp::EpStart {
                level,
                h_f,
                tau_f,
                start: rule,
            } => start(at.read(level), rule, covariance, at.write(h_f), at.write(tau_f)),
            LikelihoodOp::EpMoments {
                z,
                h_f,
                tau_f,
                h_g,
                tau_g,
                live,
            } => {
                let (z, h_f, tau_f) = (at.read(z), at.read(h_f), at.read(tau_f));
                let (live, h_g, tau_g) = (live.map(|live| at.read(live)), at.write(h_g), at.write(tau_g));
                moments(self.threads, isa, cells, live, z, h_f, tau_f, h_g, tau_g);
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
                let (level, input, tau_g) = (at.read(level), at.read(input), at.read(tau_g));
                let (output, tau_f) = (at.write(output), at.write(tau_f));
                separate(self.threads, covariance, level, input, tau_g, output, tau_f);
            }
            LikelihoodOp::EpGradient { z, h_f, tau_f, g } => {
                let (z, h_f, tau_f) = (at.read(z), at.read(h_f), at.read(tau_f));
                gradient(self.threads, isa, cells, z, h_f, tau_f, at.write(g));
            }
            LikelihoodOp::DiagGradient { level, z, g } => {
                let (level, z) = (at.read(level), at.read(z));
                diag_gradient(self.threads, isa, cells, covariance, level, z, at.write(g));
            }
        }
    }
}

/// tau^G never falls below this: a negative precision is no message.
const TAU_G_FLOOR: f64 = 1e-6;

/// chi^a never falls below this: cells narrower than the float spacing have variance 0.
const CHI_FLOOR: f64 = 1e-300;

/// Cells of the bound states, `[states, M]` each.
#[derive(Clone, Copy)]
pub struct CellsRef<'a> {
    pub lower: &'a [f64],
    pub upper: &'a [f64],
}

impl<'a> CellsRef<'a> {
    fn part(&self, at: std::ops::Range<usize>) -> Self {
        Self {
            lower: &self.lower[at.clone()],
            upper: &self.upper[at],
        }
    }
}

/// What C_t⁻¹ = sigma²·I + beta²·A·Aᵀ is made of, beside the noise level beta of a state.
#[derive(Clone, Copy)]
pub struct Covariance<'a> {
    pub sigma2: f64,
    /// Eigenvalues of A·Aᵀ
    pub eigenvalues: &'a [f64],
    /// diag(A·Aᵀ)
    pub diag: &'a [f64],
}

/// The Gaussian N(h/tau, 1/tau) seen from a cell: z + n must lie in [lower, upper).
struct Message {
    /// sqrt(tau)
    s: f64,
}

impl Message {
    /// The cell's bounds l̃ and ũ in standard deviations from the mean.
    #[inline(always)]
    fn bounds(&self, z: f64, h: f64, lower: f64, upper: f64) -> (f64, f64) {
        let centre = -self.s * z - h / self.s;
        (centre + lower * self.s, centre + upper * self.s)
    }
}

fn start(level: &[f64], start: EpStart, covariance: Covariance<'_>, h_f: &mut [f64], tau_f: &mut [f64]) {
    h_f.fill(0.0);
    let mean = covariance.diag.iter().sum::<f64>() / covariance.diag.len() as f64;
    for (tau_f, beta) in tau_f.iter_mut().zip(level) {
        *tau_f = match start {
            EpStart::Unit => 1.0,
            EpStart::Matched => 1.0 / (covariance.sigma2 + beta * beta * mean),
        };
    }
}

/// m^a and chi^a of all cells, and the message to node b: h^G = m^a/chi^a − h^F, tau^G = 1/chi^a − tau^F.
#[allow(clippy::too_many_arguments)] // the operands of the op
fn moments(
    threads: &mut Threads,
    isa: Isa,
    cells: CellsRef<'_>,
    live: Option<&[u32]>,
    z: &[f64],
    h_f: &[f64],
    tau_f: &[f64],
    h_g: &mut [f64],
    tau_g: &mut [f64],
) {
    let m = z.len() / tau_f.len();
    threads.for_each2((h_g, m), (tau_g, 1), &|state, h_g, tau_g| {
        if live.is_some_and(|live| live[state] == 0) {
            return;
        }
        let at = state * m..(state + 1) * m;
        let (z, h_f, tau_f, cells) = (&z[at.clone()], &h_f[at.clone()], tau_f[state], cells.part(at));
        let mut variances = 0.0;
        let sum = &mut variances;
        dispatch!(isa, cell_moments(cells: CellsRef<'_>, z: &[f64], h_f: &[f64], tau_f: f64, h_g: &mut [f64], sum: &mut f64));
        let chi_a = (variances / m as f64).max(CHI_FLOOR) / tau_f;
        for (h_g, h_f) in h_g.iter_mut().zip(h_f) {
            *h_g = *h_g / chi_a - h_f;
        }
        tau_g[0] = (1.0 / chi_a - tau_f).max(TAU_G_FLOOR);
    });
}

/// m^a of each cell, and the sum of their variances in units of 1/tau^F.
#[inline(always)]
fn cell_moments<F: F32x8, D: F64x4>(
    cells: CellsRef<'_>,
    z: &[f64],
    h_f: &[f64],
    tau_f: f64,
    m_a: &mut [f64],
    variances: &mut f64,
) {
    let message = Message { s: tau_f.sqrt() };
    for (i, m_a) in m_a.iter_mut().enumerate() {
        let (l, u) = message.bounds(z[i], h_f[i], cells.lower[i], cells.upper[i]);
        let cell = truncated_normal::moments(l, u);
        *m_a = h_f[i] / tau_f + cell.mean / message.s;
        *variances += cell.variance;
    }
}

/// Node b in the eigenbasis, with D = 1/(sigma² + beta²·lambda) and w = 1/(tau^G + D):
/// h^F = m^b/chi^b − h^G becomes (w/chi^b − 1)∘h^G, and tau^F = 1/chi^b − tau^G becomes mean(D·w)/chi^b; neither cancels.
fn separate(
    threads: &mut Threads,
    covariance: Covariance<'_>,
    level: &[f64],
    input: &[f64],
    tau_g: &[f64],
    output: &mut [f64],
    tau_f: &mut [f64],
) {
    let m = covariance.eigenvalues.len();
    threads.for_each2((output, m), (tau_f, 1), &|state, output, tau_f| {
        let (input, tau_g) = (&input[state * m..(state + 1) * m], tau_g[state]);
        let beta2 = level[state] * level[state];
        let (mut sum_w, mut sum_dw) = (0.0, 0.0);
        for (w, &lambda) in output.iter_mut().zip(covariance.eigenvalues) {
            let d = 1.0 / (covariance.sigma2 + beta2 * lambda);
            *w = 1.0 / (tau_g + d);
            sum_w += *w;
            sum_dw += d * *w;
        }
        let chi_b = sum_w / m as f64;
        for (w, h) in output.iter_mut().zip(input) {
            *w = (*w / chi_b - 1.0) * h;
        }
        tau_f[0] = sum_dw / sum_w;
    });
}

/// g_m = sqrt(tau^F) times the mean of the standard normal in the cell.
fn gradient(
    threads: &mut Threads,
    isa: Isa,
    cells: CellsRef<'_>,
    z: &[f64],
    h_f: &[f64],
    tau_f: &[f64],
    g: &mut [f64],
) {
    let m = z.len() / tau_f.len();
    threads.for_each(g, m, &|state, g| {
        let at = state * m..(state + 1) * m;
        let (z, h_f, tau_f, cells) = (&z[at.clone()], &h_f[at.clone()], tau_f[state], cells.part(at));
        dispatch!(isa, cell_gradients(cells: CellsRef<'_>, z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]));
    });
}

#[inline(always)]
fn cell_gradients<F: F32x8, D: F64x4>(cells: CellsRef<'_>, z: &[f64], h_f: &[f64], tau_f: f64, g: &mut [f64]) {
    let message = Message { s: tau_f.sqrt() };
    for (i, g) in g.iter_mut().enumerate() {
        let (l, u) = message.bounds(z[i], h_f[i], cells.lower[i], cells.upper[i]);
        *g = message.s * truncated_normal::mean(l, u);
    }
}

/// The same under the diagonal of C_t⁻¹ and no message: QCS-SGM.
fn diag_gradient(
    threads: &mut Threads,
    isa: Isa,
    cells: CellsRef<'_>,
    covariance: Covariance<'_>,
    level: &[f64],
    z: &[f64],
    g: &mut [f64],
) {
    let m = covariance.diag.len();
    threads.for_each(g, m, &|state, g| {
        let at = state * m..(state + 1) * m;
        let (z, cells, beta) = (&z[at.clone()], cells.part(at), level[state]);
        dispatch!(isa, diag_cell_gradients(cells: CellsRef<'_>, covariance: Covariance<'_>, beta: f64, z: &[f64], g: &mut [f64]));
    });
}

#[inline(always)]
fn diag_cell_gradients<F: F32x8, D: F64x4>(
    cells: CellsRef<'_>,
    covariance: Covariance<'_>,
    beta: f64,
    z: &[f64],
    g: &mut [f64],
) {
    let beta2 = beta * beta;
    for (i, g) in g.iter_mut().enumerate() {
        let tau = 1.0 / (covariance.sigma2 + beta2 * covariance.diag[i]);
        let message = Message { s: tau.sqrt() };
        let (l, u) = message.bounds(z[i], 0.0, cells.lower[i], cells.upper[i]);
        *g = message.s * truncated_normal::mean(l, u);
    }
}

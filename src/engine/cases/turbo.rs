//! Turbo's ops, and EP's that carry sites on. States differ in what they are: the first begins, the last is done.

use qcs_kernels::likelihood::ep_carry::ep_carry;
use qcs_kernels::likelihood::ep_damp::ep_damp;
use qcs_kernels::likelihood::ep_settle::ep_settle;
use qcs_kernels::sampler::StateKey;
use qcs_kernels::turbo::Scalars;
use qcs_kernels::turbo::turbo_denoise::{Denoised, Limits, turbo_denoise};
use qcs_kernels::turbo::turbo_draw::{Levels, turbo_draw, turbo_draw_start};
use qcs_kernels::turbo::turbo_filter::turbo_filter;
use qcs_kernels::turbo::turbo_scale::{Known, Scaled, turbo_scale};
use qcs_kernels::turbo::turbo_start::turbo_start;
use qcs_kernels::turbo::turbo_step::{Moving, turbo_step};

use super::likelihood::diagonal_problem;
use super::values::{levels, normals, normals_f64, uniforms};
use super::{Builder, Case, Results, SEED, absolute_error, each, part, relative_error};
use crate::engine::State;
use crate::plan::{
    Contents, EpCarry, EpDamp, EpSettle, LikelihoodOp, Sites, Step, TensorId, TurboDenoise, TurboDraw, TurboDrawStart,
    TurboFilter, TurboScale, TurboStart, TurboStep,
};
use crate::problem::{Cells, Matrix, Problem};

/// States, measurements and pixels.
const SHAPES: [(usize, usize, usize); 4] = [(1, 400, 784), (5, 130, 300), (3, 1, 37), (4, 257, 1026)];

/// Sums over pixels in another order decide on factors in f64, which are applied to f32.
const BOUND: f64 = 2e-6;

pub fn cases() -> Vec<Case> {
    let of = |(states, m, n)| {
        [
            start_case(states, m, n),
            reset_case(states, m),
            carry_case(states, m),
            damp_case(states, m),
            settle_case(states, m),
            filter_case(states, m, n),
            scale_case(states, m, n),
            step_case(states, n),
            denoise_case(states, n),
            draw_start_case(states, n),
            draw_case(states, n, false),
            draw_case(states, n, true),
        ]
    };
    SHAPES.into_iter().flat_map(of).collect()
}

/// Steps of each state: 0, 1, 2, …
fn counts(states: usize) -> Vec<u32> {
    (0..states as u32).collect()
}

/// The last of several states is done.
fn done(states: usize) -> Vec<u32> {
    (0..states).map(|s| u32::from(states > 1 && s + 1 == states)).collect()
}

/// The numbers of states that are under way, each its own.
fn numbers(states: usize) -> Vec<f64> {
    let of = |s: usize| {
        let s = s as f64;
        [1.0 / (1.0 + s), 0.3 * s, 0.5 + s, 0.01 * s, 0.02, 0.003 * s]
    };
    (0..states).flat_map(of).collect()
}

fn scalars(numbers: &[f64], state: usize) -> Scalars {
    Scalars::of(std::array::from_fn(|i| numbers[state * Scalars::LEN + i]))
}

fn sites(case: &mut Builder<'_>, states: usize, m: usize) -> (Sites, [Vec<f64>; 3]) {
    let values = [
        normals_f64(50, states * m),
        normals_f64(51, states * m),
        // The first state has no sites yet.
        (0..states).map(|s| 0.4 * s as f64).collect(),
    ];
    let sites = Sites {
        z: case.tensor(Contents::F64(m), &values[0]),
        h_g: case.tensor(Contents::F64(m), &values[1]),
        tau_g: case.tensor(Contents::F64(1), &values[2]),
        count: case.tensor(Contents::U32(1), &counts(states)),
    };
    (sites, values)
}

/// The largest error of several tensors.
fn worst<const N: usize>(errors: [f64; N]) -> Result<f64, String> {
    Ok(errors.into_iter().fold(0.0, f64::max))
}

fn same_words(results: &Results, tensor: TensorId, expected: &[u32]) -> f64 {
    if results.of::<u32>(tensor) == expected {
        0.0
    } else {
        f64::INFINITY
    }
}

fn start_case(states: usize, m: usize, n: usize) -> Case {
    Case::new(format!("turbo_start {states}×{m}×{n}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        case.problem = Some(diagonal_problem(states, m));
        let mean_values = uniforms(52, n);
        let mean = case.weight("mean", &[n], mean_values.clone());
        let (sites, [old_z, old_h_g, old_tau_g]) = sites(&mut case, states, m);
        let (old_mu, old_level, old_numbers) = (normals(53, states * n), levels(states), numbers(states));
        let steps = case.tensor(Contents::U32(1), &counts(states));
        let mu = case.tensor(Contents::F32(n), &old_mu);
        let level = case.tensor(Contents::F64(1), &old_level);
        let scalars = case.tensor(Contents::F64(Scalars::LEN), &old_numbers);
        let done = case.tensor(Contents::U32(1), &vec![7u32; states]);
        case.push(TurboStart {
            mean,
            deviation: 0.3,
            steps,
            mu,
            level,
            sites,
            scalars,
            done,
        });
        case.finish(move |results| {
            let (mut mu_of, mut z, mut h_g) = (old_mu.clone(), old_z.clone(), old_h_g.clone());
            let (mut level_of, mut tau_g) = (old_level.clone(), old_tau_g.clone());
            let mut all = old_numbers.clone();
            let begun = turbo_start(&mean_values, 0.3, &mut mu_of[..n], &mut z[..m], &mut h_g[..m]);
            (level_of[0], tau_g[0]) = (begun.0, begun.1);
            all[..Scalars::LEN].copy_from_slice(&begun.2.values());
            let flags: Vec<u32> = (0..states).map(|s| if s == 0 { 0 } else { 7 }).collect();
            worst([
                absolute_error(&results.of(mu), &mu_of),
                absolute_error(&results.of(sites.z), &z),
                absolute_error(&results.of(sites.h_g), &h_g),
                absolute_error(&results.of(level), &level_of),
                absolute_error(&results.of(sites.tau_g), &tau_g),
                absolute_error(&results.of(scalars), &all),
                same_words(results, done, &flags),
                same_words(results, sites.count, &counts(states)),
            ])
        })
    })
}

fn reset_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_reset {states}×{m}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        case.problem = Some(diagonal_problem(states, m));
        let (sites, _) = sites(&mut case, states, m);
        case.push(LikelihoodOp::EpReset { sites });
        case.finish(move |results| {
            worst([
                absolute_error(&results.of(sites.z), &vec![0.0; states * m]),
                absolute_error(&results.of(sites.h_g), &vec![0.0; states * m]),
                absolute_error(&results.of(sites.tau_g), &vec![0.0; states]),
                same_words(results, sites.count, &vec![0; states]),
            ])
        })
    })
}

fn carry_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_carry {states}×{m}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        case.problem = Some(diagonal_problem(states, m));
        let (sites, [old_z, old_h_g, tau_g]) = sites(&mut case, states, m);
        let new_z = normals_f64(54, states * m);
        let resting = case.tensor(Contents::U32(1), &done(states));
        let z = case.tensor(Contents::F64(m), &new_z);
        let (live, pace) = (case.unset(Contents::U32(1)), case.unset(Contents::F64(2)));
        case.push(EpCarry {
            resting,
            z,
            sites,
            live,
            pace,
        });
        case.finish(move |results| {
            let (mut site_z, mut h_g) = (old_z.clone(), old_h_g.clone());
            let (mut lives, mut paces) = (Vec::new(), Vec::new());
            for (s, &tau_g) in tau_g.iter().enumerate() {
                let at = s * m..(s + 1) * m;
                let (site_z, h_g) = (&mut site_z[at.clone()], &mut h_g[at.clone()]);
                let (live, pace) = ep_carry(done(states)[s], &new_z[at], site_z, h_g, tau_g);
                lives.push(live);
                paces.extend(pace);
            }
            worst([
                absolute_error(&results.of(sites.z), &site_z),
                absolute_error(&results.of(sites.h_g), &h_g),
                absolute_error(&results.of(pace), &paces),
                same_words(results, live, &lives),
            ])
        })
    })
}

/// EP works on all states but the last; each has its own pace.
fn pace(states: usize) -> (Vec<u32>, Vec<f64>) {
    let live = done(states).iter().map(|done| 1 - done).collect();
    let of = |s: usize| [[1.0, 0.5, 0.2, 0.11][s % 4], [f64::INFINITY, 1e-9, 10.0, 0.3][s % 4]];
    (live, (0..states).flat_map(of).collect())
}

fn damp_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_damp {states}×{m}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        case.problem = Some(diagonal_problem(states, m));
        let (sites, [_, old_h_g, old_tau_g]) = sites(&mut case, states, m);
        let (lives, paces) = pace(states);
        let (new_h, new_tau) = (normals_f64(55, states * m), levels(states));
        let live = case.tensor(Contents::U32(1), &lives);
        let pace = case.tensor(Contents::F64(2), &paces);
        let new_h_g = case.tensor(Contents::F64(m), &new_h);
        let new_tau_g = case.tensor(Contents::F64(1), &new_tau);
        case.push(EpDamp {
            live,
            pace,
            new_h_g,
            new_tau_g,
            sites,
        });
        case.finish(move |results| {
            let (mut h_g, mut tau_g) = (old_h_g.clone(), old_tau_g.clone());
            for s in (0..states).filter(|&s| lives[s] != 0) {
                let at = s * m..(s + 1) * m;
                ep_damp(
                    paces[2 * s],
                    &new_h[at.clone()],
                    new_tau[s],
                    &mut h_g[at],
                    &mut tau_g[s],
                );
            }
            worst([
                absolute_error(&results.of(sites.h_g), &h_g),
                absolute_error(&results.of(sites.tau_g), &tau_g),
            ])
        })
    })
}

fn settle_case(states: usize, m: usize) -> Case {
    Case::new(format!("ep_settle {states}×{m}"), 1e-12, move |target| {
        let mut case = Builder::new(states, target);
        case.problem = Some(diagonal_problem(states, m));
        let (sites, [_, h_g, _]) = sites(&mut case, states, m);
        let (lives, paces) = pace(states);
        let (new_h, new_tau) = (normals_f64(56, states * m), levels(states));
        let (old_h, old_tau) = (normals_f64(57, states * m), vec![0.7; states]);
        let new_h_f = case.tensor(Contents::F64(m), &new_h);
        let new_tau_f = case.tensor(Contents::F64(1), &new_tau);
        let h_f = case.tensor(Contents::F64(m), &old_h);
        let tau_f = case.tensor(Contents::F64(1), &old_tau);
        let pace = case.tensor(Contents::F64(2), &paces);
        let live = case.tensor(Contents::U32(1), &lives);
        // Between the changes of the states, so that some go on and others rest.
        let tolerance = 1.7;
        case.push(EpSettle {
            new_h_f,
            new_tau_f,
            sites,
            h_f,
            tau_f,
            pace,
            live,
            tolerance,
        });
        case.finish(move |results| {
            let (mut h, mut tau, mut paces) = (old_h.clone(), old_tau.clone(), paces.clone());
            let (mut lives, mut count) = (lives.clone(), counts(states));
            for s in 0..states {
                if lives[s] == 0 {
                    continue;
                }
                let at = s * m..(s + 1) * m;
                let mut pace = [paces[2 * s], paces[2 * s + 1]];
                let (new, h_g) = (&new_h[at.clone()], &h_g[at.clone()]);
                let goes_on = ep_settle(new, new_tau[s], h_g, &mut h[at], &mut tau[s], &mut pace, tolerance);
                paces[2 * s..2 * s + 2].copy_from_slice(&pace);
                lives[s] = u32::from(goes_on);
                count[s] += 1;
            }
            worst([
                absolute_error(&results.of(h_f), &h),
                absolute_error(&results.of(tau_f), &tau),
                relative_error(&results.of(pace), &paces),
                same_words(results, live, &lives),
                same_words(results, sites.count, &count),
            ])
        })
    })
}

fn filter_case(states: usize, m: usize, n: usize) -> Case {
    Case::new(format!("turbo_filter {states}×{m}×{n}"), 1e-12, move |target| {
        let mut case = Builder::new(states, target);
        let problem = diagonal_problem(states, m);
        let eigenvalues = problem.diag().to_vec();
        let sigma2 = problem.sigma2_floored();
        case.problem = Some(problem);
        let (values, taus) = (normals_f64(58, states * m), levels(states));
        let level = case.tensor(Contents::F64(1), &levels(states));
        let input = case.tensor(Contents::F64(m), &values);
        let tau_g = case.tensor(Contents::F64(1), &taus);
        let (output, filter) = (case.unset(Contents::F64(m)), case.unset(Contents::F64(3)));
        case.push(TurboFilter {
            level,
            input,
            tau_g,
            output,
            filter,
            pixels: n,
        });
        case.finish(move |results| {
            let mut filters = Vec::new();
            let expected = each(f64::NAN, states, m, |s, output| {
                let input = part(&values, states, s);
                filters.extend(turbo_filter(
                    &eigenvalues,
                    sigma2,
                    levels(states)[s],
                    n,
                    input,
                    taus[s],
                    output,
                ));
            });
            worst([
                relative_error(&results.of(output), &expected),
                relative_error(&results.of(filter), &filters),
            ])
        })
    })
}

/// Signs of half of the measurements agree with z; one is lost. The third state's last cell is no sign: it keeps its scale.
fn scale_case(states: usize, m: usize, n: usize) -> Case {
    Case::new(format!("turbo_scale {states}×{m}×{n}"), BOUND, move |target| {
        let mut case = Builder::new(states, target);
        let (old_z, noise) = (normals_f64(80, states * m), normals_f64(81, states * m));
        let positive: Vec<bool> = old_z.iter().zip(&noise).map(|(z, noise)| z + noise > 0.0).collect();
        let (mut lower, mut upper) = (vec![f64::NEG_INFINITY; states * m], vec![f64::INFINITY; states * m]);
        for i in (0..states * m).filter(|i| i % 97 != 5) {
            if positive[i] { lower[i] = 0.0 } else { upper[i] = 0.0 }
        }
        if states > 2 {
            (lower[3 * m - 1], upper[3 * m - 1]) = (0.1, f64::INFINITY);
        }
        let a = Matrix::from_f64(m, 1, (0..m).map(|i| (0.5 + i as f64 / 300.0).sqrt()).collect()).expect("a matrix");
        let cells = Cells::new(m, lower.clone(), upper.clone()).expect("no cell is empty");
        let problem = Problem::new(a, cells, 0.05).expect("a problem");
        let known = Known {
            mean: -0.1,
            spread: 0.2,
            sigma2: problem.sigma2_floored(),
            row2: problem.mean_diag(),
        };
        case.problem = Some(problem);
        // The first state has no step behind it, the last is done, another is past the iterations that ask.
        let behind: Vec<u32> = (0..states as u32).map(|s| if s == 3 { 6 } else { s }).collect();
        let behind = if states == 1 { vec![1] } else { behind };
        let (old_d, old_mu, old_r) = (
            uniforms(82, states * n),
            normals(83, states * n),
            normals(84, states * n),
        );
        let steps = case.tensor(Contents::U32(1), &behind);
        let done_flags = case.tensor(Contents::U32(1), &done(states));
        let level = case.tensor(Contents::F64(1), &levels(states));
        let d = case.tensor(Contents::F32(n), &old_d);
        let z = case.tensor(Contents::F64(m), &old_z);
        let mu = case.tensor(Contents::F32(n), &old_mu);
        let r = case.tensor(Contents::F32(n), &old_r);
        let old_numbers = numbers(states);
        let all = case.tensor(Contents::F64(Scalars::LEN), &old_numbers);
        case.push(TurboScale {
            steps,
            done: done_flags,
            level,
            d,
            z,
            mu,
            r,
            scalars: all,
            peak: (known.mean, known.spread),
        });
        case.finish(move |results| {
            let (mut new_z, mut new_mu, mut new_r) = (old_z.clone(), old_mu.clone(), old_r.clone());
            let mut new_numbers = old_numbers.clone();
            for state in (0..states).filter(|&state| done(states)[state] == 0) {
                let mut numbers = scalars(&new_numbers, state);
                let scaled = Scaled {
                    z: &mut new_z[state * m..(state + 1) * m],
                    mu: &mut new_mu[state * n..(state + 1) * n],
                    r: &mut new_r[state * n..(state + 1) * n],
                    scalars: &mut numbers,
                };
                let cells = (part(&lower, states, state), part(&upper, states, state));
                let d = part(&old_d, states, state);
                turbo_scale(behind[state], known, cells, levels(states)[state], d, scaled);
                new_numbers[state * Scalars::LEN..][..Scalars::LEN].copy_from_slice(&numbers.values());
            }
            worst([
                relative_error(&results.of(z), &new_z),
                relative_error(&results.of(mu), &new_mu),
                relative_error(&results.of(r), &new_r),
                relative_error(&results.of(all), &new_numbers),
            ])
        })
    })
}

fn step_case(states: usize, n: usize) -> Case {
    Case::new(format!("turbo_step {states}×{n}"), BOUND, move |target| {
        let mut case = Builder::new(states, target);
        let image = |name: u32| normals(name, states * n);
        let (of_mu, of_score) = (image(60), image(61));
        let (old_r, old_v, old_f) = (image(62), image(63), image(64));
        let filters: Vec<f64> = (0..states)
            .flat_map(|s| [0.4 + s as f64, 5.0 + s as f64, 0.3])
            .collect();
        let (old_s, old_numbers) = (levels(states), numbers(states));
        let steps = case.tensor(Contents::U32(1), &counts(states));
        let done_flags = case.tensor(Contents::U32(1), &done(states));
        let mu = case.tensor(Contents::F32(n), &of_mu);
        let score = case.tensor(Contents::F32(n), &of_score);
        let filter = case.tensor(Contents::F64(3), &filters);
        let r = case.tensor(Contents::F32(n), &old_r);
        let s = case.tensor(Contents::F64(1), &old_s);
        let velocity = case.tensor(Contents::F32(n), &old_v);
        let f = case.tensor(Contents::F32(n), &old_f);
        let all = case.tensor(Contents::F64(Scalars::LEN), &old_numbers);
        let bounds = (0.001, 20.0);
        case.push(TurboStep {
            steps,
            done: done_flags,
            mu,
            score,
            filter,
            r,
            s,
            velocity,
            f,
            scalars: all,
            bounds,
        });
        case.finish(move |results| {
            let (mut new_r, mut new_v, mut new_f) = (old_r.clone(), old_v.clone(), old_f.clone());
            let (mut new_s, mut new_numbers) = (old_s.clone(), old_numbers.clone());
            for state in (0..states).filter(|&state| done(states)[state] == 0) {
                let at = state * n..(state + 1) * n;
                let mut numbers = scalars(&new_numbers, state);
                let moving = Moving {
                    r: &mut new_r[at.clone()],
                    s: &mut new_s[state],
                    velocity: &mut new_v[at.clone()],
                    f: &mut new_f[at.clone()],
                    scalars: &mut numbers,
                };
                let filter = [filters[3 * state], filters[3 * state + 1], filters[3 * state + 2]];
                turbo_step(state as u32, &of_mu[at.clone()], &of_score[at], filter, bounds, moving);
                new_numbers[state * Scalars::LEN..][..Scalars::LEN].copy_from_slice(&numbers.values());
            }
            worst([
                relative_error(&results.of(r), &new_r),
                relative_error(&results.of(velocity), &new_v),
                relative_error(&results.of(f), &new_f),
                relative_error(&results.of(s), &new_s),
                relative_error(&results.of(all), &new_numbers),
            ])
        })
    })
}

/// The second state's score is not finite.
fn denoise_case(states: usize, n: usize) -> Case {
    Case::new(format!("turbo_denoise {states}×{n}"), BOUND, move |target| {
        let mut case = Builder::new(states, target);
        let table: Vec<f32> = (0..9).map(|i| 0.02 * 2f32.powi(i)).collect();
        let logs: Vec<f32> = table.iter().map(|level| level.ln()).collect();
        let ratios: Vec<f32> = table.iter().map(|level| (0.1 / (0.3 + level)).ln()).collect();
        let log_levels = case.weight("levels", &[9], logs.clone());
        let log_ratios = case.weight("ratios", &[9], ratios.clone());
        let image = |name: u32| normals(name, states * n);
        let (of_r, mut of_prior, old_d, old_mu) = (image(65), image(66), image(67), image(68));
        if states > 1 {
            of_prior[2 * n - 1] = f32::NAN;
        }
        // Below the table, above it, and inside.
        let of_s: Vec<f64> = (0..states).map(|s| [0.3, 1.7, 0.001, 50.0][s % 4]).collect();
        let (old_level, old_numbers) = (levels(states), numbers(states));
        let r = case.tensor(Contents::F32(n), &of_r);
        let s = case.tensor(Contents::F64(1), &of_s);
        let prior = case.tensor(Contents::F32(n), &of_prior);
        let d = case.tensor(Contents::F32(n), &old_d);
        let mu = case.tensor(Contents::F32(n), &old_mu);
        let level = case.tensor(Contents::F64(1), &old_level);
        let all = case.tensor(Contents::F64(Scalars::LEN), &old_numbers);
        let steps = case.tensor(Contents::U32(1), &counts(states));
        let done_flags = case.tensor(Contents::U32(1), &done(states));
        let limits = Limits {
            tolerance: 0.02,
            steps: 3,
        };
        case.push(TurboDenoise {
            log_levels,
            log_ratios,
            entries: 9,
            r,
            s,
            prior,
            d,
            mu,
            level,
            scalars: all,
            steps,
            done: done_flags,
            tolerance: limits.tolerance,
            most: limits.steps,
        });
        case.finish(move |results| {
            let (mut new_d, mut new_mu, mut new_level) = (old_d.clone(), old_mu.clone(), old_level.clone());
            let (mut new_numbers, mut flags, mut count) = (old_numbers.clone(), done(states), counts(states));
            for state in 0..states {
                if flags[state] != 0 {
                    continue;
                }
                let at = state * n..(state + 1) * n;
                let mut numbers = scalars(&new_numbers, state);
                let denoised = Denoised {
                    d: &mut new_d[at.clone()],
                    mu: &mut new_mu[at.clone()],
                    level: &mut new_level[state],
                    scalars: &mut numbers,
                };
                let (r, prior) = (&of_r[at.clone()], &of_prior[at]);
                flags[state] = turbo_denoise((&logs, &ratios), r, of_s[state], prior, count[state], limits, denoised);
                new_numbers[state * Scalars::LEN..][..Scalars::LEN].copy_from_slice(&numbers.values());
                count[state] += 1;
            }
            worst([
                relative_error(&results.of(d), &new_d),
                relative_error(&results.of(mu), &new_mu),
                relative_error(&results.of(level), &new_level),
                relative_error(&results.of(all), &new_numbers),
                same_words(results, done_flags, &flags),
                same_words(results, steps, &count),
            ])
        })
    })
}

const DRAW: Levels = Levels {
    spread: 1.25,
    end: 0.01,
    count: 7,
};

/// Image and chain of a state differ from its place in the batch.
fn key(state: usize) -> StateKey {
    StateKey {
        image: 3 * state as u32 + 1,
        chain: 2 * state as u32,
    }
}

fn keyed(case: &mut Builder<'_>, states: usize) {
    let state = |s| State {
        image: key(s).image as usize,
        chain: key(s).chain as usize,
    };
    case.states = (0..states).map(state).collect();
}

fn draw_start_case(states: usize, n: usize) -> Case {
    Case::new(format!("turbo_draw_start {states}×{n}"), 1e-15, move |target| {
        let mut case = Builder::new(states, target);
        keyed(&mut case, states);
        let of_r = normals(70, states * n);
        let r = case.tensor(Contents::F32(n), &of_r);
        let s = case.tensor(Contents::F64(1), &levels(states));
        let (x, level) = (case.unset(Contents::F32(n)), case.unset(Contents::F64(1)));
        let (ratio, done) = (case.unset(Contents::F64(1)), case.unset(Contents::U32(1)));
        case.push(TurboDrawStart {
            r,
            s,
            x,
            level,
            ratio,
            done,
            spread: DRAW.spread,
            end: DRAW.end,
            count: DRAW.count,
        });
        case.finish(move |results| {
            let (mut first, mut ratios) = (Vec::new(), Vec::new());
            let expected = each(f32::NAN, states, n, |s, x| {
                let begun = turbo_draw_start(SEED, key(s), part(&of_r, states, s), levels(states)[s], DRAW, x);
                first.push(begun.0);
                ratios.push(begun.1);
            });
            worst([
                absolute_error(&results.of(x), &expected),
                absolute_error(&results.of(level), &first),
                absolute_error(&results.of(ratio), &ratios),
                same_words(results, done, &vec![0; states]),
            ])
        })
    })
}

fn draw_case(states: usize, n: usize, last: bool) -> Case {
    Case::new(format!("turbo_draw {states}×{n} last: {last}"), 0.0, move |target| {
        let mut case = Builder::new(states, target);
        keyed(&mut case, states);
        let index = if last { DRAW.count - 1 } else { 2 };
        case.steps[1] = Step {
            index,
            ..Step::default()
        };
        let (old_x, of_prior) = (normals(71, states * n), normals(72, states * n));
        let ratios: Vec<f64> = (0..states).map(|s| 0.5 + 0.1 * (s % 4) as f64).collect();
        let prior = case.tensor(Contents::F32(n), &of_prior);
        let ratio = case.tensor(Contents::F64(1), &ratios);
        let x = case.tensor(Contents::F32(n), &old_x);
        let level = case.tensor(Contents::F64(1), &levels(states));
        case.push(TurboDraw {
            prior,
            ratio,
            x,
            level,
            count: DRAW.count,
        });
        case.finish(move |results| {
            let (mut new_x, mut next) = (old_x.clone(), Vec::new());
            for (s, x) in new_x.chunks_mut(n).enumerate() {
                let (prior, from) = (part(&of_prior, states, s), (levels(states)[s], ratios[s]));
                next.push(turbo_draw(SEED, key(s), (index, DRAW.count), prior, from, x));
            }
            worst([
                absolute_error(&results.of(x), &new_x),
                absolute_error(&results.of(level), &next),
            ])
        })
    })
}

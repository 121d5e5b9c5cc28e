//! The plans of turbo's two passes: the message passing, and draws from its last message.

use super::TurboSettings;
use crate::engine::Wait;
use crate::likelihood::{SettledEp, in_eigenbasis};
use crate::methods::{BatchPlan, EP_ITERATIONS, Handle, Held, Inputs, X, site_handles};
use crate::plan::{
    Contents, PlanBuilder, Program, Sites, Target, TensorId, TurboDenoise, TurboDraw, TurboDrawStart, TurboFilter,
    TurboScale, TurboStart, TurboStep,
};
use crate::prior::Denoiser;
use crate::problem::Problem;
use qcs_kernels::turbo::Scalars;

/// EP's iterations before an image's first evaluation of the network, when it has no sites yet, and in each round.
const FIRST_ROUND: usize = 12;
const ROUND: usize = 4;
/// The least s over the table's least level: a higher one caps high SNR.
const LEAST: f64 = 0.1;
/// The last level of a draw.
const LAST_LEVEL: f64 = 0.01;

/// The denoised image
pub const D: Handle<f32> = Handle::new("d");
/// The last message to the prior: its mean, and its standard deviation
const R: Handle<f32> = Handle::new("r");
const S: Handle<f64> = Handle::new("s");
/// See [`Scalars`]
pub const SCALARS: Handle<f64> = Handle::new("scalars");
pub const STEPS: Handle<u32> = Handle::new("steps");
pub const DONE: Handle<u32> = Handle::new("done");
const LEVEL: Handle<f64> = Handle::new("level");

/// What a state is; see the kernels' `turbo` room.
struct State {
    steps: TensorId,
    done: TensorId,
    mu: TensorId,
    level: TensorId,
    sites: Sites,
    r: TensorId,
    s: TensorId,
    velocity: TensorId,
    f: TensorId,
    d: TensorId,
    scalars: TensorId,
}

impl State {
    fn new(plan: &mut PlanBuilder, n: usize, m: usize) -> Self {
        let mut flag = || plan.persistent(Contents::U32(1));
        let (steps, done, count) = (flag(), flag(), flag());
        let mut image = || plan.persistent(Contents::F32(n));
        let (mu, r, velocity, f, d) = (image(), image(), image(), image(), image());
        let mut cells = || plan.persistent(Contents::F64(m));
        let (z, h_g) = (cells(), cells());
        let mut number = || plan.persistent(Contents::F64(1));
        let (level, s, tau_g) = (number(), number(), number());
        Self {
            steps,
            done,
            mu,
            level,
            sites: Sites { z, h_g, tau_g, count },
            r,
            s,
            velocity,
            f,
            d,
            scalars: plan.persistent(Contents::F64(Scalars::LEN)),
        }
    }

    /// What is told of a state, and what draws begin from.
    fn left(&self, plan: &PlanBuilder) -> Vec<Held> {
        vec![
            D.at(plan, self.d),
            R.at(plan, self.r),
            S.at(plan, self.s),
            SCALARS.at(plan, self.scalars),
            STEPS.at(plan, self.steps),
            EP_ITERATIONS.at(plan, self.sites.count),
            DONE.at(plan, self.done),
        ]
    }

    /// Everything.
    fn all(&self, plan: &PlanBuilder) -> Vec<Held> {
        let rest = [
            Handle::<f32>::new("mu").at(plan, self.mu),
            LEVEL.at(plan, self.level),
            Handle::<f32>::new("velocity").at(plan, self.velocity),
            Handle::<f32>::new("f").at(plan, self.f),
        ];
        let [z, h_g, tau_g, _] = site_handles(plan, self.sites);
        [self.left(plan), vec![z, h_g, tau_g], rest.to_vec()].concat()
    }
}

/// The message passing. A state that begins is given sites first; then every step is a round of EP, a step of the message
/// to the prior, an evaluation of the network, and the message back.
pub fn message_passing(
    settings: &TurboSettings,
    given: Inputs<'_>,
    (problem, denoiser): (&Problem, &Denoiser),
    batch: usize,
    target: &dyn Target,
) -> BatchPlan {
    let (m, n) = (problem.a().rows(), problem.a().cols());
    let entries = denoiser.levels.len();
    let mut plan = PlanBuilder::new(batch, target);
    let state = State::new(&mut plan, n, m);
    let State {
        steps,
        done,
        mu,
        level,
        sites,
        r,
        s,
        velocity,
        f,
        d,
        scalars,
    } = state;
    let mean = plan.param(Denoiser::MEAN.to_owned(), &[n]);
    let log_levels = plan.param(Denoiser::LOG_LEVELS.to_owned(), &[entries]);
    let log_ratios = plan.param(Denoiser::LOG_RATIOS.to_owned(), &[entries]);
    let round = |plan: &mut PlanBuilder, iterations: usize, resting: TensorId, peak: Option<(f64, f64)>| {
        let z = plan.temporary(Contents::F64(m));
        problem.a().push(plan, mu, z);
        if let Some(peak) = peak {
            plan.push(TurboScale {
                steps,
                done,
                level,
                d,
                z,
                mu,
                r,
                scalars,
                peak,
            });
        }
        let ep = SettledEp {
            iterations,
            tolerance: SettledEp::TOLERANCE,
        };
        ep.push(plan, problem, resting, level, z, sites);
    };

    plan.begin(Program::Start);
    plan.push(TurboStart {
        mean,
        deviation: denoiser.variance.sqrt(),
        steps,
        mu,
        level,
        sites,
        scalars,
        done,
    });
    round(&mut plan, FIRST_ROUND, steps, None);

    plan.begin(Program::Step);
    round(&mut plan, ROUND, done, denoiser.peak);
    let score = filtered_score(&mut plan, problem, level, sites);
    plan.push(TurboStep {
        steps,
        done,
        mu,
        score: score.0,
        filter: score.1,
        r,
        s,
        velocity,
        f,
        scalars,
        bounds: (
            LEAST * f64::from(denoiser.levels[0]),
            f64::from(denoiser.levels[entries - 1]),
        ),
    });
    let prior = plan.temporary(Contents::F32(n));
    given.prior.network().push(&mut plan, r, s, prior);
    plan.push(TurboDenoise {
        log_levels,
        log_ratios,
        entries,
        r,
        s,
        prior,
        d,
        mu,
        level,
        scalars,
        steps,
        done,
        tolerance: settings.tolerance,
        most: settings.evaluations,
    });
    let (left, state) = (state.left(&plan), state.all(&plan));
    BatchPlan {
        plan: plan.finish(target),
        done,
        // An iteration is worth more than the moment that a device idles.
        wait: Wait::Now,
        counter: Some(steps),
        from: Vec::new(),
        left,
        state,
    }
}

/// The measurements' score of mu, `[N]`, and the filter's numbers.
fn filtered_score(plan: &mut PlanBuilder, problem: &Problem, level: TensorId, sites: Sites) -> (TensorId, TensorId) {
    let (m, n) = (problem.a().rows(), problem.a().cols());
    let (g, filter) = (plan.temporary(Contents::F64(m)), plan.temporary(Contents::F64(3)));
    in_eigenbasis(plan, problem, sites.h_g, g, |plan, input, output| {
        plan.push(TurboFilter {
            level,
            input,
            tau_g: sites.tau_g,
            output,
            filter,
            pixels: n,
        });
    });
    let score = plan.temporary(Contents::F32(n));
    problem.a().push_adjoint(plan, g, score);
    (score, filter)
}

/// Draws from the message (r, s) that the first pass left of an image.
pub fn draws(settings: &TurboSettings, given: Inputs<'_>, batch: usize, target: &dyn Target) -> BatchPlan {
    let network = given.prior.network();
    let n = network.image().len();
    let mut plan = PlanBuilder::new(batch, target);
    let [r, x] = [(); 2].map(|()| plan.persistent(Contents::F32(n)));
    let [s, level, ratio] = [(); 3].map(|()| plan.persistent(Contents::F64(1)));
    let done = plan.persistent(Contents::U32(1));
    plan.begin(Program::Start);
    plan.push(TurboDrawStart {
        r,
        s,
        x,
        level,
        ratio,
        done,
        spread: settings.draw_spread,
        end: LAST_LEVEL,
        count: settings.draw_steps,
    });
    plan.begin(Program::Step);
    let prior = plan.temporary(Contents::F32(n));
    network.push(&mut plan, x, level, prior);
    plan.push(TurboDraw {
        prior,
        ratio,
        x,
        level,
        count: settings.draw_steps,
    });
    let sample = X.at(&plan, x);
    let ratio = Handle::<f64>::new("ratio").at(&plan, ratio);
    BatchPlan {
        from: vec![R.at(&plan, r), S.at(&plan, s)],
        state: vec![sample, LEVEL.at(&plan, level), ratio, DONE.at(&plan, done)],
        left: vec![sample],
        plan: plan.finish(target),
        done,
        wait: Wait::Behind,
        counter: None,
    }
}

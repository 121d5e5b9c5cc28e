//! The plan of a batch: start, step and final denoising around one persistent state.

use super::LangevinSettings;
use crate::engine::Wait;
use crate::likelihood::{Carried, SettledEp};
use crate::methods::{BatchPlan, Handle, Inputs, X, site_handles};
use crate::plan::{Contents, Langevin, LikelihoodOp, PlanBuilder, Program, SamplerOp, Target};

/// The step in which a state was frozen, from 1; 0 if it was not
pub const FROZEN: Handle<u32> = Handle::new("frozen");
const VELOCITY: Handle<f32> = Handle::new("velocity");

/// Posterior sampling of the given problem, or unconditional sampling without one.
pub fn batch_plan(settings: &LangevinSettings, given: Inputs<'_>, batch: usize, target: &dyn Target) -> BatchPlan {
    let network = given.prior.network();
    let mut plan = PlanBuilder::new(batch, target);
    let n = network.image().len();
    let x = plan.persistent(Contents::F32(n));
    let velocity = settings.has_velocity().then(|| plan.persistent(Contents::F32(n)));
    let frozen = plan.persistent(Contents::U32(1));

    let carried = given
        .problem
        .filter(|_| settings.likelihood.carries())
        .map(|problem| Carried {
            sites: SettledEp::sites(&mut plan, problem.a().rows()),
            resting: frozen,
        });

    plan.begin(Program::Start);
    plan.push(SamplerOp::StartState { x, frozen });
    if let Some(Carried { sites, .. }) = carried {
        plan.push(LikelihoodOp::EpReset { sites });
    }

    plan.begin(Program::Step);
    let level = plan.temporary(Contents::F64(1));
    plan.push(SamplerOp::SetLevel { level });
    let prior = plan.temporary(Contents::F32(n));
    network.push(&mut plan, x, level, prior);
    let likelihood = given.problem.map(|problem| {
        let likelihood = settings.likelihood.push(&mut plan, problem, x, level, carried);
        // (27), or a constant.
        let gamma = plan.temporary(Contents::F64(1));
        plan.push(SamplerOp::Gamma {
            prior,
            likelihood,
            rule: settings.gamma,
            gamma,
        });
        (likelihood, gamma)
    });
    // (3) with the posterior score of (4), as Algorithm 1 has it: the likelihood score counts gamma times.
    plan.push(Langevin {
        x,
        prior,
        likelihood,
        velocity,
        frozen,
    });

    if settings.finishes() {
        plan.begin(Program::Finish);
        let level = plan.temporary(Contents::F64(1));
        plan.push(SamplerOp::SetLevel { level });
        let prior = plan.temporary(Contents::F32(n));
        network.push(&mut plan, x, level, prior);
        plan.push(SamplerOp::Denoise {
            x,
            level,
            prior,
            frozen,
        });
    }
    let ends = [X.at(&plan, x), FROZEN.at(&plan, frozen)];
    let velocity = velocity.map(|velocity| VELOCITY.at(&plan, velocity));
    let sites = carried.map(|Carried { sites, .. }| site_handles(&plan, sites));
    BatchPlan {
        plan: plan.finish(target),
        done: frozen,
        // A state is frozen when it diverges, and all of a batch hardly ever are: nothing is worth waiting for.
        wait: Wait::Behind,
        counter: None,
        from: Vec::new(),
        state: ends
            .into_iter()
            .chain(velocity)
            .chain(sites.into_iter().flatten())
            .collect(),
        left: ends.to_vec(),
    }
}

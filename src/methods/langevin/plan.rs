//! The plan of a batch: start, step and final denoising around one persistent state.

use super::LangevinSettings;
use crate::engine::Wait;
use crate::methods::{BatchPlan, Given};
use crate::plan::{Contents, PlanBuilder, Program, SamplerOp, Target};

/// Posterior sampling of the given problem, or unconditional sampling without one.
pub fn batch_plan(settings: &LangevinSettings, given: Given<'_>, batch: usize, target: &dyn Target) -> BatchPlan {
    let network = given.prior.network();
    let mut plan = PlanBuilder::new(batch, target);
    let n = network.image().len();
    let x = plan.persistent(Contents::F32(n));
    let velocity = settings.has_velocity().then(|| plan.persistent(Contents::F32(n)));
    let frozen = plan.persistent(Contents::U32(1));

    plan.begin(Program::Start);
    plan.push(SamplerOp::StartState { x, frozen });

    plan.begin(Program::Step);
    let level = plan.temporary(Contents::F64(1));
    plan.push(SamplerOp::SetLevel { level });
    let prior = plan.temporary(Contents::F32(n));
    network.push(&mut plan, x, level, prior);
    let likelihood = given.problem.map(|problem| {
        let likelihood = settings.likelihood.push(&mut plan, problem, x, level);
        let gamma = plan.temporary(Contents::F64(1));
        plan.push(SamplerOp::Gamma {
            prior,
            likelihood,
            rule: settings.gamma,
            gamma,
        });
        (likelihood, gamma)
    });
    plan.push(SamplerOp::Langevin {
        x,
        prior,
        likelihood,
        velocity,
        frozen,
    });

    if settings.denoise {
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
    let state = [("x", x), ("frozen", frozen)];
    BatchPlan {
        plan: plan.finish(target),
        done: frozen,
        // A state is frozen when it diverges, and all of a batch hardly ever are: nothing is worth waiting for.
        wait: Wait::Behind,
        counter: None,
        from: Vec::new(),
        state: state.into_iter().chain(velocity.map(|v| ("velocity", v))).collect(),
        left: state.to_vec(),
    }
}

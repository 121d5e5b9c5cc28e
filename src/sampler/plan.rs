//! The plan of a whole sampling run: start, step and final denoising around one persistent state.

use super::Settings;
use crate::plan::{Contents, Op, Plan, PlanBuilder, Program, Target, TensorId};
use crate::prior::Ncsnv2;
use crate::problem::Problem;

/// A plan and the tensors that the driver reads and writes between executions.
pub struct SamplerPlan {
    pub plan: Plan,
    /// `[N]` f32 per state
    pub x: TensorId,
    /// `[N]` f32 per state, where the sampler has momentum: what the last step added to x
    pub velocity: Option<TensorId>,
    /// One u32 per state: 0, or one plus the step at which it would have become non-finite
    pub frozen: TensorId,
}

impl SamplerPlan {
    /// Posterior sampling of `problem`, or unconditional sampling without one.
    pub fn new(
        network: &Ncsnv2,
        problem: Option<&Problem>,
        settings: &Settings,
        batch: usize,
        target: &dyn Target,
    ) -> Self {
        let mut plan = PlanBuilder::new(batch, target);
        let n = network.image.len();
        let x = plan.persistent(Contents::F32(n));
        let velocity = settings.has_velocity().then(|| plan.persistent(Contents::F32(n)));
        let frozen = plan.persistent(Contents::U32(1));

        plan.begin(Program::Start);
        plan.push(Op::StartState { x, frozen });

        plan.begin(Program::Step);
        let prior = plan.temporary(Contents::F32(n));
        network.push(&mut plan, x, prior);
        let likelihood = match problem {
            None => None,
            Some(problem) => {
                let score = settings.likelihood.push(&mut plan, problem, x);
                let gamma = plan.temporary(Contents::F64(1));
                plan.push(Op::Gamma {
                    prior,
                    likelihood: score,
                    rule: settings.gamma,
                    gamma,
                });
                Some((score, gamma))
            }
        };
        plan.push(Op::Langevin {
            x,
            prior,
            likelihood,
            velocity,
            frozen,
        });

        plan.begin(Program::Denoise);
        let prior = plan.temporary(Contents::F32(n));
        network.push(&mut plan, x, prior);
        plan.push(Op::Denoise { x, prior, frozen });
        Self {
            plan: plan.finish(target),
            x,
            velocity,
            frozen,
        }
    }
}

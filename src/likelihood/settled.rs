//! EP with carried sites, damped, until it settles: each of turbo's rounds, and QCS-SGM+ where the settings ask for it. The
//! messages are those of [`Ep`](super::Ep), (9), (10), (25) and (26). The sites h^G, tau^G go on from the last round, new ones
//! are mixed with them, and a state rests once its messages have stopped moving.

use super::in_eigenbasis;
use crate::plan::{Contents, EpCarry, EpDamp, EpMoments, EpSeparate, EpSettle, PlanBuilder, Sites, TensorId};
use crate::problem::Problem;

/// Settings of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettledEp {
    /// The most iterations
    pub iterations: usize,
    /// The relative change of the messages below which a state rests
    pub tolerance: f64,
}

impl SettledEp {
    /// The tolerance below which nothing gets better: 1e-3 gives the same images.
    pub const TOLERANCE: f64 = 1e-2;

    /// Appends a round at the noise level of each state for the states whose flag `resting` is 0; `z` is A·x. Returns the
    /// message h^F and tau^F that it ends with.
    pub fn push(
        &self,
        plan: &mut PlanBuilder,
        problem: &Problem,
        resting: TensorId,
        level: TensorId,
        z: TensorId,
        sites: Sites,
    ) -> (TensorId, TensorId) {
        let m = problem.a().rows();
        let [h_f, new_h_f, new_h_g] = [(); 3].map(|()| plan.temporary(Contents::F64(m)));
        let [tau_f, new_tau_f, new_tau_g] = [(); 3].map(|()| plan.temporary(Contents::F64(1)));
        let (live, pace) = (plan.temporary(Contents::U32(1)), plan.temporary(Contents::F64(2)));
        plan.push(EpCarry {
            resting,
            z,
            sites,
            live,
            pace,
        });
        separate(plan, problem, level, sites, h_f, tau_f);
        for _ in 0..self.iterations {
            plan.push(EpMoments {
                z,
                h_f,
                tau_f,
                h_g: new_h_g,
                tau_g: new_tau_g,
                live: Some(live),
            });
            plan.push(EpDamp {
                live,
                pace,
                new_h_g,
                new_tau_g,
                sites,
            });
            separate(plan, problem, level, sites, new_h_f, new_tau_f);
            plan.push(EpSettle {
                new_h_f,
                new_tau_f,
                sites,
                h_f,
                tau_f,
                pace,
                live,
                tolerance: self.tolerance,
            });
        }
        (h_f, tau_f)
    }

    /// Sites for [`SettledEp::push`], which the plan keeps.
    pub fn sites(plan: &mut PlanBuilder, m: usize) -> Sites {
        Sites {
            z: plan.persistent(Contents::F64(m)),
            h_g: plan.persistent(Contents::F64(m)),
            tau_g: plan.persistent(Contents::F64(1)),
            count: plan.persistent(Contents::U32(1)),
        }
    }
}

/// From the sites, through the covariance, to the message of node b.
fn separate(plan: &mut PlanBuilder, problem: &Problem, level: TensorId, sites: Sites, h_f: TensorId, tau_f: TensorId) {
    in_eigenbasis(plan, problem, sites.h_g, h_f, |plan, input, output| {
        plan.push(EpSeparate {
            level,
            input,
            tau_g: sites.tau_g,
            output,
            tau_f,
        });
    });
}

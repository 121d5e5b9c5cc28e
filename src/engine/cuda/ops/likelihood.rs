//! Expectation propagation and its diagonal forerunner.

use qcs_kernels::likelihood::diag_gradient::DiagGradientArgs;
use qcs_kernels::likelihood::ep_carry::EpCarryArgs;
use qcs_kernels::likelihood::ep_damp::EpDampArgs;
use qcs_kernels::likelihood::ep_gradient::EpGradientArgs;
use qcs_kernels::likelihood::ep_moments::{EpMessagesArgs, EpMomentsArgs};
use qcs_kernels::likelihood::ep_reset::EpResetArgs;
use qcs_kernels::likelihood::ep_separate::EpSeparateArgs;
use qcs_kernels::likelihood::ep_settle::EpSettleArgs;
use qcs_kernels::likelihood::ep_start::EpStartArgs;

use super::{Call, Caller};
use crate::plan::{EpCarry, EpDamp, EpMoments, EpSeparate, EpSettle, EpStart, LikelihoodOp, Sites, TensorId};

impl Caller<'_> {
    pub(super) fn likelihood(&self, op: &LikelihoodOp, scratch: usize) -> Vec<Call> {
        vec![match *op {
            LikelihoodOp::EpStart {
                level,
                h_f,
                tau_f,
                start,
            } => self.ep_start(level, h_f, tau_f, start),
            LikelihoodOp::EpMoments(op) => return self.ep_moments(op, scratch).into(),
            LikelihoodOp::EpReset { sites } => self.ep_reset(sites),
            LikelihoodOp::EpCarry(op) => self.ep_carry(op),
            LikelihoodOp::EpDamp(op) => self.ep_damp(op),
            LikelihoodOp::EpSettle(op) => self.ep_settle(op),
            LikelihoodOp::EpSeparate(op) => self.ep_separate(op),
            LikelihoodOp::EpGradient { z, h_f, tau_f, g } => self.ep_gradient(z, h_f, tau_f, g),
            LikelihoodOp::DiagGradient { level, z, g } => self.diag_gradient(level, z, g),
        }]
    }

    fn ep_start(&self, level: TensorId, h_f: TensorId, tau_f: TensorId, start: EpStart) -> Call {
        Call::of(&EpStartArgs {
            level: self.tensor(level),
            h_f: self.tensor(h_f),
            tau_f: self.tensor(tau_f),
            sigma2: self.problem().sigma2_floored(),
            mean_diag: self.problem().mean_diag(),
            states: self.batch(),
            measurements: self.measurements(),
            matched: u32::from(start == EpStart::Matched),
            unused: 0,
        })
    }

    /// Means and variances of all cells, then the messages, which need the mean of the variances.
    fn ep_moments(&self, op: EpMoments, scratch: usize) -> [Call; 2] {
        let live = self.tensor_or_none(op.live);
        let (states, measurements) = (self.batch(), self.measurements());
        let moments = EpMomentsArgs {
            live,
            lower: self.at(self.layout.lower),
            upper: self.at(self.layout.upper),
            z: self.tensor(op.z),
            h_f: self.tensor(op.h_f),
            tau_f: self.tensor(op.tau_f),
            m_a: self.tensor(op.h_g),
            variances: self.at(scratch),
            states,
            measurements,
        };
        let messages = EpMessagesArgs {
            live,
            h_f: self.tensor(op.h_f),
            tau_f: self.tensor(op.tau_f),
            variances: self.at(scratch),
            h_g: self.tensor(op.h_g),
            tau_g: self.tensor(op.tau_g),
            states,
            measurements,
        };
        [Call::of(&moments), Call::of(&messages)]
    }

    fn ep_reset(&self, sites: Sites) -> Call {
        Call::of(&EpResetArgs {
            site_z: self.tensor(sites.z),
            h_g: self.tensor(sites.h_g),
            tau_g: self.tensor(sites.tau_g),
            count: self.tensor(sites.count),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn ep_carry(&self, op: EpCarry) -> Call {
        Call::of(&EpCarryArgs {
            resting: self.tensor(op.resting),
            z: self.tensor(op.z),
            site_z: self.tensor(op.sites.z),
            h_g: self.tensor(op.sites.h_g),
            tau_g: self.tensor(op.sites.tau_g),
            live: self.tensor(op.live),
            pace: self.tensor(op.pace),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn ep_damp(&self, op: EpDamp) -> Call {
        Call::of(&EpDampArgs {
            live: self.tensor(op.live),
            pace: self.tensor(op.pace),
            new_h_g: self.tensor(op.new_h_g),
            new_tau_g: self.tensor(op.new_tau_g),
            h_g: self.tensor(op.sites.h_g),
            tau_g: self.tensor(op.sites.tau_g),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn ep_settle(&self, op: EpSettle) -> Call {
        Call::of(&EpSettleArgs {
            new_h_f: self.tensor(op.new_h_f),
            new_tau_f: self.tensor(op.new_tau_f),
            h_g: self.tensor(op.sites.h_g),
            h_f: self.tensor(op.h_f),
            tau_f: self.tensor(op.tau_f),
            pace: self.tensor(op.pace),
            live: self.tensor(op.live),
            count: self.tensor(op.sites.count),
            tolerance: op.tolerance,
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn ep_separate(&self, op: EpSeparate) -> Call {
        Call::of(&EpSeparateArgs {
            level: self.tensor(op.level),
            eigenvalues: self.at(self.layout.eigenvalues),
            input: self.tensor(op.input),
            tau_g: self.tensor(op.tau_g),
            output: self.tensor(op.output),
            tau_f: self.tensor(op.tau_f),
            sigma2: self.problem().sigma2_floored(),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn ep_gradient(&self, z: TensorId, h_f: TensorId, tau_f: TensorId, g: TensorId) -> Call {
        Call::of(&EpGradientArgs {
            lower: self.at(self.layout.lower),
            upper: self.at(self.layout.upper),
            z: self.tensor(z),
            h_f: self.tensor(h_f),
            tau_f: self.tensor(tau_f),
            g: self.tensor(g),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }

    fn diag_gradient(&self, level: TensorId, z: TensorId, g: TensorId) -> Call {
        Call::of(&DiagGradientArgs {
            level: self.tensor(level),
            diag: self.at(self.layout.diag),
            lower: self.at(self.layout.lower),
            upper: self.at(self.layout.upper),
            z: self.tensor(z),
            g: self.tensor(g),
            sigma2: self.problem().sigma2_floored(),
            states: self.batch(),
            measurements: self.measurements(),
        })
    }
}
